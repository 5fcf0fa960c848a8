"""Records the console of a machine during a trial."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Self

from netbisect.workers.config.testbed import Console
from netbisect.workers.transport.lifetime import ProcessGroup, await_killed, signal_group
from netbisect.workers.transport.panic import plain

_FILE = 16 << 20
"""Maximal log size in bytes; the older half is dropped when it is full."""
_KEPT = 1 << 20
"""Bytes since the mark that are kept in memory."""
_BLOCK = 1 << 16
_PAUSE = 2.0
"""Seconds until a console command that ended is restarted."""
_PATIENCE = 5.0
"""Seconds for the command to end after SIGTERM."""


class ConsoleTap:
    """Context manager that writes the console to a file.

    The console command is restarted when it ends. Failures are not errors: the trial goes on
    without a console.
    """

    def __init__(self, console: Console | None, log: Path | None) -> None:
        self._console = console
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._group: ProcessGroup | None = None
        """The process and its children, which keep the pipe open."""
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._heard = bytearray()
        self._written = 0
        self.failures = 0
        """Number of failures of the console command."""

    def __enter__(self) -> Self:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            self._log.write_bytes(b"")  # of an earlier trial
        if self._console is not None:
            first = self._start(self._console)
            self._thread = threading.Thread(
                target=self._listen, args=(self._console, first), daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with self._lock:
            process, group = self._process, self._group
        if process is not None and group is not None:
            signal_group(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
            group.end()
            await_killed(process)
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def mark(self) -> None:
        """Forgets earlier output."""
        with self._lock:
            self._heard.clear()

    def output(self) -> str:
        """Output since the last mark, at most 1 MiB; see `plain`."""
        with self._lock:
            heard = bytes(self._heard)
        return plain(heard)

    def note(self, text: str) -> None:
        """Writes a comment into the log."""
        with self._lock:
            self._write(f"\n[netbisect: {text}]\n".encode())

    def _start(self, console: Console) -> subprocess.Popen[bytes] | None:
        process = None
        try:
            process = subprocess.Popen(
                console.command,
                stdin=subprocess.PIPE,  # `ipmitool sol activate` exits at the end of its input
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            group = ProcessGroup(process.pid)
        except OSError as error:
            if process is not None:  # without a guard
                with process:
                    signal_group(process, signal.SIGKILL)
            self.failures += 1
            self.note(f"{console.command[0]} cannot be run: {error.strerror}")
            return None
        with self._lock:
            self._process, self._group = process, group
        if self._closing.is_set():
            group.end()
        return process

    def _listen(self, console: Console, process: subprocess.Popen[bytes] | None) -> None:
        while True:
            if process is not None:
                assert process.stdout is not None
                assert self._group is not None
                with process:
                    self._copy(process.stdout)
                self._group.end()
                status = process.returncode
                if self._closing.is_set():
                    return
                self.failures += 1
                self.note(f"the console's command ended with status {status}; it is started again")
            if self._closing.wait(_PAUSE):
                return
            process = self._start(console)

    def _copy(self, stream: IO[bytes]) -> None:
        while block := os.read(stream.fileno(), _BLOCK):
            with self._lock:
                self._write(block)
                self._heard += block
                del self._heard[:-_KEPT]

    def _write(self, block: bytes) -> None:
        if self._log is None:
            return
        with contextlib.suppress(OSError):  # a full disk ends the log and not the trial
            if self._written + len(block) > _FILE:
                kept = self._log.read_bytes()[-_FILE // 2 :]
                self._log.write_bytes(b"[netbisect: what was before this is left out]\n" + kept)
                self._written = self._log.stat().st_size
            with self._log.open("ab") as stream:
                stream.write(block)
            self._written += len(block)
