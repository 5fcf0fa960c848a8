"""Tells whether two kernels run the same instructions.

Every build differs in text that does no work: the revision in `uname -v`, dates, the build-id
note. The identity is a hash of the rest: of what is loaded into memory, file by file.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

_VERSION_TEXT = re.compile(rb"(?:@\(#\))?FreeBSD \d+\.\d[^\0]*")
"""`version[]` and `sccs[]` of sys/conf/newvers.sh: they name revision, date, user and host."""
_REVISION = re.compile(rb"n\d+-[0-9a-f]{7,40}(?:-dirty)?")
"""As newvers.sh puts it into `version[]`, after the name of the branch."""
_NOT_RUN = ("linker.hints",)
_NOT_RUN_SUFFIXES = (".debug", ".symbols")
_NOTES = (".note.gnu.build-id",)


def _mask(data: bytes) -> bytes:
    """Without version texts: `n9-...` is a byte shorter than `n10-...`, and does as much work."""
    return _VERSION_TEXT.sub(b"", data)


def identity_of_file(data: bytes) -> str:
    """Hash of the parts of a file that are loaded, in hex; of all of it when it is no ELF file."""
    digest = hashlib.sha256()
    try:
        elf = ELFFile(io.BytesIO(data))
        for section in elf.iter_sections():
            if not section["sh_flags"] & SH_FLAGS.SHF_ALLOC or section.name in _NOTES:
                continue
            nobits = section["sh_type"] == "SHT_NOBITS"
            data = b"" if nobits else _mask(section.data())
            size = section["sh_size"] if nobits else len(data)
            digest.update(f"{section.name} {section['sh_type']} {size}\n".encode())
            digest.update(data)
    except ELFError:
        digest.update(data)
    return digest.hexdigest()


def identity_of(directory: Path) -> str:
    """Hash over the kernel and its modules in an installed kernel directory, in hex."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.name in _NOT_RUN or path.suffix in _NOT_RUN_SUFFIXES:
            continue
        name = path.relative_to(directory).as_posix()
        digest.update(f"{name} {identity_of_file(path.read_bytes())}\n".encode())
    return digest.hexdigest()


def version_of(kernel: Path) -> str:
    """The revision text inside a kernel file, such as `n302145-0a1b2c3d4e5f`; "" when none.

    This is what `uname -v` will show; see sys/conf/newvers.sh.
    """
    for text in _VERSION_TEXT.findall(kernel.read_bytes()):
        found = _REVISION.search(text)
        if found:
            return found[0].decode()
    return ""
