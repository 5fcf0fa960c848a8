"""Copies a kernel into a folder of its own below /boot and verifies the copy."""

from __future__ import annotations

import hashlib
import math
import shlex
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.artifacts import check_key
from netbisect.workers.build.identity import build_id_of, ident_of
from netbisect.workers.dut.freebsd_tools import free_kib
from netbisect.workers.dut.running_kernel import RunningKernel
from netbisect.workers.transport.errors import CommandError, LabFault
from netbisect.workers.transport.ssh import Machine

_KERNEL = PurePosixPath("kernel")
PREFIX = "kernel.nb-"
"""Prefix of test kernel folders."""
_DISK_MARGIN = 1.2
_SEND_TIMEOUT = 600.0
"""Seconds to send a kernel."""


@dataclass(frozen=True, slots=True)
class KernelContents:
    """Contents of a kernel archive."""

    hashes: dict[str, str]
    """SHA-256 by file name."""
    size: int
    """Size of the files in bytes."""
    build_id: str
    """Build ID of the kernel in hex, or ""."""
    ident: str
    """Configuration named in the kernel, or ""."""


@dataclass(frozen=True, slots=True)
class BootFolder:
    """A folder /boot, on the DUT or on the server of its root."""

    machine: Machine
    boot: str
    """Absolute path."""
    kept: int
    """Number of test kernels to keep."""
    running: str
    """Folder of the running kernel, which is never removed."""


def install_kernel(place: BootFolder, kernel: Kernel, archive: Path) -> tuple[str, KernelContents]:
    """Copies the kernel; returns the name of its folder, and the contents.

    Raises:
        LabFault: disk full, or damaged copy.
        ArtefactError: the archive is damaged.
        UnreachableError, HostKeyError, CommandError: the machine failed.
    """
    machine = place.machine
    folder = f"{PREFIX}{kernel.key[:12]}"
    target = f"{place.boot}/{folder}"
    work = f"{target}.new"
    contents = read_contents(archive, kernel.key)
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
        raise LabFault(Fault.DEPLOYMENT, f"{target} on {machine.address} is not what was sent")
    machine.run(["kldxref", work], ["mv", work, target], ["sync"])
    return folder, contents


def mismatch(running: RunningKernel, kernel: Kernel, contents: KernelContents) -> str:
    """Why the running kernel is another one than `kernel`, or ""."""
    if kernel.version not in running.version:
        return (
            f"the running kernel says {running.version!r}, which is not {kernel.version}: "
            "a stale or foreign kernel"
        )
    for name, actual, wanted in (
        ("build id", running.build_id, contents.build_id),
        ("configuration", running.ident, contents.ident),
    ):
        if actual and wanted and actual != wanted:
            return f"the running kernel has the {name} {actual}, ordered was {wanted}"
    return ""


def _make_room(place: BootFolder, folder: str, needed: int) -> None:
    """Removes old test kernels, and all of them if the disk is still too full.

    Raises:
        LabFault: disk full.
    """
    free, names = _look(place)
    ours = [
        name for name in names if name.startswith(PREFIX) and name not in (folder, place.running)
    ]
    kept = max(0, place.kept - 1)
    if ours[kept:]:
        free = _remove(place, ours[kept:])
    if free < needed and ours[:kept]:
        free = _remove(place, ours[:kept])
    if free < needed:
        why = (
            f"{place.boot} on {place.machine.address} has {free >> 20} MiB free; "
            f"{math.ceil(needed / (1 << 20))} are needed, and no test kernel is left to remove"
        )
        raise LabFault(Fault.DISK_FULL, why)


def _remove(place: BootFolder, folders: list[str]) -> int:
    """Removes folders; returns the free bytes."""
    place.machine.run(["rm", "-rf", *(f"{place.boot}/{name}" for name in folders)])
    return _look(place)[0]


def _look(place: BootFolder) -> tuple[int, list[str]]:
    """Free bytes, and file names by age, newest first.

    Raises:
        CommandError: unreadable output of df.
    """
    df = ["df", "-k", place.boot]
    output = place.machine.run(df, ["ls", "-1t", place.boot])
    _, disk, *names = output.splitlines() if output.count("\n") > 1 else ("", "")
    free = free_kib(disk)
    if free is None:
        raise CommandError(place.machine.address, shlex.join(df), 0, output)
    return free * 1024, names


def read_contents(archive: Path, key: str) -> KernelContents:
    """Reads an archive.

    Raises:
        ArtefactError: its content has another key.
    """
    hashes: dict[str, str] = {}
    size, build_id, ident = 0, "", ""
    check_key(archive, key)
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            data = stream.read()
            if PurePosixPath(member.name) == _KERNEL:
                build_id, ident = build_id_of(data), ident_of(data)
            hashes[member.name] = hashlib.sha256(data).hexdigest()
            size += member.size
    return KernelContents(hashes, size, build_id, ident)


def _hashes(output: str) -> dict[str, str]:
    """SHA-256 by file name, from `sha256 -r`."""
    pairs = (line.partition(" ") for line in output.splitlines())
    return {name.strip(): digest for digest, _, name in pairs}
