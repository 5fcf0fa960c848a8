"""Prints the size of the project: `make size`.

python -m benchmarks.size
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

DEMONSTRATION = "src/netbisect/demo"
PARTS = {
    "product": ("bisect", "store", "workers", "steps", "reports", "src/netbisect"),
    "demonstration": (DEMONSTRATION,),
    "tests": ("tests",),
    "benchmarks": ("benchmarks",),
}


def modules(part: str) -> Iterator[Path]:
    """The Python files of a part, without links and without the sample source tree."""
    for folder in PARTS[part]:
        for path in Path(folder).rglob("*.py"):
            elsewhere = part == "product" and path.is_relative_to(DEMONSTRATION)
            if not elsewhere and not {"__pycache__", "base"} & set(path.parts):
                yield path


def function_lengths(source: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.end_lineno - node.lineno + 1


def main() -> None:
    print(f"{'':<15}{'modules':>9}{'lines':>9}{'lines per function':>21}")
    for part in PARTS:
        sources = [path.read_text() for path in modules(part)]
        lines = sum(len(source.splitlines()) for source in sources)
        mean = fmean(length for source in sources for length in function_lengths(source))
        print(f"{part:<15}{len(sources):>9,}{lines:>9,}{mean:>21.1f}")


if __name__ == "__main__":
    main()
