"""HTTP client for the API of a netbisect server."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import cattrs

from netbisect.reports.documents import api, openapi
from netbisect.reports.model import types

T = TypeVar("T")
_SECONDS = 120.0
"""Timeout; the server may have to fetch a review first."""
_MOST_BYTES = 64 << 20
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TEMPORARY = (429, 502, 503, 504)


class ServerError(Exception):
    """The server rejected a call, or cannot be reached."""

    def __init__(self, sentence: str, *, temporary: bool = False) -> None:
        super().__init__(sentence)
        self.temporary = temporary
        """Whether a retry may succeed."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that the token goes to no other server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        pass


class HttpClient:
    """Uses a server's API; the token identifies the caller. The methods raise ServerError."""

    poll_seconds = 10.0

    def __init__(self, address: str, token: str) -> None:
        """Checks address and token; does not connect.

        Raises ServerError if the address is neither HTTPS nor this host, or the token is malformed.
        """
        parts = urlsplit(address)
        local = parts.scheme == "http" and parts.hostname in _LOCAL
        if not (parts.scheme == "https" or local) or not parts.netloc or parts.query:
            raise ServerError(
                f"{address!r}: expected the https:// address of the web pages; "
                "http:// is allowed for this host only"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ServerError("expected a token as printed by `netbisect token create`")
        self._address = f"{address.rstrip('/')}/{openapi.PREFIX}"
        self._token = token
        # The token does not leave this host in plain text, not to a proxy either.
        proxies = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(_NoRedirects, *proxies)

    def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        """Reads a document, such as `requests/7`."""
        return self._call(f"{path}?{urlencode(query)}" if query else path, kind, None)

    def ask(self, body: api.AskBody, kind: type[T]) -> T:
        """Submits a request, or estimates its cost; without retries."""
        return self._call("requests", kind, body)

    def change(self, verb: str, number: int, body: Any) -> None:
        """Cancels, resumes, extends or reprioritizes a request."""
        self._call(f"requests/{number}/{verb}", types.RequestDocument, body)

    def _call(self, path: str, kind: type[T], body: Any) -> T:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._token}"}
        content = None
        if body is not None:
            content = json.dumps(asdict(body)).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self._address}/{path}", content, headers)  # noqa: S310 - checked in __init__
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                text = response.read(_MOST_BYTES)
            return cattrs.Converter().structure(json.loads(text), kind)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read(_MOST_BYTES)) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise ServerError(
                f"{self._address} cannot be reached: {why}", temporary=True
            ) from error
        except (ValueError, cattrs.BaseValidationError) as error:
            raise ServerError(
                f"{self._address} is not a netbisect server, or has another version"
            ) from error


def _refused(status: int, content: bytes) -> ServerError:
    temporary = status in _TEMPORARY
    try:
        refusal = cattrs.Converter().structure(json.loads(content), api.Refusal)
    except (ValueError, cattrs.BaseValidationError):
        return ServerError(f"the server responded with status {status}", temporary=temporary)
    lines = [refusal.error]
    lines += [f"  {one.name}  {one.date[:10]}  {one.subject}" for one in refusal.candidates]
    return ServerError("\n".join(lines), temporary=temporary)
