"""Writes the files of a small lab into a folder, and starts the lab they describe.

`lab.toml` does not show that the machines are simulated: it names SSH hosts, a power switch and
consoles, as that of any lab. Below the folder:

    lab.toml           for netbisect
    ssh/               OpenSSH configuration, key and known hosts
    simulator.json     for `python -m netbisect.demo.lab`
    machines/NAME/     disk and host key of each machine
    builder/           directory of the one builder; its first kernel is the known-good one
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from netbisect.bisect.model.entities import Failure
from netbisect.demo.lab.config import LabConfig, LabError, save
from netbisect.demo.lab.tar import unpack
from netbisect.demo.lab.testbeds import TESTBEDS, SimulatedTestbed, lab_toml
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.lab import load_lab

KERNEL_CONFIG = "GENERIC-NODEBUG"
_PORTS = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections: a router's port is free while it
reboots, and must still be free when it comes back."""


def prepare(
    place: Path,
    *,
    repository: Path,
    testbeds: Sequence[str | SimulatedTestbed] = ("c2558", "e5-2650"),
    compression: float = 300.0,
    seed: int = 1,
) -> None:
    """Writes a lab into the folder `place`, which must be absent or empty.

    Args:
        place: The folder.
        repository: The sample tree; the routers run the kernel of its first commit.
        testbeds: Testbeds, or their names in `TESTBEDS`.
        compression: Lab seconds per real second.
        seed: Random seed of the machines.

    Raises:
        LabError: The lab cannot be written; nothing remains.
    """
    unknown = [one for one in testbeds if isinstance(one, str) and one not in TESTBEDS]
    if unknown or not testbeds:
        raise LabError(f"no such testbed: {', '.join(unknown)}; found {', '.join(TESTBEDS)}")
    if place.exists() and any(place.iterdir()):
        raise LabError(f"{place} is not empty: a lab is written into a folder of its own")
    place = place.resolve()
    try:
        place.mkdir(parents=True, exist_ok=True)
        _write(
            place,
            repository.resolve(),
            [TESTBEDS[one] if isinstance(one, str) else one for one in testbeds],
            compression,
            seed,
        )
    except BaseException:
        shutil.rmtree(place)
        raise


def _write(
    place: Path, repository: Path, beds: Sequence[SimulatedTestbed], compression: float, seed: int
) -> None:
    names = [machine for bed in beds for machine in bed.machines]
    with free_ports(len(names) + 2) as ports:
        doors = dict(zip([*names, "power", "console"], ports, strict=True))
    _write_keys(place, doors)
    save(LabConfig(tuple(beds), doors, compression, seed), place / "simulator.json")
    lab = place / "lab.toml"
    lab.write_text(lab_toml(beds, repository, place / "ssh" / "config", KERNEL_CONFIG))
    archive = _first_kernel(lab, repository)
    for bed in beds:
        for root in bed.roots(place / "machines"):
            folder = root / "boot" / "kernel"
            folder.mkdir(parents=True)
            with tarfile.open(archive) as tar:
                unpack(tar, folder)


@contextlib.contextmanager
def free_ports(number: int) -> Iterator[list[int]]:
    """Unused TCP ports of the loopback interface, reserved within the block.

    Ports are allocated in sequence over all calls of a user, so that a port that is not in use yet
    is returned again only after all others.

    Raises:
        LabError: Too few ports are free, or the counter in the temporary folder cannot be opened.
    """
    found: list[int] = []
    with contextlib.ExitStack() as held:
        with _locked(Path(tempfile.gettempdir()) / f"netbisect-ports-{os.getuid()}") as counter:
            text = counter.read()
            start = int(text) % len(_PORTS) if text.isdecimal() else 0
            for port in (*_PORTS[start:], *_PORTS[:start]):
                probe = socket.socket()
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    probe.close()
                    continue
                held.enter_context(probe)
                found.append(port)
                if len(found) == number:
                    break
            else:
                raise LabError(f"fewer than {number} TCP ports of 127.0.0.1 are free")
            counter.seek(0)
            counter.truncate()
            counter.write(str(port + 1 - _PORTS.start))
        yield found


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[TextIO]:
    """Opens a file, or creates it, and locks it within the block."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise LabError(f"{path} cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "r+", encoding="ascii", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


_HOST = """\
Host {name}
    HostName 127.0.0.1
    HostKeyAlias {name}
    Port {port}
"""
_ALL = """\
Host *
    User root
    IdentityFile "{folder}/id"
    IdentitiesOnly yes
    UserKnownHostsFile "{folder}/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    PreferredAuthentications publickey
    AddressFamily inet
    LogLevel ERROR
"""


def _write_keys(place: Path, doors: dict[str, int]) -> None:
    folder = place / "ssh"
    folder.mkdir()
    public = _new_key(folder / "id", "netbisect")
    (folder / "authorized_keys").write_text(public)
    known = []
    for name in doors:
        machine = place / "machines" / name
        machine.mkdir(parents=True)
        known.append(f"{name} {_new_key(machine / 'host_key', name)}")
    (folder / "known_hosts").write_text("".join(known))
    hosts = [_HOST.format(name=name, port=port) for name, port in doors.items()]
    (folder / "config").write_text("\n".join([*hosts, _ALL.format(folder=folder)]))


def _new_key(path: Path, comment: str) -> str:
    """Creates a key pair; returns the public key."""
    _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
    return path.with_name(f"{path.name}.pub").read_text()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LabError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise LabError(f"`{shlex.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def _first_kernel(lab_file: Path, repository: Path) -> Path:
    """Builds the kernel of the first commit; returns its archive."""
    git = ["git", "--git-dir", str(repository)]
    first = _run([*git, "rev-list", "--first-parent", "--max-parents=0", "main"]).split()[-1]
    lab = load_lab(lab_file)
    build = KernelBuild(lab.builders[0], lab.source, first, KERNEL_CONFIG, lambda _: None)
    kernel = build.run()
    if isinstance(kernel, Failure):
        raise LabError(f"the kernel of the first commit cannot be built: {kernel.why}")
    return build.kernels.archive(kernel.key)
