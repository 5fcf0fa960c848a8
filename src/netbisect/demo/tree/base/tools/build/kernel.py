"""Compiles and links the kernel of this tree.

The language is what its sources are written in: C to the eye, of which four things are read.

    PATH_COST(where, nanoseconds);   what a packet pays on its way through this function
    PANIC_AT_BOOT("message");        a bug that shows when the kernel starts
    #include "file.h"                must exist below sys/
    braces                           must balance

Comments and white space make no difference to the result; everything else does. An object that is
newer than its source is kept. The linker takes the objects in the order of their names, or with
--shuffle-sections=.text*=SEED in that of the seed, which changes where the code lies and nothing
else. The output is an ELF file: .text holds the code, .data the version, set_pathcost what packets
pay, set_spoken by which structures a module and its program speak to each other.
"""

import fnmatch
import hashlib
import json
import random
import re
import struct
import sys
from pathlib import Path

COST = re.compile(r"\bPATH_COST\((\w+), (\d+)\);")
PANIC = re.compile(r'\bPANIC_AT_BOOT\("([^"]*)"\);')
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
SHUFFLE = re.compile(r"--shuffle-sections=([^=\s]+)=(\d+)")
MODULES = {"pf": "netpfil/pf", "ipfw": "netpfil/ipfw"}
SPOKEN = {"pf": "net/pfvar.h", "ipfw": "netinet/ip_fw.h"}
DEVICES = {"em": "dev/e1000", "ix": "dev/ixgbe", "cxgbe": "dev/cxgbe"}


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def compile_file(top, path, errors):
    """The code of one source file, its costs, its panics and the headers it needs."""
    source = COMMENT.sub(blank, path.read_text())
    name = path.as_posix()
    depth = 0
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("#error"):
            errors.append(f"{name}:{number}:2: error: {line[7:].strip()}")
        for header in INCLUDE.findall(line):
            if not (top / header).is_file():
                errors.append(f"{name}:{number}:10: fatal error: '{header}' file not found")
        depth += line.count("{") - line.count("}")
        if depth < 0:
            errors.append(f"{name}:{number}:1: error: extraneous closing brace ('}}')")
            depth = 0
    if depth:
        errors.append(f"{name}:{number}:1: error: expected '}}'")
    print(f"cc -c {name}")
    code = " ".join(source.split())
    return code, COST.findall(source), PANIC.findall(source), INCLUDE.findall(source)


def compiled(top, path, objdir, errors):
    """Result of compiling, or the earlier one if neither source nor headers have changed."""
    kept = objdir / (path.relative_to(top).as_posix().replace("/", "-") + ".o")
    if kept.is_file() and kept.stat().st_mtime_ns > path.stat().st_mtime_ns:
        found = json.loads(kept.read_text())
        if all((top / header).is_file() for header in found[3]):
            return found
    before = len(errors)
    found = compile_file(top, path, errors)
    if len(errors) == before:
        kept.write_text(json.dumps(found))
    return found


def section(name, kind, flags, data):
    return {"name": name, "kind": kind, "flags": flags, "data": data}


def elf(sections):
    """A little-endian ELF64 executable with these sections."""
    names = b"\0"
    for one in sections:
        one["at"] = len(names)
        names += one["name"].encode() + b"\0"
    shstrtab = section(".shstrtab", 3, 0, names + b".shstrtab\0")
    shstrtab["at"] = len(names)
    sections = [*sections, shstrtab]
    offset = 64
    body = b""
    for one in sections:
        body += b"\0" * (-len(body) % 16)
        one["offset"] = offset + len(body)
        body += one["data"]
    body += b"\0" * (-len(body) % 16)
    headers = b"\0" * 64
    for one in sections:
        headers += struct.pack(
            "<IIQQQQIIQQ",
            one["at"],
            one["kind"],
            one["flags"],
            0xFFFFFFFF80200000 + one["offset"] if one["flags"] & 2 else 0,
            one["offset"],
            len(one["data"]),
            0,
            0,
            16,
            0,
        )
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01\x09",
        2,
        62,
        1,
        0xFFFFFFFF80200000,
        0,
        offset + len(body),
        0,
        64,
        0,
        0,
        64,
        len(sections) + 1,
        len(sections),
    )
    return header + body + headers


def spoken(header):
    """The structures in a header: comments and white space make no difference."""
    return " ".join(COMMENT.sub(blank, header.read_text()).split()) if header.is_file() else ""


def link(out, objects, version, spoken=""):
    text = "\n".join(one[0] for one in objects).encode()
    costs = "".join(f"{where} {ns}\n" for one in objects for where, ns in one[1])
    panics = "\0".join(message for one in objects for message in one[2])
    sections = [section(".text", 1, 6, text), section("set_pathcost", 1, 2, costs.encode())]
    if panics:
        sections.append(section("set_sysinit", 1, 2, panics.encode() + b"\0"))
    if spoken:
        sections.append(section("set_spoken", 1, 2, spoken.encode()))
    sections.append(section(".data", 1, 3, version.encode() + b"\n\0"))
    build_id = hashlib.sha1(b"".join(one["data"] for one in sections)).digest()
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU") + build_id
    sections.append(section(".note.gnu.build-id", 7, 2, note))
    out.write_bytes(elf(sections))
    print(f"ld -o {out.name}")


def shuffle(objects, flags):
    """The objects in the order in which the linker takes them."""
    for glob, seed in SHUFFLE.findall(flags):
        if fnmatch.fnmatch(".text", glob):
            objects = random.Random(int(seed)).sample(objects, len(objects))
    return objects


def main():
    top, objdir, modules = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split()
    flags = " ".join(sys.argv[4:])
    devices = re.findall(r"^device\s+(\w+)", (objdir / "config").read_text(), re.MULTILINE)
    version = re.search(r'version\[\] = "([^"]*)"', (objdir / "vers.c").read_text())[1]
    errors = []
    parts = {name: [] for name in ("kernel", *MODULES)}
    left_out = [folder for device, folder in DEVICES.items() if device not in devices]
    left_out += [folder for module, folder in MODULES.items() if module not in modules]
    for path in sorted(top.rglob("*.c")):
        place = path.relative_to(top).as_posix()
        if any(place.startswith(folder + "/") for folder in left_out):
            continue
        part = next((m for m, folder in MODULES.items() if place.startswith(folder)), "kernel")
        parts[part].append(compiled(top, path, objdir, errors))
    if errors:
        print("\n".join(errors), file=sys.stderr)
        print(f"{len(errors)} error{'s'[: len(errors) != 1]} generated.", file=sys.stderr)
        sys.exit("*** [kernel] Error code 1")
    link(objdir / "kernel", shuffle(parts["kernel"], flags), version)
    for name in modules:
        structures = spoken(top / SPOKEN[name])
        link(objdir / f"{name}.ko", shuffle(parts[name], flags), "", structures)


if __name__ == "__main__":
    main()
