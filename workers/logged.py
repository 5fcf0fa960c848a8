"""Commands of a build: their output goes to its log, and none of them outlives it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import RawIOBase
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.workers.bounded import Ends, Listener
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Builder

_ERROR = re.compile(r"\b(error|ERROR): ")
"""Of the compiler, of config(8)."""
_STOP = re.compile(r"^\*\*\* ")
"""Of make."""
MOST_BYTES = 32 << 20
"""Of what one command says: a kernel with all its modules is built with half of that."""
KEPT_BYTES = 1 << 30
"""Of all logs of a builder, the newest ones."""
_TAIL_LINES = 40
_TAIL_BYTES = 64 << 10
_KILLS = 20
_BETWEEN_KILLS = 0.05
"""Seconds."""


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_session(session: int) -> None:
    """Kills all that runs in a session; bmake gives each of its jobs a process group of its own."""
    for _ in range(_KILLS):  # while they are being killed they may start others
        command = ["pkill", "-KILL", "-s", str(session)]
        try:
            if subprocess.run(command, check=False, capture_output=True).returncode != 0:
                return
        except OSError:  # a host without pkill: what has stayed in the first group, at least
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)
            return
        time.sleep(_BETWEEN_KILLS)


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _write(log: RawIOBase, said: bytes) -> None:
    """All of it, or an error: a disk that is nearly full takes a part."""
    while said:
        said = said[log.write(said) :]


class LoggedCommands:
    """Runs commands in a builder's directory."""

    def __init__(self, builder: Builder, log: Path, say: Callable[[str], None]) -> None:
        """Nothing is done yet.

        Args:
            builder: whose directory is used.
            log: file that takes what the commands print.
            say: takes what happens on the way.
        """
        self.builder = builder
        self.log = log
        self.say = say
        self._held: tuple[int, ...] = ()
        self._last = 0

    def begin(self) -> None:
        """Starts an empty log; of the older ones in its folder, those stay that have room."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        room = KEPT_BYTES
        for path in sorted(self.log.parent.glob("*.log"), key=_written, reverse=True):
            room -= path.stat().st_size
            if room < 0:
                path.unlink()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the builder's directory; ends what a killed build left running in it.

        The lock is inherited by make, so that it stands for as long as anything of that build
        still runs.
        """
        path = self.builder.directory / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                session = lock.read().strip()
                self.say(f"a build is still running in {self.builder.directory}: ending it")
                if session.isdigit():
                    _end_session(int(session))
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._held = (lock.fileno(),)
            try:
                yield
            finally:
                self._held = ()

    def run(
        self,
        command: list[str],
        environment: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        limit: float | None = None,
    ) -> int | None:
        """Runs a command with its output in the log; its exit status, None when it hung.

        Of more than `MOST_BYTES` the log has the beginning and the end.

        It gets a session of its own so that nothing of a hung build stays behind, and the default
        action for SIGINT: bmake's own bootstrap tests fail where SIGINT is ignored.

        Args:
            command: the program and its arguments.
            environment: what is added to the environment.
            cwd: where it runs.
            limit: seconds until it counts as hung; the builder's `build_timeout` when absent.

        Raises:
            LabFault: there is no such program, or what it says cannot be kept.
        """
        try:
            return self._run(command, environment, cwd, limit or self.builder.build_timeout)
        except OSError as error:
            raise LabFault.of(
                Fault.BUILDER,
                f"builder {self.builder.name}: what {command[0]} says cannot be kept in "
                f"{self.log}: {error.strerror}",
            ) from error

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
            listener = Listener(process, Ends(partial(_write, stream), MOST_BYTES))
            self._note_session(process.pid)
            status: int | None = None
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                    _end_session(process.pid)
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
                preexec_fn=_default_interrupt,  # noqa: PLW1509 - no threads here
                pass_fds=self._held,
            )
        except OSError as error:
            raise LabFault.of(
                Fault.BUILDER,
                f"builder {self.builder.name}: {command[0]} cannot be run: {error.strerror}",
            ) from error

    def tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self._lines()[-_TAIL_LINES:])

    def last_line(self) -> str:
        """The last thing that was said."""
        lines = [line for line in self._lines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def said(self) -> str:
        """What the last command said."""
        with self.log.open("rb") as stream:
            stream.seek(self._last)
            return stream.read().decode(errors="replace")

    def first_error(self) -> str:
        """The line that says why the last command failed: the compiler's before make's."""
        lines = self.said().splitlines()
        for pattern in (_ERROR, _STOP):
            for line in lines:
                if pattern.search(line):
                    return line.strip()
        return self.last_line()

    def _note_session(self, session: int) -> None:
        for descriptor in self._held:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(session).encode())

    def _lines(self) -> list[str]:
        """The last ones: all the commands of a build may have said much."""
        with self.log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - _TAIL_BYTES, 0))
            return stream.read().decode(errors="replace").splitlines()
