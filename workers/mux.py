"""Commands over a connection that ssh(1) shares, without an ssh(1) for each of them.

What one ssh(1) says to the one that holds the connection is documented by OpenSSH in
PROTOCOL.mux, version 4. To start a client takes ten times as long as to say it, and each client
1.2 MB; whatever connects, authenticates and encrypts stays ssh(1) alone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SSH_FAILED = 255
"""What ssh(1) returns when it is ssh itself that failed."""
_VERSION = 4
_HELLO, _NEW_SESSION, _TERMINATE = 0x00000001, 0x10000002, 0x10000005
_OK, _DENIED, _FAILURE, _EXIT, _OPENED = 0x80000001, 0x80000002, 0x80000003, 0x80000004, 0x80000006
_REQUEST = 0
"""Number of the one request that is made over a socket."""
_NO_ESCAPE = 0xFFFFFFFF
_LONGEST = 1 << 18
"""Bytes of a message, as ssh(1) has it; more comes from something else."""
_BLOCK = 4096
MOST_BYTES = 128 << 20
"""That a machine may say; the largest answer of a sound one is a profile, of 64 MiB."""


class TooMuchError(Exception):
    """A machine says more than anybody wants to hear."""


class RefusedError(Exception):
    """Whoever holds the connection does not take another session, or speaks another version."""


class _Channel:
    """A socket at which messages are exchanged, each with its length and its type."""

    def __init__(self, place: Path, deadline: float) -> None:
        self._buffer = b""
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.connect(str(place))
            self.send(_HELLO, struct.pack(">I", _VERSION))
            self.expect(_HELLO, struct.pack(">I", _VERSION), deadline)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def send(self, kind: int, body: bytes) -> None:
        self._socket.sendall(struct.pack(">II", 4 + len(body), kind) + body)

    def pass_on(self, descriptors: Sequence[int]) -> None:
        """Each by itself, with a byte that says nothing: as ssh(1) takes them."""
        for one in descriptors:
            socket.send_fds(self._socket, [b"\0"], [one])

    def receive(self, deadline: float | None) -> tuple[int, bytes]:
        """The next message: its type, and what follows.

        Args:
            deadline: By time.monotonic; None to take only what is there.

        Raises:
            EOFError: the other end has closed it.
            TimeoutError, BlockingIOError: it does not come in time, or is not there.
            OSError: it cannot be had.
            RefusedError: it is none.
        """
        length = self._number(deadline)
        if not 4 <= length <= _LONGEST:  # noqa: PLR2004 - the bytes of its type
            raise RefusedError("another protocol")
        self._fill(4 + length, deadline)
        message, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
        return int.from_bytes(message[:4], "big"), message[4:]

    def expect(self, kind: int, beginning: bytes, deadline: float) -> None:
        """The next message, of that type and with that beginning.

        Raises what `receive` raises.

        Raises:
            RefusedError: it is another one.
        """
        found, body = self.receive(deadline)
        if found != kind or not body.startswith(beginning):
            raise RefusedError(body[8:].decode(errors="replace"))

    def _number(self, deadline: float | None) -> int:
        self._fill(4, deadline)
        return int.from_bytes(self._buffer[:4], "big")

    def _fill(self, wanted: int, deadline: float | None) -> None:
        while len(self._buffer) < wanted:
            self._socket.settimeout(0.0 if deadline is None else _left(deadline))
            block = self._socket.recv(_BLOCK)
            if not block:
                raise EOFError
            self._buffer += block


def _left(deadline: float) -> float:
    """Seconds until then.

    Raises:
        TimeoutError: there are none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _text(text: str) -> bytes:
    data = text.encode(errors="surrogateescape")
    return struct.pack(">I", len(data)) + data


class Session:
    """A command that runs on a machine: as much of subprocess.Popen as is needed of one."""

    def __init__(self, place: Path, line: str, streams: Sequence[int], deadline: float) -> None:
        """Begins it.

        Args:
            place: Of the socket.
            line: For the shell of the machine.
            streams: File descriptors of its standard input, output and error.
            deadline: By time.monotonic, for it to have begun.

        Raises:
            OSError, EOFError: nobody is there who holds a connection.
            TimeoutError: it has not begun by then.
            RefusedError: there are too many sessions.
        """
        self.args = line
        self.returncode: int | None = None
        self._told = SSH_FAILED
        self._channel = _Channel(place, deadline)
        try:
            # No terminal, no X11, no agent, no subsystem: what is called bool has four bytes.
            flags = struct.pack(">5I", 0, 0, 0, 0, _NO_ESCAPE)
            body = struct.pack(">I", _REQUEST) + _text("") + flags + _text("") + _text(line)
            self._channel.send(_NEW_SESSION, body)
            self._channel.pass_on(streams)
            self._channel.expect(_OPENED, struct.pack(">I", _REQUEST), deadline)
        except BaseException:
            self._channel.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def poll(self) -> int | None:
        """Its status, None while it runs; `SSH_FAILED` when the connection was lost."""
        with contextlib.suppress(BlockingIOError):
            self._follow(None)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its status once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, after so many seconds.
        """
        try:
            self._follow(time.monotonic() + timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout) from None
        assert self.returncode is not None
        return self.returncode

    def _follow(self, deadline: float | None) -> None:
        """Reads until the end: after the status comes what the command has still to say."""
        while self.returncode is None:
            try:
                kind, body = self._channel.receive(deadline)
            except (TimeoutError, BlockingIOError):
                raise
            except (EOFError, OSError, RefusedError):
                self._end()
                return
            if kind == _EXIT:
                self._told = int.from_bytes(body[4:8], "big")

    def _end(self) -> None:
        self.returncode = self._told
        self._channel.close()

    def kill(self) -> None:
        """Closes it, which hangs up on the command."""
        if self.returncode is None:
            self._end()


def end_connection(place: Path, seconds: float) -> None:
    """Has whoever holds the connection at that socket end, if somebody does."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(OSError, EOFError, RefusedError):
        channel = _Channel(place, deadline)
        try:
            channel.send(_TERMINATE, struct.pack(">I", _REQUEST))
            while channel.receive(deadline)[0] not in (_OK, _DENIED, _FAILURE):
                pass
        finally:
            channel.close()


def read_both(first: int, second: int, deadline: float) -> tuple[bytes, bytes]:
    """What comes from two pipes until both are closed.

    Raises:
        TimeoutError: they are not, by then (time.monotonic).
        TooMuchError: more than `MOST_BYTES` come from one of them.
    """
    found: dict[int, bytearray] = {first: bytearray(), second: bytearray()}
    with selectors.DefaultSelector() as open_ones:
        for one in found:
            open_ones.register(one, selectors.EVENT_READ)
        while open_ones.get_map():
            for ready, _ in open_ones.select(_left(deadline)):
                block = os.read(ready.fd, 1 << 16)
                found[ready.fd] += block
                if len(found[ready.fd]) > MOST_BYTES:
                    raise TooMuchError(f"it said more than {MOST_BYTES >> 20} MiB")
                if not block:
                    open_ones.unregister(ready.fd)
    return bytes(found[first]), bytes(found[second])
