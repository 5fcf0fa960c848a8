"""Runs commands on machines through the OpenSSH client.

Uses the user's configuration and keys. Host keys are always checked, passwords are never asked, and
every call has a time limit. Each command is one ssh(1) over a shared connection, which another
ssh(1) holds during a trial. All of them end with the trial.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from netbisect.workers.config.lab import Ssh
from netbisect.workers.config.vm import (
    GUEST_ALIAS,
    GUEST_MARK,
    GUEST_SSH_CONFIG,
    HOST_MARK,
    WIRE_PROGRAMS,
)
from netbisect.workers.transport import limited_output
from netbisect.workers.transport.errors import (
    CommandError,
    HostKeyError,
    MachineError,
    UnreachableError,
)
from netbisect.workers.transport.lifetime import ProcessGroup, await_killed

SSH_FAILED = 255
"""Exit status of ssh(1) when ssh itself failed."""
MOST_BYTES = 128 << 20
"""Limit for the output of one command; the largest regular one is a profile, of 64 MiB."""
_PATIENCE = 5.0
"""Seconds for a command on this host to end."""
_POLL = 0.01
_END = "netbisect: the end of this answer"
_MARK = shlex.join(["echo", _END])
"""Also before the first command: csh(1) reads the .cshrc of root, which may print something."""
_KEY_ERRORS = ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed")
_LONGEST_FOLDER = 60
"""Bytes: a socket's path has 104; ssh(1) and our names need some forty."""

Process = subprocess.Popen[bytes]
"""The ssh(1) process of a running command."""
_Stream = int | IO[bytes]


class TooMuchError(Exception):
    """A command printed more than `MOST_BYTES`."""


def _short_folder() -> str:
    """The folder for temporary files, or /tmp where sockets in that one have too long a path."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - mkdtemp


class Connections(contextlib.ExitStack):
    """The shared connections of one process; a context manager that closes them."""

    def __init__(self, settings: Ssh) -> None:
        super().__init__()
        self._settings = settings
        self._sockets = Path(tempfile.mkdtemp(prefix="nb-", dir=_short_folder()))
        self._group = ProcessGroup(folder=self._sockets)
        self.callback(self._group.end)
        self._machines: dict[str, Machine] = {}

    def machine(self, address: str) -> Machine:
        """The machine at an ssh address of a loaded lab file."""
        if address not in self._machines:
            socket, group = self._sockets / str(len(self._machines)), self._group.number
            kind = WireEnds if address.startswith(HOST_MARK) else Machine
            machine = self._machines[address] = kind(address, self._settings, socket, group)
            self.callback(machine.forget_connection)
        return self._machines[address]


class Machine:
    """One machine behind ssh."""

    def __init__(self, address: str, settings: Ssh, socket: Path, group: int) -> None:
        """Starts nothing yet.

        `address` is as in the lab file, `socket` is for the shared connection, and all processes
        are started in the process group.
        """
        self.address = address
        self._destination = address
        if address.startswith(GUEST_MARK):
            config = Path(address.removeprefix(GUEST_MARK)) / GUEST_SSH_CONFIG
            settings = replace(settings, config=config)
            self._destination = GUEST_ALIAS
        self.programs: dict[str, str] = {}
        """Paths by name, of programs that are not found by the PATH of the machine."""
        self._limit: float = settings.command_timeout
        self._socket = socket
        self._complaints = socket.with_suffix(".log")
        self._group = group
        self._master: Process | None = None
        """Holds the shared connection."""
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": str(settings.connect_timeout),
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ControlPath": escape_tokens(f'"{socket}"'),
            "ControlPersist": "no",
            "LogLevel": "ERROR",
        }
        self._ssh = ["ssh", "-T"]
        if settings.config is not None:
            self._ssh += ["-F", str(settings.config)]
        for name, value in options.items():
            self._ssh += ["-o", f"{name}={value}"]

    def open(self) -> None:
        """Starts to connect in the background; errors are raised by the next command."""
        if self._master is not None and self._master.poll() is not None:
            self.forget_connection()
        if self._master is None:
            # Not a pipe: later output would have no reader.
            with self._complaints.open("wb") as stderr:
                self._master = subprocess.Popen(
                    [*self._ssh, "-o", "ControlMaster=yes", "-N", self._destination],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    process_group=self._group,
                )

    def _connect(self, deadline: float) -> None:
        """Waits for the connection until `deadline` (time.monotonic); raises as `_begin`."""
        self.open()
        assert self._master is not None
        while not self._socket.exists():
            if self._master.poll() is not None:
                self.forget_connection()
                raise self._failure(self._complaints.read_text(errors="replace"))
            _left(deadline)
            time.sleep(_POLL)

    def _failure(self, output: str) -> UnreachableError | HostKeyError:
        """The error for a failure of ssh(1) itself."""
        if any(text in output for text in _KEY_ERRORS):
            why = "is not the known one"
            if "host key is known for" in output:  # "No ED25519 host key is known for ..."
                why = "is not in known_hosts; log in once with ssh, and compare it"
            return HostKeyError(f"{self.address}: the host key {why}")
        return UnreachableError(self.address, output)

    def _begin(
        self, line: str, deadline: float, stdin: _Stream, stdout: int, stderr: int
    ) -> Process:
        """Starts a command on the machine.

        ssh(1) makes another connection if the machine accepts no further session on this one.

        Raises:
            UnreachableError, HostKeyError: no answer, or an unknown host key.
            TimeoutError: no connection at `deadline` (time.monotonic).
        """
        self._connect(deadline)
        words = [*self._ssh, "-o", "ControlMaster=no", self._destination, line]
        group = self._group
        return Process(words, stdin=stdin, stdout=stdout, stderr=stderr, process_group=group)

    def run(
        self,
        *commands: Sequence[str],
        stdin: bytes | IO[bytes] | None = None,
        timeout: float | None = None,
    ) -> str:
        """Runs commands one after the other until one fails; returns what they printed.

        Raises:
            UnreachableError: the machine does not answer.
            HostKeyError: unknown host key.
            CommandError: a command failed, or did not end within `timeout` seconds.
        """
        line = " && ".join(map(self._line, commands))
        with self._running_line(line, stdin, timeout) as read:
            return read()

    def _line(self, command: Sequence[str]) -> str:
        return shlex.join([self.programs.get(command[0], command[0]), *command[1:]])

    @contextlib.contextmanager
    def _running_line(
        self, line: str, stdin: bytes | IO[bytes] | None = None, timeout: float | None = None
    ) -> Iterator[Callable[[], str]]:
        """Starts a line; yields a function for its output, to be called once within the block."""
        limit = timeout or self._limit
        deadline = time.monotonic() + limit
        pipe = subprocess.PIPE
        with contextlib.ExitStack() as stack:
            with self._limited(line, limit):
                feed = stack.enter_context(_as_stdin(stdin))
                marked = f"{_MARK} && {line}"
                process = self._begin(marked, deadline, feed, pipe, pipe)
                stack.callback(_end, process)

            def read() -> str:
                with self._limited(line, limit):
                    out, complaint = _read_both(process, deadline)
                    status = process.wait(_left(deadline))
                if status == SSH_FAILED:
                    self.forget_connection()
                    raise self._failure(complaint)
                greeting, begun, answers = out.partition(f"{_END}\n")
                if status != 0 or not begun:
                    raise CommandError(self.address, line, status, complaint or answers or greeting)
                return answers

            yield read

    @contextlib.contextmanager
    def _limited(self, line: str, limit: float) -> Iterator[None]:
        """Turns a timeout or too much output into a `CommandError` that names the command."""
        try:
            yield
        except (TimeoutError, subprocess.TimeoutExpired):
            self.forget_connection()
            raise CommandError(self.address, line, None, f"limit {limit:g} s") from None
        except TooMuchError as error:
            self.forget_connection()
            raise CommandError(self.address, line, -signal.SIGKILL, str(error)) from None

    def try_run(self, *commands: Sequence[str]) -> str | None:
        """As `run`, but returns None if a command fails."""
        try:
            return self.run(*commands)
        except CommandError:
            return None

    def ask(self, *commands: Sequence[str]) -> list[str]:
        """Runs all commands; returns the output of each, "" for one that fails.

        Raises:
            UnreachableError: the machine does not answer.
            HostKeyError: unknown host key.
            CommandError: the commands did not end in time, or answers are missing.
        """
        if not commands:  # an empty line would be a login
            return []
        with self.running_each(*commands) as answer:
            return answer()

    @contextlib.contextmanager
    def running_each(self, *commands: Sequence[str]) -> Iterator[Callable[[], list[str]]]:
        """Starts commands, so that other machines can be asked at the same time.

        Yields:
            A function for the answers, to be called once within the block; it returns and raises
            what `ask` does.
        """
        line = "; ".join(f"{self._line(command)}; {_MARK}" for command in commands)
        with self._running_line(line) as read:

            def answer() -> list[str]:
                answers = read().split(f"{_END}\n")
                if len(answers) <= len(commands):
                    raise CommandError(self.address, line, 0, "answers are missing")
                return answers[: len(commands)]

            yield answer

    @contextlib.contextmanager
    def running(self, command: Sequence[str], log: Path) -> Iterator[Process]:
        """Runs a long command within the block; `log` has the beginning and the end of its output.

        Raises:
            UnreachableError, HostKeyError, CommandError: the command cannot be started.
            MachineError: the output cannot be written on this host, as on a full disk.
        """
        line, deadline = shlex.join(command), time.monotonic() + self._limit
        with log.open("wb", buffering=0) as stream:
            with self._limited(line, self._limit):
                ends = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
                process = self._begin(line, deadline, *ends)
            reader = limited_output.OutputReader(process, stream, limited_output.MOST_BYTES)
            try:
                yield process
            finally:
                process.kill()
                await_killed(process)
                try:
                    reader.finish()
                except OSError as error:  # incomplete output looks like a fault of the command
                    if not isinstance(error.__context__, KeyboardInterrupt):
                        why = f"its output cannot be kept in {log}: {error.strerror}"
                        raise MachineError(f"{self.address}: `{line}`: {why}") from error

    def forget_connection(self) -> None:
        """Closes the shared connection; the next command makes a new one."""
        master, self._master = self._master, None
        if master is not None:
            master.kill()  # also one that hangs
            await_killed(master)
        self._socket.unlink(missing_ok=True)


def escape_tokens(text: str) -> str:
    """A value for ssh_config(5), where %d and others are tokens."""
    return text.replace("%", "%%")


def _end(process: Process) -> None:
    """Kills a process and closes its output."""
    process.kill()
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
    await_killed(process)


def _left(deadline: float) -> float:
    """Seconds until `deadline` (time.monotonic); raises TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read_both(process: Process, deadline: float) -> tuple[str, str]:
    """Standard output and standard error of a process, until both are closed.

    Raises:
        TimeoutError: still open at `deadline` (time.monotonic).
        TooMuchError: one of them is longer than `MOST_BYTES`.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    found = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr)}
    with selectors.DefaultSelector() as open_ones:
        for pipe in found:
            open_ones.register(pipe, selectors.EVENT_READ)
        while open_ones.get_map():
            for ready, _ in open_ones.select(_left(deadline)):
                block = os.read(ready.fd, 1 << 16)
                found[ready.fd] += block
                if len(found[ready.fd]) > MOST_BYTES:
                    raise TooMuchError(f"more than {MOST_BYTES >> 20} MiB of output")
                if not block:
                    open_ones.unregister(ready.fd)
    out, error = (text.decode(errors="replace") for text in found.values())
    return out, error


def _as_stdin(data: bytes | IO[bytes] | None) -> contextlib.AbstractContextManager[_Stream]:
    """Standard input for subprocess.Popen."""
    if not isinstance(data, bytes):
        return contextlib.nullcontext(data or subprocess.DEVNULL)
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    stream.write(data)
    stream.seek(0)
    return stream


class WireEnds(Machine):
    """This host, as the generator and receiver of a virtual DUT: commands run without ssh.

    Commands for data ports are in a folder of the virtual machine, first in PATH.
    """

    def open(self) -> None:
        """Nothing to do: there is no connection."""

    def _begin(
        self,
        line: str,
        deadline: float,  # noqa: ARG002 - it begins at once
        stdin: _Stream,
        stdout: int,
        stderr: int,
    ) -> Process:
        programs = f"{self.address.removeprefix(HOST_MARK)}/{WIRE_PROGRAMS}"
        path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
        words, group = ["env", f"PATH={path}", "sh", "-c", line], self._group
        return _Here(words, stdin=stdin, stdout=stdout, stderr=stderr, process_group=group)


class _Here(subprocess.Popen[bytes]):
    """A command on this host; terminated first, so that it can end its own processes."""

    def kill(self) -> None:
        if self.poll() is None:
            # A shell does not pass the signal to its children; stopped, it starts no others.
            self.send_signal(signal.SIGSTOP)
            children = ["pkill", "-TERM", "-P", str(self.pid)]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(children, check=False, capture_output=True, timeout=_PATIENCE)
            self.terminate()
            self.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(_PATIENCE)
        super().kill()
