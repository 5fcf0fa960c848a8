"""Compiles and links a program that speaks to the kernel: `program.py SOURCE HEADER OUT`.

The header is the one by which it speaks. What it says goes into the program as it goes into the
kernel's module, so that each can see whether the other one means the same.
"""

import sys
from pathlib import Path

from kernel import compile_file, link, spoken


def main():
    source, header, out = (Path(argument) for argument in sys.argv[1:4])
    errors = []
    compiled = compile_file(header.parent, source, errors)
    if errors:
        print("\n".join(errors), file=sys.stderr)
        sys.exit(f"*** [{out.name}] Error code 1")
    link(out, [compiled], "", spoken(header))
    out.chmod(0o755)


main()
