"""Runs commands of a build, with their output in a log."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.build_lock import build_lock, end_session
from netbisect.workers.config.builder import Builder
from netbisect.workers.transport import locks
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.lifetime import await_killed
from netbisect.workers.transport.limited_output import OutputReader, write_all

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


class LoggedCommands:
    """Runs commands in a builder's directory."""

    def __init__(self, builder: Builder, log: Path, say: Callable[[str], None]) -> None:
        """Prepares commands with their output in `log`; `say` logs progress."""
        self.builder = builder
        self.log = log
        self.say = say
        self._locks: tuple[int, ...] = ()
        """The lock's descriptor within `alone`, for commands to inherit."""
        self._last = 0

    def begin(self) -> None:
        """Starts a new log; removes old ones above the limit."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        room = KEPT_BYTES
        logs = self.log.parent.glob("*.log")
        for path in sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True):
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
            self._locks = (lock,)
            try:
                yield
            finally:
                self._locks = ()

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
        bmake's tests need. `environment` is added to that of this process; `limit` are seconds.
        """
        status: int | None = None
        try:
            with self.log.open("ab", buffering=0) as stream:
                self._last = stream.tell()
                write_all(stream, f"$ {shlex.join(command)}\n".encode())
                process = self._begin(command, environment, cwd)
                # Only now: what is done before the program begins allows of no threads.
                reader = OutputReader(process, stream, MOST_BYTES)
                try:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        status = process.wait(limit or self.builder.build_timeout)
                finally:
                    if process.poll() is None:
                        process.kill()
                        await_killed(process)
                        end_session(process.pid)
                    reader.finish()
                if status is None:
                    write_all(stream, b"netbisect: no end in sight, stopped\n")
        except OSError as error:
            what = f"what {command[0]} says cannot be kept in {self.log}"
            raise self._fault(f"{what}: {error.strerror}") from error
        if status is not None:
            self.check_not_killed(command[0], status)
        return status

    def check_not_killed(self, program: str, status: int) -> None:
        """Raises LabFault if a signal ended a program: that is no fault of the revision."""
        number = -status if status < 0 else status - 128 if status - 128 in _STOPS else 0
        if number:
            name = signal.strsignal(number) or "unknown"
            raise self._fault(f"{program} was ended by signal {number} ({name})")

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
                pass_fds=self._locks,
            )
        except OSError as error:
            raise self._fault(f"{command[0]} cannot be run: {error.strerror}") from error

    def _fault(self, why: str) -> LabFault:
        return LabFault(Fault.BUILDER, f"builder {self.builder.name}: {why}")

    def tail(self) -> str:
        """Last lines of the log, which may be large."""
        with self.log.open("rb") as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
            lines = stream.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def last_line(self) -> str:
        """Last line of the log."""
        return self.tail().rstrip().rpartition("\n")[2] or "no output"

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
        for lock in self._locks:
            locks.note(lock, str(os.getpid()))
