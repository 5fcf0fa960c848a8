"""Starts netbisect-lab: in this process, or in one that has everything loaded already.

To load what a visit needs takes a third of a second of a processor, and 20 MB. So the service
names a socket in the environment, at which a process (preloaded.py) forks for every visit. Only
what is standard output, standard error, environment and folder goes there; what stays here is a
shell, which waits for the status and hands signals on. Where nobody can be reached at that socket,
and for whoever types the same command line, it is a process of its own.

Nothing but what is small is imported here.
"""

from __future__ import annotations

import os
import socket
import sys
import time

TYPE_CHECKING = False  # that of typing, which takes long to load, as pathlib does
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

SOCKET = "NETBISECT_LAB_SOCKET"
"""Environment variable with the socket's place, in a folder that is the worker's alone."""
LENGTH = 8
"""Bytes before an order, which tell how many follow."""
STALE = b"stale"
"""Answer of a process that has loaded what has changed since; it is about to end."""
OTHER = b"other"
"""Answer of a process that was started by another Python, or with another setting of it."""
TAKEN = 75
"""Status of a process that found another one at its socket."""
_PATIENCE = 30.0
"""Seconds for a process to load everything, on a machine that is busy."""
_PAUSE = 0.02
_ANSWER = 20.0
"""Seconds for a process to answer that has everything loaded."""
_SHELL = "/bin/sh"
_CONNECTION = 3
_WAIT = f"""
visit=$1
trap 'kill -TERM $visit 2>/dev/null; told=yes' TERM
trap 'kill -INT $visit 2>/dev/null; told=yes' INT
trap 'kill -HUP $visit 2>/dev/null; told=yes' HUP
while :; do
    told=
    read -r status <&{_CONNECTION} && exit "$status"
    [ "$told" ] || break
done
echo 'netbisect-lab: it was killed' >&2
kill -KILL $$
"""
"""What stays of a command: as many kilobytes as the interpreter of it would take megabytes."""


def settings_of(environment: Mapping[str, str]) -> str:
    """What makes one Python another one: its program, its own variables, this very file."""
    names = ("PYTHON", "LANG", "LC_", "TZ")
    mine = sorted(
        f"{name}={value}" for name, value in environment.items() if name.startswith(names)
    )
    return "\n".join([sys.executable, sys.version, os.path.realpath(__file__), *mine])


def packed(arguments: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """An order: settings of this Python, mask of new files, worker, arguments, environment."""
    mask = os.umask(0o077)
    os.umask(mask)
    parts = [settings_of(environment), str(mask), str(os.getppid())]
    parts += [str(len(arguments)), *arguments]
    parts += [f"{name}={value}" for name, value in environment.items()]
    body = "\0".join(parts).encode(errors="surrogateescape")
    return len(body).to_bytes(LENGTH, "big") + body


def connect(place: str, here: int) -> socket.socket | None:
    """A connection to the process at that socket, None where there is none.

    Args:
        place: Of the socket. It is reached from its own folder: a path of it has 104 bytes.
        here: File descriptor of the folder to come back to.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_ANSWER)
        folder, name = os.path.split(place)
        os.chdir(folder or ".")
        connection.connect(name)
    except OSError:
        connection.close()
        return None
    finally:
        os.fchdir(here)
    return connection


def _answer(connection: socket.socket, order: bytes, here: int) -> bytes:
    """What it answers to an order; nothing where it has ended or hangs."""
    said = b""
    try:
        sent = socket.send_fds(connection, [order], [0, 1, 2, here])
        connection.sendall(order[sent:])
        while not said.endswith(b"\n"):
            byte = connection.recv(1)  # what comes behind it is for the shell
            if not byte:
                return b""
            said += byte
    except OSError:
        return b""
    return said.strip()


def _begin(place: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts the process that listens there; of several, one stays."""
    import subprocess  # noqa: PLC0415 - once for many visits

    environment = {name: value for name, value in os.environ.items() if name != SOCKET}
    command = [sys.executable, "-P", "-m", "netbisect.workers.preloaded", place]
    return subprocess.Popen(
        [*command, str(os.getppid()), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it is not of this command, and does not end with it
    )


def hand_over(place: str, arguments: Sequence[str]) -> None:
    """Has the command run by the process at that socket, which is started if there is none.

    Comes back only where that cannot be; nothing of the command has been done then.
    """
    here = os.open(".", os.O_RDONLY)
    environment = {name: value for name, value in os.environ.items() if name != SOCKET}
    order = packed(arguments, environment)
    deadline = time.monotonic() + _PATIENCE
    begun: subprocess.Popen[bytes] | None = None
    while time.monotonic() < deadline:
        connection = connect(place, here)
        answer = b"" if connection is None else _answer(connection, order, here)
        if connection is not None and answer.isdigit():
            os.dup2(connection.fileno(), _CONNECTION)
            os.set_blocking(_CONNECTION, True)
            shell = [_SHELL, "-c", _WAIT, "netbisect-lab", answer.decode(), *arguments]
            os.execv(_SHELL, shell)  # noqa: S606 - its text is ours, and has its arguments apart
        if connection is not None:
            connection.close()
        if answer == OTHER:
            break
        if begun is None:
            begun = _begin(place, arguments)
        elif begun.poll() not in (None, TAKEN):
            break  # it cannot be had here
        time.sleep(_PAUSE)
    os.close(here)


def main() -> int:
    """The command line; returns the exit status."""
    place = os.environ.get(SOCKET, "")
    if place:
        try:
            hand_over(place, sys.argv[1:])
        except OSError as error:
            sys.stderr.write(f"in a process of its own: {place}: {error.strerror}\n")
    from netbisect.workers.cli import main as run  # noqa: PLC0415 - where nobody has loaded it

    return run()


if __name__ == "__main__":
    sys.exit(main())
