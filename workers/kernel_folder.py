"""Puts a kernel into a folder below a /boot, beside the known-good one, and proves its arrival."""

from __future__ import annotations

import hashlib
import math
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Kernel
from netbisect.workers.artefact import unpacked
from netbisect.workers.aside import aside
from netbisect.workers.faults import CommandError, LabFault
from netbisect.workers.freebsd import count
from netbisect.workers.identity import build_id_of, ident_of
from netbisect.workers.running import Running
from netbisect.workers.ssh import Machine

_KERNEL = PurePosixPath("kernel")
PREFIX = "kernel.nb-"
"""Of the folders in /boot that are ours to remove."""
_DISK_MARGIN = 1.2
_SEND_TIMEOUT = 600.0
"""Seconds for a kernel to arrive."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a kernel's archive."""

    hashes: dict[str, str]
    """SHA-256 by file name."""
    size: int
    """Bytes that the files take."""
    build_id: str
    """Of the kernel, in hex; "" when its linker gave it none."""
    ident: str
    """Configuration that the kernel says it is of; "" when it does not."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder /boot, on the DUT itself or where it has its root file system from."""

    machine: Machine
    boot: str
    """Its absolute path there."""
    kept: int
    """Kernels of ours that may stay."""
    running: str
    """Folder of the kernel that runs, which stays in any case."""


def put(place: Place, kernel: Kernel, archive: Path) -> tuple[str, Contents]:
    """Puts the kernel into a folder of its own; returns the folder's name, and what is in it.

    Raises:
        LabFault: no room, or what arrived is not what was sent.
        ArtefactError: the archive is not that kernel's.
        UnreachableError, HostKeyError, CommandError: the machine does not take it.
    """
    machine = place.machine
    folder = f"{PREFIX}{kernel.key[:12]}"
    target = f"{place.boot}/{folder}"
    work = f"{target}.new"
    contents = aside(partial(contents_of, archive, kernel.key))
    look = ["sha256", "-r", *sorted(contents.hashes)]
    there = machine.try_run(["cd", target], look)
    if there is not None and _hashes(there) == contents.hashes:
        return folder, contents
    _make_room(place, folder, math.ceil(contents.size * _DISK_MARGIN))
    with archive.open("rb") as stream:
        arrived = machine.run(
            ["rm", "-rf", work, target],
            ["mkdir", "-p", work],
            ["tar", "-xzpf", "-", "-C", work],
            ["cd", work],
            look,
            stdin=stream,
            timeout=_SEND_TIMEOUT,
        )
    if _hashes(arrived) != contents.hashes:
        raise LabFault.of(Fault.DEPLOYMENT, f"{target} on {machine.address} is not what was sent")
    machine.run(["kldxref", work], ["mv", work, target], ["sync"])
    return folder, contents


def mismatch(running: Running, kernel: Kernel, contents: Contents) -> str:
    """Why what runs is not that kernel, by what it says of itself; "" when nothing speaks so."""
    if kernel.version not in running.version:
        return (
            f"the running kernel says {running.version!r}, which is not {kernel.version}: "
            "a stale or foreign kernel"
        )
    for name, said, wanted in (
        ("build id", running.build_id, contents.build_id),
        ("configuration", running.ident, contents.ident),
    ):
        if said and wanted and said != wanted:
            return f"the running kernel has the {name} {said}, ordered was {wanted}"
    return ""


def _make_room(place: Place, folder: str, needed: int) -> None:
    """Removes our oldest kernels beyond those that may stay, and those too if room is short.

    Raises:
        LabFault: there is no room all the same.
    """
    free, names = _look(place)
    ours = [
        name for name in names if name.startswith(PREFIX) and name not in (folder, place.running)
    ]
    kept = max(0, place.kept - 1)
    surplus, cherished = ours[kept:], ours[:kept]
    if surplus:
        free = _remove(place, surplus)
    if free < needed and cherished:
        free = _remove(place, cherished)
    if free < needed:
        raise LabFault.of(
            Fault.DISK_FULL,
            f"{place.boot} on {place.machine.address} has {free >> 20} MiB free; "
            f"{math.ceil(needed / (1 << 20))} are needed, and there is nothing of ours "
            "left to remove",
        )


def _remove(place: Place, folders: list[str]) -> int:
    """Removes these; the bytes free then."""
    place.machine.run(["rm", "-rf", *(f"{place.boot}/{name}" for name in folders)])
    return _look(place)[0]


def _look(place: Place) -> tuple[int, list[str]]:
    """Bytes free, and the names that are there, newest first.

    Raises:
        CommandError: df does not tell.
    """
    df = ["df", "-k", place.boot]
    said = place.machine.run(df, ["ls", "-1t", place.boot])
    _, disk, *names = said.splitlines() if said.count("\n") > 1 else ("", "")
    words = disk.split()
    free = count(words[3]) if len(words) > 3 else None  # noqa: PLR2004 - device, blocks, used, free
    if free is None:
        raise CommandError(place.machine.address, shlex.join(df), 0, said)
    return free * 1024, names


def contents_of(archive: Path, key: str) -> Contents:
    """What is in an archive, which is read once.

    Raises:
        ArtefactError: it is not the one with that key.
    """
    hashes: dict[str, str] = {}
    size = 0
    build_id = ident = ""
    with unpacked(archive, key) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            if PurePosixPath(member.name) == _KERNEL:
                image = stream.read()
                build_id, ident = build_id_of(image), ident_of(image)
                hashes[member.name] = hashlib.sha256(image).hexdigest()
            else:
                # It is an io.BufferedReader, of which its declared type, IO, lacks readinto.
                digest = hashlib.file_digest(stream, "sha256")  # type: ignore[arg-type]
                hashes[member.name] = digest.hexdigest()
            size += member.size
    return Contents(hashes, size, build_id, ident)


def _hashes(said: str) -> dict[str, str]:
    """SHA-256 by file name, as `sha256 -r` says."""
    found = {}
    for line in said.splitlines():
        digest, _, name = line.partition(" ")
        found[name.strip()] = digest
    return found
