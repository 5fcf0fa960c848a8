"""A virtual machine as a DUT: QEMU on the host of the worker.

Its power switch is the process, its console the log of its serial line. At every switch-on it gets
a new overlay over the prepared disk, so a power cycle undoes all changes of a test kernel; a reboot
keeps them, as nextboot(8) needs. The process outlives trials.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from netbisect.workers.config.vm import Vm
from netbisect.workers.transport import locks

MACS = {
    "management": "52:54:00:00:00:10",
    "ingress": "52:54:00:00:00:11",
    "egress": "52:54:00:00:00:12",
}
"""MACs of the guest's ports. Its wires lead to this host alone, so they are the same everywhere."""
PREPARED, OVERLAY, CONSOLE = "prepared.qcow2", "overlay.qcow2", "console.log"
SERIAL = "serial.socket"
_PIDFILE, _LOCK = "qemu.pid", "lock"
_SOCKET_PATH = 100
"""Bytes that the path of a socket may have: 108 on Linux, 104 on FreeBSD, with the zero."""
_SECONDS = 60.0
"""Seconds for QEMU to start, or to end."""
_POLL = 0.05
_LONGEST_LOG = 16 << 20
_LEAST_VERSION = (7, 2)
_VERSION = re.compile(r"version (\d+)\.(\d+)")
_BUSY = 0.25
"""Processors' worth of other work on the host from which on it counts as shared."""
_QUEUE = Path("/proc/sys/net/unix/max_dgram_qlen")
"""Frames that may wait on a wire, on Linux; FreeBSD has room by bytes, and more of it."""
_LEAST_QUEUE = 512


class VmError(Exception):
    """A failure of a virtual machine; the message is for its owner."""


def socket_of(vm: Vm, name: str) -> Path:
    """The path of one of its sockets.

    Raises:
        VmError: it is too long for a socket.
    """
    path = vm.directory / name
    if len(os.fsencode(path)) > _SOCKET_PATH:
        raise VmError(
            f"{path}: the path of a socket has at most {_SOCKET_PATH} bytes; "
            "expected a shorter `directory`"
        )
    return path


def wire_ends(vm: Vm, port: str) -> tuple[Path, Path]:
    """The sockets of a data port, `ingress` or `egress`: the guest's end and the host's."""
    return socket_of(vm, f"{port}.guest"), socket_of(vm, f"{port}.host")


def pinned(cpus: str) -> list[str]:
    """Prefix of a command that binds it to these processors of the host."""
    if not cpus:
        return []
    return ["cpuset", "-l", cpus] if platform.system() == "FreeBSD" else ["taskset", "-c", cpus]


def command(vm: Vm, disk: Path) -> list[str]:
    """The command line of QEMU with that disk; it goes into the background once it runs."""
    words = [*pinned(vm.cpus), vm.qemu, "-nodefaults", "-no-user-config", "-display", "none"]
    words += ["-name", _escaped(vm.directory.name), "-machine", f"q35,accel={vm.accelerator}"]
    words += ["-cpu", "host" if vm.accelerator == "kvm" else "max"]
    words += ["-m", str(vm.memory), "-smp", str(vm.processors)]
    words += ["-drive", f"if=none,id=disk,format=qcow2,file={_escaped(disk)}"]
    words += ["-device", "virtio-blk-pci,drive=disk,bootindex=1", "-device", "virtio-rng-pci"]
    forward = f"tcp:127.0.0.1:{vm.ssh_port}-10.0.2.15:22"
    words += ["-netdev", f"user,id=management,restrict=on,hostfwd={forward}"]
    for port in ("ingress", "egress"):
        guest, host = (_escaped(end) for end in wire_ends(vm, port))
        ends = f"local.path={guest},remote.type=unix,remote.path={host}"
        words += ["-netdev", f"dgram,id={port},local.type=unix,{ends}"]
    for port, mac in MACS.items():
        words += ["-device", f"virtio-net-pci,netdev={port},mac={mac},romfile=,event_idx=off"]
    serial, log = _escaped(socket_of(vm, SERIAL)), _escaped(vm.directory / CONSOLE)
    line = f"socket,id=serial,server=on,wait=off,path={serial},logfile={log},logappend=on"
    words += ["-chardev", line, "-serial", "chardev:serial"]
    return [*words, "-pidfile", str(vm.directory / _PIDFILE), "-daemonize"]


def _escaped(path: Path | str) -> str:
    """Escapes a value for a comma-separated list of QEMU."""
    return str(path).replace(",", ",,")


@contextlib.contextmanager
def alone(vm: Vm, doing: str) -> Iterator[None]:
    """Lock: one process at a time switches it on or off.

    Raises:
        VmError: it is not prepared, or another process does not release it.
    """
    if not vm.directory.is_dir():
        raise VmError(f"there is no {vm.directory}: `netbisect-lab vm prepare` creates it")
    with (vm.directory / _LOCK).open("a+") as stream:
        what, where = f"{doing} the virtual machine", f" in {vm.directory}"
        if who := locks.hold(stream, what, _SECONDS, lambda _: None, where):
            raise VmError(who)
        yield


def process_of(vm: Vm) -> int:
    """ID of its process, or 0 if it is off.

    QEMU locks its pidfile, so the ID of a dead process is never taken for another process. The lock
    tried here is a shared one: several processes may look at the same time.
    """
    with (
        contextlib.suppress(FileNotFoundError, ValueError),
        (vm.directory / _PIDFILE).open("r+") as stream,
    ):
        try:
            fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return int(stream.read().strip() or 0)
    return 0


def start(vm: Vm) -> bool:
    """Switches it on, if it is off, with a fresh overlay over its prepared disk.

    Returns:
        Whether it was off.

    Raises:
        VmError: it cannot be started.
    """
    with alone(vm, "starting"):
        if process_of(vm):
            return False
        prepared = vm.directory / PREPARED
        if not prepared.exists():
            raise VmError(f"there is no {prepared}: `netbisect-lab vm prepare` creates it")
        overlay = vm.directory / OVERLAY
        make_overlay(prepared, overlay)
        launch(vm, overlay)
        return True


def stop(vm: Vm) -> None:
    """Switches it off, as a power switch does, without a shutdown.

    Raises:
        VmError: its process does not end.
    """
    with alone(vm, "stopping"):
        end(vm)


def end(vm: Vm) -> None:
    """As `stop`, for the holder of the lock."""
    process = process_of(vm)
    with contextlib.suppress(ProcessLookupError):
        if process:
            os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + _SECONDS
    while process_of(vm):
        if time.monotonic() > deadline:
            raise VmError(f"process {process} of {vm.directory} does not end")
        time.sleep(_POLL)


def make_overlay(backing: Path, overlay: Path) -> None:
    """Creates a disk that reads from another one and keeps its own writes.

    Raises:
        VmError: qemu-img cannot.
    """
    overlay.unlink(missing_ok=True)
    kind = disk_format(backing)
    run_tool(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", str(backing), str(overlay)],
        f"{overlay} cannot be made",
    )


def disk_format(image: Path) -> str:
    """Format of an image, raw or qcow2; raises VmError if it is no disk image."""
    output = run_tool(
        ["qemu-img", "info", "--output=json", str(image)], f"{image} is no disk image"
    )
    found = str(json.loads(output)["format"])
    if found not in ("raw", "qcow2"):
        raise VmError(f"{image} is {found}; expected a raw or a qcow2 image")
    return found


def launch(vm: Vm, disk: Path, *more: str) -> None:
    """Starts QEMU with that disk and more arguments; it is off before.

    Raises:
        VmError: QEMU does not start, in its own words.
    """
    version(vm)
    for port in ("ingress", "egress"):
        wire_ends(vm, port)[0].unlink(missing_ok=True)  # of one that was killed
    log = vm.directory / CONSOLE
    if log.exists() and log.stat().st_size > _LONGEST_LOG:
        log.write_bytes(b"")
    run_tool([*command(vm, disk), *more], "QEMU does not start")


def run_tool(words: Sequence[str], what: str) -> str:
    """Output of a program of this host; raises VmError, which begins with `what`, if it fails."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            start_new_session=True,
        )
    except OSError as error:
        raise VmError(f"{what}: {words[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise VmError(f"{what}: {words[0]} had not ended after {_SECONDS:g} s") from None
    if done.returncode:
        raise VmError(f"{what}: {done.stderr.strip() or 'no output'}")
    return done.stdout


def version(vm: Vm) -> str:
    """QEMU's version, such as 7.2.

    Raises:
        VmError: there is no QEMU, or it is too old for the wires.
    """
    if shutil.which(vm.qemu) is None:
        raise VmError(f"there is no {vm.qemu} on this host")
    found = _VERSION.search(run_tool([vm.qemu, "--version"], f"{vm.qemu} does not work"))
    if found is None or tuple(map(int, found.groups())) < _LEAST_VERSION:
        found_version = found[0] if found else "of no known version"
        raise VmError(f"{vm.qemu} is {found_version}; expected 7.2 or later")
    return f"{found[1]}.{found[2]}"


def conditions(vm: Vm) -> str:
    """Conditions of the virtual machine that comparable samples share."""
    parts = [f"QEMU {version(vm)}", vm.accelerator]
    parts += [f"{vm.processors} processors", f"{vm.memory} MiB"]
    if queue := _queue():
        parts.append(f"wires of {queue} frames")
    return ", ".join(parts)


def concerns() -> list[str]:
    """Properties of this host that affect samples, as sentences; valid while the guest is idle."""
    found = []
    load, queue = os.getloadavg()[0], _queue()
    if load >= _BUSY:
        found.append(f"this host is busy, with a load of {load:.1f}: samples will scatter")
    if 0 < queue < _LEAST_QUEUE:
        found.append(
            f"net.unix.max_dgram_qlen is {queue}, so most frames of a full load are lost on the "
            f"wires: expected {_LEAST_QUEUE} or more before the virtual machine is started"
        )
    return found


def _queue() -> int:
    """Frames that may wait on a wire; 0 if unknown."""
    try:
        return int(_QUEUE.read_text())
    except (OSError, ValueError):
        return 0
