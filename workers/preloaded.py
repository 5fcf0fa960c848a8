"""A process that has loaded what a visit needs, and forks for every visit of one worker.

    python -m netbisect.workers.preloaded SOCKET WORKER ARGUMENTS

The first visit starts it (start.py), with arguments to rehearse. It ends with its worker, when it
has not been asked for an hour, and as soon as a file has changed of which it has loaded the
contents. It knows nothing of labs and testbeds: every visit reads its own lab file. A visit is a
process group of its own, and no longer depends on it: the visit tells its status itself, and ends
when who ordered it has gone, or the worker.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from netbisect.workers import start

_IDLE = 3600.0
"""Seconds without an order after which nobody seems to need it."""
_LOOK = 1.0
"""Seconds between two looks whether its worker is there."""
_ORDER = 5.0
"""Seconds for an order to arrive."""
_BACKLOG = 64


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files of which the contents are loaded, as they were then."""

    folders: Sequence[Path]
    """All modules in these count, whether loaded or not."""
    files: dict[str, tuple[int, int, int] | None]
    ours: dict[str, tuple[int, int, int] | None]

    def changed(self) -> bool:
        """Whether one of them has changed since, has gone, or has come to the folders."""
        return self.ours != _ours(self.folders) or self.files != _stamps(self.files)


def _stamps(names: Iterable[str]) -> dict[str, tuple[int, int, int] | None]:
    found: dict[str, tuple[int, int, int] | None] = {}
    for name in names:
        try:
            seen = Path(name).stat()
        except OSError:
            found[name] = None
        else:
            found[name] = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
    return found


def _ours(folders: Sequence[Path]) -> dict[str, tuple[int, int, int] | None]:
    with contextlib.suppress(OSError):
        return _stamps(str(path) for folder in folders for path in folder.glob("*.py"))
    return {}


def load(arguments: Sequence[str]) -> Loaded:
    """Loads what visits need, by the beginning of one; nothing is kept of its lab."""
    here = Path(__file__).resolve().parent
    folders = [here, here.parent / "bisect"]
    ours = _ours(folders)  # before: what changes while it is loaded has changed
    from netbisect.workers import cli  # noqa: PLC0415

    cli.rehearse(arguments)
    modules = [getattr(module, "__file__", None) for module in sys.modules.values()]
    files = _stamps({sys.executable, *filter(None, modules)})
    gc.collect()
    gc.freeze()  # the collector would write to what all visits share
    return Loaded(folders, files, ours)


class Listener:
    """The socket; a context manager that removes it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._lock = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._socket = socket.socket(socket.AF_UNIX)

    def own(self) -> bool:
        """Whether this is the one process that listens there."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def listen(self) -> None:
        """From now on orders are taken, of this user alone."""
        self.place.unlink(missing_ok=True)  # of one that was killed
        os.chdir(self.place.parent)  # for the name alone: a path of a socket has 104 bytes
        os.umask(0o077)
        self._socket.bind(self.place.name)
        os.chdir("/")
        self._socket.listen(_BACKLOG)
        self._socket.settimeout(_LOOK)

    def accept(self) -> socket.socket | None:
        """The next connection, None where there is none for a second."""
        try:
            connection, _ = self._socket.accept()
        except (TimeoutError, ConnectionAbortedError):
            return None
        return connection

    def leave(self) -> None:
        """Closes what is open here, and removes nothing: as a visit does."""
        self._socket.close()
        os.close(self._lock)

    def retire(self) -> None:
        """Makes way for another process."""
        with contextlib.suppress(OSError):
            self.place.unlink(missing_ok=True)
        self.leave()


# ---------------------------------------------------------------------------------- the visit


def _receive(connection: socket.socket) -> tuple[list[str], list[int]]:
    """The parts of an order and the file descriptors that come with it.

    Raises:
        EOFError: it does not come to an end.
        OSError: as above, or in time.
    """
    connection.settimeout(_ORDER)
    head, numbers, _, _ = socket.recv_fds(connection, start.LENGTH, 4)
    while len(head) < start.LENGTH:
        head += _more(connection, start.LENGTH - len(head))
    wanted, body = int.from_bytes(head, "big"), b""
    while len(body) < wanted:
        body += _more(connection, wanted - len(body))
    connection.settimeout(None)
    return body.decode(errors="surrogateescape").split("\0"), numbers


def _more(connection: socket.socket, most: int) -> bytes:
    block = connection.recv(most)
    if not block:
        raise EOFError
    return block


def _end_with(connection: socket.socket) -> None:
    """Ends this visit and all that it has started when who ordered it is no more."""
    with contextlib.suppress(OSError):
        while connection.recv(1):
            pass
    os.killpg(0, signal.SIGKILL)


def _end_without(worker: int) -> None:
    """Ends this visit when the worker is no more for which it is made.

    A worker that was killed leaves the command behind that waits for this visit, and nobody who
    would end it: the worker's next visit to the testbed would find this one there.
    """
    while _alive(worker):
        time.sleep(_LOOK)
    os.killpg(0, signal.SIGKILL)


def _visit(connection: socket.socket, settings: str) -> NoReturn:
    """Carries out one order, as a process of its own would."""
    os.setsid()
    try:
        (python, mask, worker, number, *rest), numbers = _receive(connection)
    except (EOFError, OSError, ValueError):
        os._exit(1)
    if python != settings:
        connection.sendall(start.OTHER + b"\n")
        os._exit(0)
    for wanted, found in enumerate(numbers[:3]):
        os.dup2(found, wanted)
    os.fchdir(numbers[3])
    for found in numbers:
        os.close(found)
    os.umask(int(mask))
    arguments, variables = rest[: int(number)], rest[int(number) :]
    os.environ.clear()
    for one in variables:
        name, _, value = one.partition("=")
        os.environ[name] = value
    time.tzset()
    sys.argv[1:] = arguments
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    connection.sendall(b"%d\n" % os.getpid())
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    threading.Thread(target=_end_without, args=(int(worker),), daemon=True).start()
    status = _status(arguments)
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % status)
    os._exit(status)


def _status(arguments: Sequence[str]) -> int:
    """What the interpreter would end with."""
    from netbisect.workers.cli import main as run  # noqa: PLC0415 - it is loaded

    try:
        status: object = run(arguments)
    except SystemExit as ended:
        status = ended.code
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001 - as the interpreter tells it
        traceback.print_exc()
        status = 1
    if not isinstance(status, int | None):
        sys.stderr.write(f"{status}\n")
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 120
    return (status or 0) & 0xFF


# ------------------------------------------------------------------------------ for all visits


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def serve(listener: Listener, loaded: Loaded, worker: int) -> None:
    """Forks for every order until it is not needed any more, or not of use."""
    settings = start.settings_of(os.environ)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a visit
    asked = time.monotonic()
    while _alive(worker) and time.monotonic() - asked < _IDLE:
        connection = listener.accept()
        if connection is None:
            continue
        with connection:
            asked = time.monotonic()
            if loaded.changed():
                listener.retire()  # before the answer: the next one has its place then
                with contextlib.suppress(OSError):
                    connection.sendall(start.STALE + b"\n")
                return
            if os.fork() == 0:
                try:
                    listener.leave()
                    _visit(connection, settings)
                finally:
                    os._exit(1)  # whatever happens, it never comes to listen
    listener.retire()


def main() -> int:
    """The command line; returns the exit status."""
    place, worker = Path(sys.argv[1]), int(sys.argv[2])
    listener = Listener(place)
    if not listener.own():
        return start.TAKEN
    loaded = load(sys.argv[3:])
    listener.listen()
    serve(listener, loaded, worker)
    return 0


if __name__ == "__main__":
    sys.exit(main())
