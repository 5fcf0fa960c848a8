"""Limits of all HTTP requests: size of the body, and text in URL and headers.

Twisted and Buildbot fail with a traceback on bytes that are not text.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from buildbot.www.service import BuildbotSite
from twisted.internet import reactor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.base import DelayedCall
from twisted.python.failure import Failure
from twisted.web.server import Request

from netbisect.reports.documents import api, json_schema, openapi

_LINGER = 5.0
"""Seconds for a client to read the response before the connection is closed."""


class LimitedRequest(Request):
    """Rejects a large body at once; Twisted would store all of it first."""

    trusted_proxies: frozenset[str] = frozenset()
    """Addresses of proxies whose X-Forwarded-For is used."""
    _refused: DelayedCall | None = None
    _length = 0

    def getClientAddress(self) -> Any:
        """The client's address: the last untrusted one that trusted proxies forward."""
        peer: Any = super().getClientAddress()
        hosts = ",".join(self.requestHeaders.getRawHeaders("x-forwarded-for", [])).split(",")
        while hosts and getattr(peer, "host", "") in self.trusted_proxies:
            try:
                host = ipaddress.ip_address(hosts.pop().strip())
            except ValueError:
                break
            peer = (IPv4Address if host.version == 4 else IPv6Address)("TCP", str(host), 0)  # noqa: PLR2004
        return peer

    def gotLength(self, length: int | None) -> None:
        super().gotLength(length)
        if length is not None and length > openapi.MOST_BODY_BYTES:
            self._refuse_size()

    def handleContentChunk(self, data: bytes) -> None:
        self._length += len(data)
        if self._refused is None and self._length > openapi.MOST_BODY_BYTES:
            self._refuse_size()
        if self._refused is None:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        if self._refused is not None:
            return
        if not _is_text(path):
            self._refuse(
                "400 Bad Request", "expected a URL in ASCII that decodes to UTF-8 without NUL"
            )
            return
        for name, values in [*self.requestHeaders.getAllRawHeaders()]:
            # No valid token, origin or type contains the replacement character.
            text = [value.decode("utf-8", "replace").encode() for value in values]
            self.requestHeaders.setRawHeaders(name, text)
        super().requestReceived(command, path, version)

    def connectionLost(self, reason: Failure) -> None:
        if self._refused is not None and self._refused.active():
            self._refused.cancel()
        super().connectionLost(reason)

    def _refuse_size(self) -> None:
        message = f"expected at most {openapi.MOST_BODY_BYTES:,} bytes"
        self._refuse("413 Request Entity Too Large", message)

    def _refuse(self, status: str, message: str) -> None:
        """Responds at once and discards further input; closing at once would lose the response."""
        document = json_schema.as_plain(api.Refusal(error=message, faults={}))
        body = json.dumps(document, indent=2).encode() + b"\n"
        head = (
            f"HTTP/1.1 {status}",
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


def _is_text(path: bytes) -> bool:
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return path.isascii() and "\0" not in text


def install(trusted_proxies: Iterable[str] = ()) -> None:
    """Makes Buildbot's web server use these limits."""
    LimitedRequest.trusted_proxies = frozenset(trusted_proxies)
    BuildbotSite.requestFactory = LimitedRequest
