"""Runs commands of a build, with their output in a log."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import RawIOBase
from pathlib import Path

from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.build_lock import build_lock, end_session, note
from netbisect.workers.config.builder import Builder
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.limited_output import HeadAndTail, OutputReader

_ERROR = re.compile(r"\b(error|ERROR): ")
"""Errors of the compiler and config(8)."""
_STOP = re.compile(r"^\*\*\* ")
"""Errors of make."""
MOST_BYTES = 32 << 20
"""Limit of a command's output; a kernel with all modules needs half of it."""
KEPT_BYTES = 1 << 30
"""Limit of all logs of a builder."""
_TAIL_LINES = 40
_TAIL_BYTES = 64 << 10
_STOPS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
"""Signals that a shell reports as status 128 + n; 129 is git's for usage."""


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _write(log: RawIOBase, output: bytes) -> None:
    """Writes all bytes; a nearly full disk may accept only a part."""
    while output:
        output = output[log.write(output) :]


def signal_of(status: int) -> int:
    """The signal behind an exit status, or 0."""
    return -status if status < 0 else status - 128 if status - 128 in _STOPS else 0


def killed_fault(builder: Builder, program: str, number: int) -> LabFault:
    """The fault of a program that a signal ended; not the revision's."""
    name = signal.strsignal(number) or "unknown"
    why = f"builder {builder.name}: {program} was ended by signal {number} ({name})"
    return LabFault.of(Fault.BUILDER, why)


class LoggedCommands:
    """Runs commands in a builder's directory."""

    def __init__(self, builder: Builder, log: Path, say: Callable[[str], None]) -> None:
        """Prepares commands for a builder.

        Args:
            builder: Builder.
            log: File for the output.
            say: Logs progress.
        """
        self.builder = builder
        self.log = log
        self.say = say
        self._lock: int | None = None
        self._last = 0

    def begin(self) -> None:
        """Starts a new log; removes old ones above the limit."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        room = KEPT_BYTES
        for path in sorted(self.log.parent.glob("*.log"), key=_written, reverse=True):
            room -= path.stat().st_size
            if room < 0:
                path.unlink()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the builder's directory; see `build_lock`.

        Raises:
            LabFault: it cannot be locked.
        """
        with build_lock(self.builder, self.log.stem, self.say) as lock:
            self._lock = lock
            try:
                yield
            finally:
                self._lock = None

    def run(
        self,
        command: list[str],
        environment: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        limit: float | None = None,
    ) -> int | None:
        """Runs a command; returns its exit status, or None after a timeout.

        The log keeps the beginning and the end of more than `MOST_BYTES`. The command has its own
        session, so that a hung build can be killed, and the default action for SIGINT, which
        bmake's tests need.

        Args:
            command: Program and arguments.
            environment: Additional environment.
            cwd: Working directory.
            limit: Timeout in seconds.
        """
        try:
            status = self._run(command, environment, cwd, limit or self.builder.build_timeout)
        except OSError as error:
            raise LabFault.of(
                Fault.BUILDER,
                f"builder {self.builder.name}: what {command[0]} says cannot be kept in "
                f"{self.log}: {error.strerror}",
            ) from error
        if status is not None and (number := signal_of(status)):
            raise killed_fault(self.builder, command[0], number)
        return status

    def _run(
        self,
        command: list[str],
        environment: Mapping[str, str] | None,
        cwd: Path | None,
        limit: float,
    ) -> int | None:
        with self.log.open("ab", buffering=0) as stream:
            self._last = stream.tell()
            _write(stream, f"$ {shlex.join(command)}\n".encode())
            process = self._begin(command, environment, cwd)
            # Only now: what is done before the program begins allows of no threads.
            listener = OutputReader(process, HeadAndTail(partial(_write, stream), MOST_BYTES))
            status: int | None = None
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                    end_session(process.pid)
                listener.finish()
            if status is None:
                _write(stream, b"netbisect: no end in sight, stopped\n")
            return status

    def _begin(
        self, command: list[str], environment: Mapping[str, str] | None, cwd: Path | None
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self._prepare,  # noqa: PLW1509 - no threads here
                pass_fds=() if self._lock is None else (self._lock,),
            )
        except OSError as error:
            raise LabFault.of(
                Fault.BUILDER,
                f"builder {self.builder.name}: {command[0]} cannot be run: {error.strerror}",
            ) from error

    def tail(self) -> str:
        """Last lines of the log."""
        return "\n".join(self._lines()[-_TAIL_LINES:])

    def last_line(self) -> str:
        """Last line of the log."""
        lines = [line for line in self._lines() if line.strip()]
        return lines[-1] if lines else "no output"

    def last_output(self) -> str:
        """Output of the last command."""
        with self.log.open("rb") as stream:
            stream.seek(self._last)
            return stream.read().decode(errors="replace")

    def first_error(self) -> str:
        """First error of the last command: the compiler's, else make's."""
        lines = self.last_output().splitlines()
        for pattern in (_ERROR, _STOP):
            for line in lines:
                if pattern.search(line):
                    return line.strip()
        return self.last_line()

    def _prepare(self) -> None:
        """Records the session in the new process, before its builder can be killed."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._lock is not None:
            note(self._lock, str(os.getpid()))

    def _lines(self) -> list[str]:
        """Last lines of the log, which may be large."""
        with self.log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - _TAIL_BYTES, 0))
            return stream.read().decode(errors="replace").splitlines()
