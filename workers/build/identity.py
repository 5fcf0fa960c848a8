"""Identity of a kernel: whether two kernels run the same instructions.

Builds differ in text that does no work: the revision in `uname -v`, dates, build IDs. The identity
is a hash of the loaded contents of all files. Modules that are linked at load time, as on amd64,
also contribute their relocations.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, Section

_VERSION_TEXT = re.compile(rb"(?:@\(#\))?FreeBSD \d+\.\d[^\0]*\0*")
"""`version[]` and `sccs[]` of sys/conf/newvers.sh with revision, date, user and host, padded with
zeros.
"""
_REVISION = re.compile(rb"n\d+-[0-9a-f]{7,40}(?:-dirty)?")
"""Form of the revision in `version[]`, after the branch."""
_NOT_RUN = ("linker.hints",)
_NOT_RUN_SUFFIXES = (".debug", ".symbols")
_NOTES = (".note.gnu.build-id",)
_UNDEFINED = 0
_RESERVED = 0xFF00
"""Section numbers from here on are special: SHN_ABS, SHN_COMMON."""


def identity_of_file(data: bytes) -> str:
    """Hash of the loaded sections of a file, or of the whole file if it is not ELF."""
    digest = hashlib.sha256()
    try:
        elf = ELFFile(io.BytesIO(data))
        sections = list(elf.iter_sections())
        for section in sections:
            if _is_loaded(section):
                nobits = section["sh_type"] == "SHT_NOBITS"
                # Without version texts, whose lengths differ.
                content = b"" if nobits else _VERSION_TEXT.sub(b"", section.data())
                size = section["sh_size"] if nobits else len(content)
                digest.update(f"{section.name} {section['sh_type']} {size}\n".encode())
                digest.update(content)
            elif section["sh_type"] in ("SHT_RELA", "SHT_REL"):
                for line in _relocations(elf, sections, section):
                    digest.update(line.encode())
    except (ELFError, struct.error, IndexError):
        digest.update(data)
    return digest.hexdigest()


def _is_loaded(section: Section) -> bool:
    return bool(section["sh_flags"] & SH_FLAGS.SHF_ALLOC) and section.name not in _NOTES


def _relocations(elf: ELFFile, sections: list[Section], section: Section) -> Iterator[str]:
    """Relocations of a section: place, type and target.

    A symbol of the same file is identified by its address, others by name. See elf(5).
    """
    target = sections[section["sh_info"]]
    if not _is_loaded(target):
        return
    order, wide = "<" if elf.little_endian else ">", elf.elfclass == 64  # noqa: PLR2004 - bits
    word, signed, shift = ("Q", "q", 32) if wide else ("I", "i", 8)
    addend = signed if section["sh_type"] == "SHT_RELA" else ""
    symbols = _symbols(sections, sections[section["sh_link"]], order, wide=wide)
    yield f"relocations of {target.name}\n"
    for place, info, *added in struct.iter_unpack(f"{order}2{word}{addend}", section.data()):
        manner = info & ((1 << shift) - 1)
        yield f"{place} {manner} {symbols[info >> shift]} {added}\n"


def _symbols(sections: list[Section], table: Section, order: str, *, wide: bool) -> list[str]:
    """Targets of the symbols of a table."""
    names = sections[table["sh_link"]].data()
    found = []
    for entry in struct.iter_unpack(f"{order}{'IBBHQQ' if wide else 'IIIBBH'}", table.data()):
        name, value, home = (
            (entry[0], entry[4], entry[3]) if wide else (entry[0], entry[1], entry[5])
        )
        if home == _UNDEFINED or home >= _RESERVED:
            text = names[name : names.index(b"\0", name)].decode(errors="replace")
            found.append(f"{text} {home} {value}")
        else:
            found.append(f"{sections[home].name}+{value}")
    return found


def identity_of(directory: Path) -> str:
    """Hash of kernel and modules in an installed kernel directory, in hex."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.name in _NOT_RUN or path.suffix in _NOT_RUN_SUFFIXES:
            continue
        name = path.relative_to(directory).as_posix()
        digest.update(f"{name} {identity_of_file(path.read_bytes())}\n".encode())
    return digest.hexdigest()


def version_of(kernel: Path) -> str:
    """The revision in a kernel, such as `n302145-0a1b2c3d4e5f`, or "".

    `uname -v` prints it; see sys/conf/newvers.sh.
    """
    return next((revision for revision, _ in _revisions(kernel.read_bytes())), "")


def ident_of(data: bytes) -> str:
    """The configuration in a kernel (`sysctl kern.ident`), or ""."""
    # Of a reproducible build: nothing else follows the revision.
    return next((words[0] for _, words in _revisions(data) if len(words) == 1), "")


def _revisions(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """Revisions in version texts, and the words after them."""
    for text in _VERSION_TEXT.findall(data):
        if found := _REVISION.search(text):
            line = text[found.end() :].rstrip(b"\0")
            yield found[0].decode(), line.decode(errors="replace").split()


def build_id_of(data: bytes) -> str:
    """The build ID of a kernel in hex (`sysctl kern.build_id`), or ""."""
    with contextlib.suppress(ELFError):
        for section in ELFFile(io.BytesIO(data)).iter_sections():
            if section.name in _NOTES and isinstance(section, NoteSection):
                return "".join(str(note["n_desc"]) for note in section.iter_notes())
    return ""
