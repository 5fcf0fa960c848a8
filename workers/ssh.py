"""Runs commands on machines through the OpenSSH client.

The user's own configuration and keys are used; host keys are always checked; nothing asks
for a password; every call has a time limit; one connection per machine is shared.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from netbisect.workers.faults import CommandError, HostKeyError, UnreachableError
from netbisect.workers.lab import Ssh

SSH_FAILED = 255
"""What ssh(1) returns when it is ssh itself that failed."""
_PATIENCE = 5.0
"""Seconds to be let in, once connected."""
_END = "netbisect: the end of this answer"
_KEY_SAID = ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed")


class Connections:
    """The shared connections of one process; a context manager that closes them."""

    def __init__(self, settings: Ssh) -> None:
        self.settings = settings
        self._sockets = Path(tempfile.mkdtemp(prefix="nb-"))  # short: a socket path has 104 bytes
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
            self._machines[address] = Machine(address, self.settings, socket)
        return self._machines[address]


class Machine:
    """One machine behind ssh."""

    def __init__(self, address: str, settings: Ssh, socket: Path) -> None:
        self.address = address
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
            "ControlMaster": "auto",
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
                [*self._ssh, self.address, "true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def _end_opening(self) -> None:
        """Waits until it is connected, or has failed, or takes too long."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        with opening:
            try:
                opening.wait(self._settings.connect_timeout + _PATIENCE)
            except subprocess.TimeoutExpired:
                pass  # the next one will say so
            finally:
                opening.kill()

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
        self._end_opening()
        limit = timeout or self._settings.command_timeout
        feed: dict[str, object] = {"stdin": subprocess.DEVNULL}
        if isinstance(stdin, bytes):
            feed = {"input": stdin}
        elif stdin is not None:
            feed = {"stdin": stdin}
        try:
            done = subprocess.run(  # type: ignore[call-overload]
                [*self._ssh, self.address, line],
                capture_output=True,
                timeout=limit,
                check=False,
                **feed,
            )
        except subprocess.TimeoutExpired:
            self.forget_connection()
            raise CommandError(self.address, line, None, f"limit {limit:g} s") from None
        said = done.stderr.decode(errors="replace")
        if any(text in said for text in _KEY_SAID):
            raise HostKeyError(f"{self.address}: the host key is not the known one")
        if done.returncode == SSH_FAILED:
            self.forget_connection()
            raise UnreachableError(self.address, said)
        out: str = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise CommandError(self.address, line, done.returncode, said or out)
        return out

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
            CommandError: they did not end in time.
        """
        end = shlex.join(["echo", _END])
        said = self._run_line("; ".join(f"{self._line(command)}; {end}" for command in commands))
        return said.split(f"{_END}\n")[: len(commands)]

    @contextlib.contextmanager
    def running(self, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A long command, its output in `log`, stopped when the block ends."""
        self._end_opening()
        with (
            log.open("wb") as stream,
            subprocess.Popen(
                [*self._ssh, self.address, shlex.join(command)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(5)
                    process.kill()

    def forget_connection(self) -> None:
        """Closes the shared connection: what follows connects anew."""
        self._end_opening()
        if not self._socket.exists():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*self._ssh, "-O", "exit", self.address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
        # A master that hangs keeps its socket; nobody else shall ask there.
        self._socket.unlink(missing_ok=True)
