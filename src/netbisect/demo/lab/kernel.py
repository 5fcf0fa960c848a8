"""Reads a kernel file as a machine would: what runs, and what it costs a packet."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from netbisect.workers.identity import build_id_of


class NotBootableError(ValueError):
    """The loader cannot load this file."""


@dataclass(frozen=True, slots=True)
class Function:
    """A part of the code that a packet pays for."""

    name: str
    place: str
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel or module in memory."""

    version: str
    costs: dict[str, int]
    """Nanoseconds by place."""
    panics: tuple[str, ...]
    text: str
    """Hash of its code."""
    spoken: str
    """Structures by which a firewall's module and its program speak to each other."""
    build_id: str
    """As the linker gave it, in hex."""
    functions: tuple[Function, ...] = ()


def read(path: Path) -> Image:
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
    return Image(
        version=version[0].decode() if version else "",
        costs=costs,
        panics=panics,
        build_id=build_id_of(data),
        text=hashlib.sha256(text + parts["set_pathcost"]).hexdigest(),
        spoken=parts.get("set_spoken", b"").decode(errors="replace"),
        functions=tuple(_functions(text.decode(errors="replace"))),
    )


def _functions(code: str) -> Iterator[Function]:
    """The functions of the code with what they cost."""
    for name, body in re.findall(r"(\w+)\([^()]*\) \{([^{}]*)", code):
        for place, nanoseconds in re.findall(r"\bPATH_COST\((\w+), (\d+)\);", body):
            yield Function(name, place, int(nanoseconds))
