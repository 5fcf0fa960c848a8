"""Reads the simulated properties of a kernel file."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from netbisect.workers.build.identity import build_id_of


class NotBootableError(ValueError):
    """The file is not a bootable kernel."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a cost per packet."""

    name: str
    place: str
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A loaded kernel or module."""

    version: str
    costs: dict[str, int]
    """Nanoseconds by cost centre."""
    panics: tuple[str, ...]
    text: str
    """Hash of the code."""
    spoken: str
    """Structures shared by a firewall module and its program."""
    build_id: str
    """Build ID in hexadecimal."""
    functions: tuple[Function, ...] = ()


def read(path: Path) -> LoadedImage:
    """The image in a file.

    Raises:
        NotBootableError: there is none.
    """
    try:
        data = path.read_bytes()
        elf = ELFFile(io.BytesIO(data))
        parts = {section.name: section.data() for section in elf.iter_sections()}
        text = parts[".text"]
        lines = parts["set_pathcost"].decode().splitlines()
    except (OSError, ELFError, KeyError, UnicodeDecodeError) as error:
        raise NotBootableError(f"can't load '{path.name}'") from error
    costs: dict[str, int] = {}
    for line in lines:
        place, nanoseconds = line.split()
        costs[place] = costs.get(place, 0) + int(nanoseconds)
    panics = tuple(part for part in parts.get("set_sysinit", b"").decode().split("\0") if part)
    version = re.search(rb"FreeBSD [^\0\n]*", parts.get(".data", b""))
    return LoadedImage(
        version=version[0].decode() if version else "",
        costs=costs,
        panics=panics,
        build_id=build_id_of(data),
        text=hashlib.sha256(text + parts["set_pathcost"]).hexdigest(),
        spoken=parts.get("set_spoken", b"").decode(errors="replace"),
        functions=tuple(_functions(text.decode(errors="replace"))),
    )


def _functions(code: str) -> Iterator[Function]:
    """The functions with their costs."""
    for name, body in re.findall(r"(\w+)\([^()]*\) \{([^{}]*)", code):
        for place, nanoseconds in re.findall(r"\bPATH_COST\((\w+), (\d+)\);", body):
            yield Function(name, place, int(nanoseconds))
