"""Nothing is kept of a request's body that is larger than any may be, wherever it goes."""

from __future__ import annotations

import json
from typing import Any

from buildbot.www.service import BuildbotSite
from twisted.internet import reactor
from twisted.internet.base import DelayedCall
from twisted.python.failure import Failure
from twisted.web.server import Request

from netbisect.reports import api, openapi, schema

_LINGER = 5.0
"""Seconds in which whoever sends too much can read the answer."""


class Bounded(Request):
    """A request that is refused as soon as it is known to be too large.

    Twisted keeps a body in memory or in a file until all of it is there.
    """

    _refused: DelayedCall | None = None
    _length = 0

    def gotLength(self, length: int | None) -> None:
        """Refuses by what the headers say."""
        super().gotLength(length)
        if length is not None and length > openapi.MOST_BODY_BYTES:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        """Refuses by what has come of a body that does not say how long it is."""
        self._length += len(data)
        if self._refused is None and self._length > openapi.MOST_BODY_BYTES:
            self._refuse()
        if self._refused is None:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """All of it has come."""
        if self._refused is None:
            super().requestReceived(command, path, version)

    def connectionLost(self, reason: Failure) -> None:
        """Nobody is there any more."""
        if self._refused is not None and self._refused.active():
            self._refused.cancel()
        super().connectionLost(reason)

    def _refuse(self) -> None:
        """Answers at once, and throws away what still comes.

        A connection that is closed before all of that was read takes the answer with it.
        """
        said = f"at most {openapi.MOST_BODY_BYTES:,} bytes expected"
        told = schema.told(api.Refusal(error=said, faults={}))
        body = json.dumps(told, indent=2).encode() + b"\n"
        head = (
            "HTTP/1.1 413 Request Entity Too Large",
            "Content-Type: application/json; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        if self.content is not None:
            self.content.close()
        transport: Any = self.channel.transport
        transport.write("".join(f"{line}\r\n" for line in (*head, "")).encode() + body)
        transport.loseWriteConnection()
        clock: Any = reactor
        self._refused = clock.callLater(_LINGER, transport.abortConnection)


def bound() -> None:
    """Has Buildbot's web server make such requests."""
    BuildbotSite.requestFactory = Bounded
