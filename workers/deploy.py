"""Puts a kernel on the DUT's disk, beside the known-good one, and proves that it arrived."""

from __future__ import annotations

import hashlib
import math
import tarfile
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Kernel, Stage
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
)
from netbisect.workers.lab import Testbed
from netbisect.workers.ssh import Machine

PREFIX = "kernel.nb-"
"""Of the folders in /boot that are ours to remove."""
_DISK_MARGIN = 1.2
_SEND_TIMEOUT = 600.0
"""Seconds for a kernel to arrive."""


def install(machine: Machine, testbed: Testbed, kernel: Kernel, archive: Path) -> str:
    """Puts the kernel into a folder of its own below /boot; returns the folder's name.

    Raises:
        LabFault: no room, or what arrived is not what was sent.
    """
    folder = f"{PREFIX}{kernel.key[:12]}"
    place = f"/boot/{folder}"
    work = f"{place}.new"
    hashes, size = _contents(archive)
    look = ["sha256", "-r", *sorted(hashes)]
    try:
        there = machine.try_run(["cd", place], look)
        if there is not None and _hashes(there) == hashes:
            return folder
        _make_room(machine, testbed.dut.kept_kernels - 1, folder, math.ceil(size * _DISK_MARGIN))
        with archive.open("rb") as stream:
            arrived = machine.run(
                ["rm", "-rf", work, place],
                ["mkdir", "-p", work],
                ["tar", "-xzpf", "-", "-C", work],
                ["cd", work],
                look,
                stdin=stream,
                timeout=_SEND_TIMEOUT,
            )
        if _hashes(arrived) != hashes:
            raise LabFault.of(
                Fault.DEPLOYMENT, f"{place} on {machine.address} is not what was sent"
            )
        machine.run(["kldxref", work], ["mv", work, place], ["sync"])
    except (UnreachableError, HostKeyError, CommandError) as error:
        raise lab_fault(Stage.DEPLOY, error) from error
    return folder


def _make_room(machine: Machine, kept: int, folder: str, needed: int) -> None:
    """Removes our oldest kernels beyond those that may stay, and those too if room is short.

    Raises:
        LabFault: there is no room all the same.
    """
    bootfile, free, names = _look(machine)
    ours = [
        name
        for name in names
        if name.startswith(PREFIX) and name != folder and bootfile != f"/boot/{name}/kernel"
    ]
    surplus, cherished = ours[max(0, kept) :], ours[: max(0, kept)]
    if surplus:
        free = _remove(machine, surplus)
    if free < needed and cherished:
        free = _remove(machine, cherished)
    if free < needed:
        raise LabFault.of(
            Fault.DISK_FULL,
            f"/boot on {machine.address} has {free >> 20} MiB free; "
            f"{math.ceil(needed / (1 << 20))} are needed, and there is nothing of ours "
            "left to remove",
        )


def _remove(machine: Machine, folders: list[str]) -> int:
    """Removes these; the bytes free in /boot then."""
    machine.run(["rm", "-rf", *(f"/boot/{name}" for name in folders)])
    return _look(machine)[1]


def _look(machine: Machine) -> tuple[str, int, list[str]]:
    """File of the running kernel, bytes free in /boot, names in it, newest first."""
    bootfile, _, disk, *names = machine.run(
        ["sysctl", "-n", "kern.bootfile"], ["df", "-k", "/boot"], ["ls", "-1t", "/boot"]
    ).splitlines()
    return bootfile, int(disk.split()[3]) * 1024, names


def _contents(archive: Path) -> tuple[dict[str, str], int]:
    """SHA-256 by file name, and the bytes they take unpacked."""
    hashes: dict[str, str] = {}
    size = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            # It is an io.BufferedReader, of which its declared type, IO, lacks readinto.
            digest = hashlib.file_digest(stream, "sha256")  # type: ignore[arg-type]
            hashes[member.name] = digest.hexdigest()
            size += member.size
    return hashes, size


def _hashes(said: str) -> dict[str, str]:
    """SHA-256 by file name, as `sha256 -r` says."""
    found = {}
    for line in said.splitlines():
        digest, _, name = line.partition(" ")
        found[name.strip()] = digest
    return found
