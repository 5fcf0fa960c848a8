"""Runs commands on machines through the OpenSSH client.

The user's own configuration and keys are used; host keys are always checked; nothing asks
for a password; every call has a time limit; one connection per machine is shared. An ssh(1) is
started for each connection, and none for a command (mux.py).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from netbisect.workers.bounded import bounded
from netbisect.workers.faults import CommandError, HostKeyError, UnreachableError
from netbisect.workers.lab import Ssh
from netbisect.workers.lab_vm import (
    GUEST_ALIAS,
    GUEST_MARK,
    GUEST_SSH_CONFIG,
    HOST_MARK,
    WIRE_PROGRAMS,
)
from netbisect.workers.mux import (
    SSH_FAILED,
    RefusedError,
    Session,
    TooMuchError,
    end_connection,
    read_both,
)

_PATIENCE = 5.0
"""Seconds for a connection to be closed."""
_END = "netbisect: the end of this answer"
Process = Session | subprocess.Popen[bytes]
"""A command that runs on a machine; what is common to both is what there is of it."""
_KEY_SAID = ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed")


_LONGEST_FOLDER = 60
"""Bytes: a socket's path has 104, of which ssh(1) itself and our names need some forty."""


def _short_folder() -> str:
    """The folder for temporary files, or /tmp where sockets in that one have too long a path."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp


class Connections:
    """The shared connections of one process; a context manager that closes them."""

    def __init__(self, settings: Ssh) -> None:
        self.settings = settings
        self._sockets = Path(tempfile.mkdtemp(prefix="nb-", dir=_short_folder()))
        self._machines: dict[str, Machine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in self._machines.values():
            machine.forget_connection()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def machine(self, address: str) -> Machine:
        """The machine at that ssh address."""
        if address not in self._machines:
            socket = self._sockets / str(len(self._machines))
            self._machines[address] = _machine_at(address, self.settings, socket)
        return self._machines[address]


def _machine_at(address: str, settings: Ssh, socket: Path) -> Machine:
    """The machine at an address of a loaded lab file."""
    if address.startswith(HOST_MARK):
        return WireEnds(address, settings, socket)
    if address.startswith(GUEST_MARK):
        config = Path(address.removeprefix(GUEST_MARK)) / GUEST_SSH_CONFIG
        return Machine(address, replace(settings, config=config), socket, destination=GUEST_ALIAS)
    return Machine(address, settings, socket)


class Machine:
    """One machine behind ssh."""

    def __init__(self, address: str, settings: Ssh, socket: Path, *, destination: str = "") -> None:
        self.address = address
        self._destination = destination or address
        self.programs: dict[str, str] = {}
        """By name: where the program is, when it is not the one that the machine would find."""
        self._settings = settings
        self._socket = socket
        self._opening: subprocess.Popen[bytes] | None = None
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": str(settings.connect_timeout),
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ControlMaster": "yes",
            "ControlPath": str(socket),
            "ControlPersist": "60",
            "LogLevel": "ERROR",
        }
        self._ssh = ["ssh", "-T"]
        if settings.config is not None:
            self._ssh += ["-F", str(settings.config)]
        for name, value in options.items():
            self._ssh += ["-o", f"{name}={value}"]

    def open(self) -> None:
        """Begins to connect, while something else is done; what is wrong is told by `run`."""
        if self._opening is None and not self._socket.exists():
            self._opening = subprocess.Popen(
                # It goes into the background as soon as it is let in.
                [*self._ssh, "-N", self._destination],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )

    def _connect(self, deadline: float) -> None:
        """Waits until it is connected.

        Raises:
            UnreachableError, HostKeyError: it cannot be.
            TimeoutError: it is not, by then (time.monotonic).
        """
        self.open()
        opening, self._opening = self._opening, None
        if opening is None:
            return
        with opening:
            try:
                _, said = opening.communicate(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise TimeoutError from None
            finally:
                opening.kill()
        if opening.returncode != 0:
            raise self._failure(said.decode(errors="replace"))

    def _failure(self, said: str) -> UnreachableError | HostKeyError:
        """What it means that ssh(1) itself failed."""
        if any(text in said for text in _KEY_SAID):
            return HostKeyError(f"{self.address}: the host key is not the known one")
        return UnreachableError(self.address, said)

    def _begin(self, line: str, streams: Sequence[int], deadline: float) -> Process:
        """A command that runs there, with these file descriptors for its standard streams.

        Raises:
            UnreachableError, HostKeyError: it is not the machine we know, or does not answer.
            TimeoutError: it has not begun by then (time.monotonic).
        """
        for _ in range(2):
            self._connect(deadline)
            try:
                return Session(self._socket, line, streams, deadline)
            except TimeoutError:
                raise
            except (OSError, EOFError):
                self._socket.unlink(missing_ok=True)  # of a holder that is no more
            except RefusedError:
                alone = [*self._ssh, "-o", "ControlPath=none", self._destination, line]
                stdin, stdout, stderr = streams
                return subprocess.Popen(alone, stdin=stdin, stdout=stdout, stderr=stderr)
        raise UnreachableError(self.address, "the connection was lost")

    def run(
        self,
        *commands: Sequence[str],
        stdin: bytes | IO[bytes] | None = None,
        timeout: float | None = None,
    ) -> str:
        """Runs commands one after the other until one fails; returns what they printed.

        Raises:
            UnreachableError: the machine does not answer.
            HostKeyError: it is not the machine we know.
            CommandError: a command failed, or did not end within `timeout` seconds.
        """
        line = " && ".join(self._line(command) for command in commands)
        return self._run_line(line, stdin, timeout)

    def _line(self, command: Sequence[str]) -> str:
        return shlex.join([self.programs.get(command[0], command[0]), *command[1:]])

    def _run_line(
        self, line: str, stdin: bytes | IO[bytes] | None = None, timeout: float | None = None
    ) -> str:
        with self._running_line(line, stdin, timeout) as said:
            return said()

    @contextlib.contextmanager
    def _running_line(
        self, line: str, stdin: bytes | IO[bytes] | None = None, timeout: float | None = None
    ) -> Iterator[Callable[[], str]]:
        """Begins a line; what to call for what it prints, once, within the block."""
        limit = timeout or self._settings.command_timeout
        deadline = time.monotonic() + limit
        with contextlib.ExitStack() as ours:
            with self._limited(line, limit):
                talk = ours.enter_context(self._talking(line, stdin, deadline))

            def said() -> str:
                with self._limited(line, limit):
                    status, out, complaint = talk()
                if status == SSH_FAILED:
                    self.forget_connection()
                    raise self._failure(complaint)
                if status != 0:
                    raise CommandError(self.address, line, status, complaint or out)
                return out

            yield said

    @contextlib.contextmanager
    def _limited(self, line: str, limit: float) -> Iterator[None]:
        """Says of what takes longer than its limit what it was."""
        try:
            yield
        except (TimeoutError, subprocess.TimeoutExpired):
            self.forget_connection()
            raise CommandError(self.address, line, None, f"limit {limit:g} s") from None
        except TooMuchError as error:
            self.forget_connection()
            raise CommandError(self.address, line, -signal.SIGKILL, str(error)) from None

    @contextlib.contextmanager
    def _talking(
        self, line: str, stdin: bytes | IO[bytes] | None, deadline: float
    ) -> Iterator[Callable[[], tuple[int, str, str]]]:
        """Begins a line; what to call for its status, its standard output and its error."""
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            feed = theirs.enter_context(_as_file(stdin))
            ends = []
            for _ in ("output", "error"):
                end, other = os.pipe()
                ours.callback(os.close, end)
                theirs.callback(os.close, other)
                ends.append((end, other))
            (output, to_output), (error, to_error) = ends
            process = self._begin(line, (feed.fileno(), to_output, to_error), deadline)
            ours.enter_context(process)
            ours.callback(process.kill)
            theirs.close()

            def talk() -> tuple[int, str, str]:
                out, said = read_both(output, error, deadline)
                status = process.wait(max(0.0, deadline - time.monotonic()))
                return status, out.decode(errors="replace"), said.decode(errors="replace")

            yield talk

    def try_run(self, *commands: Sequence[str]) -> str | None:
        """As `run`, but None when a command fails: for what may or may not be there."""
        try:
            return self.run(*commands)
        except CommandError:
            return None

    def ask(self, *commands: Sequence[str]) -> list[str]:
        """What each of these prints; "" for one that fails, whatever the others do.

        Raises:
            UnreachableError: the machine does not answer.
            HostKeyError: it is not the machine we know.
            CommandError: they did not end in time, or there are not as many answers.
        """
        with self.asking(*commands) as answer:
            return answer()

    @contextlib.contextmanager
    def asking(self, *commands: Sequence[str]) -> Iterator[Callable[[], list[str]]]:
        """Begins to ask, so that other machines can be asked meanwhile.

        Yields:
            What to call for the answers, once, within the block; it returns what `ask` returns,
            and raises what `ask` raises. So does the beginning.
        """
        end = shlex.join(["echo", _END])
        line = "; ".join(f"{self._line(command)}; {end}" for command in commands)
        with self._running_line(line) as said:

            def answer() -> list[str]:
                answers = said().split(f"{_END}\n")
                if len(answers) <= len(commands):
                    why = "it said less than it was asked"
                    raise CommandError(self.address, line, 0, why)
                return answers[: len(commands)]

            yield answer

    @contextlib.contextmanager
    def running(self, command: Sequence[str], log: Path) -> Iterator[Process]:
        """A long command, stopped when the block ends; its output in `log`, up to a limit.

        Raises:
            UnreachableError, HostKeyError, CommandError: it cannot be begun.
        """
        line, limit = shlex.join(command), self._settings.command_timeout
        with bounded(log) as stream, _as_file(None) as nothing:
            streams = (nothing.fileno(), stream, stream)
            with self._limited(line, limit):
                process = self._begin(line, streams, time.monotonic() + limit)
            with process:
                try:
                    yield process
                finally:
                    process.kill()

    def forget_connection(self) -> None:
        """Closes the shared connection: what follows connects anew."""
        opening, self._opening = self._opening, None
        if opening is not None:
            with opening:
                opening.kill()
        if self._socket.exists():
            end_connection(self._socket, _PATIENCE)
            # A holder that hangs keeps its socket; nobody else shall ask there.
            self._socket.unlink(missing_ok=True)


def _as_file(data: bytes | IO[bytes] | None) -> contextlib.AbstractContextManager[IO[bytes]]:
    """What somebody else can read as standard input."""
    if data is None:
        return open(os.devnull, "rb")  # noqa: PTH123 - a device, not a path of anybody's
    if not isinstance(data, bytes):
        return contextlib.nullcontext(data)
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asks closes it
    stream.write(data)
    stream.seek(0)
    return stream


class WireEnds(Machine):
    """This host, as the generator and receiver of a virtual DUT: commands run without ssh.

    Those that mean a data port are in a folder of the virtual machine, first in PATH.
    """

    def __init__(self, address: str, settings: Ssh, socket: Path) -> None:
        super().__init__(address, settings, socket)
        self._programs_at = Path(address.removeprefix(HOST_MARK)) / WIRE_PROGRAMS

    def open(self) -> None:
        """Nothing to do: there is no connection."""

    def _begin(self, line: str, streams: Sequence[int], deadline: float) -> Process:  # noqa: ARG002 - it begins at once
        path = os.pathsep.join([str(self._programs_at), os.environ.get("PATH", os.defpath)])
        stdin, stdout, stderr = streams
        words = ["env", f"PATH={path}", "sh", "-c", line]
        return _Here(words, stdin=stdin, stdout=stdout, stderr=stderr)


class _Here(subprocess.Popen[bytes]):
    """A command on this host, ended so that it can end what it has started."""

    def kill(self) -> None:
        if self.poll() is None:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(_PATIENCE)
        super().kill()
