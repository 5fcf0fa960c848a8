"""Commands on files."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import SimulatedMachine
from netbisect.demo.lab.shell import CommandFailedError, Shell, named
from netbisect.demo.lab.tar import unpack

_DISK_KIB = 20_307_196
_USED_KIB = 5_034_924
_NONE = "No such file or directory"


def cd(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Changes the folder of the session."""
    place = machine.path(arguments[0], shell.folder)
    if not place.is_dir():
        raise CommandFailedError(f"cd: {arguments[0]}: {_NONE}", 2)
    shell.folder = machine.clean(arguments[0], shell.folder)


def ls(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Lists a folder, with `-t` newest first."""
    options = "".join(word[1:] for word in arguments if word.startswith("-"))
    names = _names(arguments) or ["."]
    place = machine.path(names[0], shell.folder)
    if not place.exists():
        raise CommandFailedError(f"ls: {names[0]}: {_NONE}")
    found = sorted(place.iterdir() if place.is_dir() else [place])
    if "t" in options:
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    shell.out("".join(f"{path.name}\n" for path in found))


def cat(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Prints files."""
    for name in arguments:
        shell.out(_read(machine, shell, "cat", name).decode(errors="replace"))


def grep(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`grep -c TEXT FILE FILE ...`."""
    text, *names = arguments[1:]
    for name in names:
        lines = _read(machine, shell, "grep", name).decode(errors="replace").splitlines()
        shell.out(f"{name}:{sum(text in line for line in lines)}\n")


def head(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`head -c BYTES FILE`."""
    data = _read(machine, shell, "head", arguments[-1])
    shell.out(data[: int(arguments[1])].decode(errors="replace"))


def sha256(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`sha256 -r`: hash, space, name."""
    for name in _names(arguments):
        data = _read(machine, shell, "sha256", name)
        shell.out(f"{hashlib.sha256(data).hexdigest()} {name}\n")


def _names(arguments: list[str]) -> list[str]:
    """Arguments without options."""
    return [word for word in arguments if not word.startswith("-")]


def _read(machine: SimulatedMachine, shell: Shell, command: str, name: str) -> bytes:
    try:
        return machine.path(name, shell.folder).read_bytes()
    except FileNotFoundError:
        raise CommandFailedError(f"{command}: {name}: {_NONE}") from None
    except IsADirectoryError:
        raise CommandFailedError(f"{command}: {name}: Is a directory") from None


def mkdir(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`mkdir -p`."""
    for name in _names(arguments):
        if not machine.clean(name, shell.folder).startswith("/tmp/"):  # noqa: S108 - in memory
            _need_room(machine, "mkdir")
        _need_writable(machine, shell, "mkdir", name)
        machine.path(name, shell.folder).mkdir(parents=True, exist_ok=True)


def rm(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`rm -rf`."""
    for name in _names(arguments):
        place = machine.path(name, shell.folder)
        if place.exists():
            _need_writable(machine, shell, "rm", name)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def mv(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Renames; into the target when that is a folder."""
    _need_writable(machine, shell, "mv", arguments[1])
    old, new = (machine.path(name, shell.folder) for name in arguments)
    if not old.exists():
        raise CommandFailedError(f"mv: rename {arguments[0]} to {arguments[1]}: {_NONE}")
    old.rename(new / old.name if new.is_dir() else new)


async def tar(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`tar -xzpf - -C FOLDER`."""
    data = await shell.stdin.read()
    folder = arguments[-1]
    place = machine.path(folder, shell.folder)
    if not place.is_dir():
        raise CommandFailedError(f"tar: could not chdir to '{folder}'")
    _need_room(machine, "tar")
    _need_writable(machine, shell, "tar", folder)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            unpack(archive, place)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CommandFailedError(
            "tar: Truncated input file (needed more bytes)\n"
            "tar: Error exit delayed from previous errors."
        ) from error
    if InjectedFault.LOSES_WRITES in machine.faults:
        for path in place.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                path.unlink()  # its mode may forbid writing
                path.write_bytes(data[: len(data) // 2])


def _need_room(machine: SimulatedMachine, command: str) -> None:
    if InjectedFault.DISK_FULL in machine.faults:
        raise CommandFailedError(f"{command}: No space left on device")


def _need_writable(machine: SimulatedMachine, shell: Shell, command: str, name: str) -> None:
    if machine.read_only(name, shell.folder):
        raise CommandFailedError(f"{command}: {name}: Read-only file system")


async def tee(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`tee FILE`."""
    (name,) = arguments
    data = await shell.stdin.read()
    _need_writable(machine, shell, "tee", name)
    _need_room(machine, "tee")
    machine.path(name, shell.folder).write_bytes(data)
    shell.out(data.decode())


def du(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`du -sk FOLDER`."""
    place = machine.path(arguments[-1], shell.folder)
    if not place.exists():
        raise CommandFailedError(f"du: {arguments[-1]}: {_NONE}")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    shell.out(f"{-(-size // 1024)}\t{arguments[-1]}\n")


def df(machine: SimulatedMachine, shell: Shell, _arguments: list[str]) -> None:
    """`df -k`."""
    # Below 0: root has filled the reserve of UFS, too.
    free = -4096 if InjectedFault.DISK_FULL in machine.faults else _DISK_KIB - _USED_KIB
    used = _DISK_KIB - free
    shell.out(
        "Filesystem 1024-blocks    Used    Avail Capacity  Mounted on\n"
        f"/dev/ada0p2   {_DISK_KIB:9} {used:7} {free:8} {100 * used // _DISK_KIB:6}%   /\n"
    )


def kldxref(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Writes linker.hints for a folder of modules."""
    place: Path = machine.path(arguments[0], shell.folder)
    if not place.is_dir():
        raise CommandFailedError(f"kldxref: {arguments[0]}: {_NONE}")
    names = sorted(path.name for path in place.glob("*.ko"))
    (place / "linker.hints").write_text("".join(f"{name}\n" for name in names))


def sync(_machine: SimulatedMachine, _shell: Shell, _arguments: list[str]) -> None:
    """Does nothing."""


FILES = named(cat, cd, df, du, grep, head, kldxref, ls, mkdir, mv, rm, sha256, sync, tar, tee)
