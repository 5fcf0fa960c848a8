"""A netbisect server as its API gives it to programs on any machine."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import cattrs

from netbisect.reports import api, openapi

T = TypeVar("T")
_SECONDS = 120.0
"""For an answer; of a wish the server may have to fetch a review first."""
_MOST_BYTES = 64 << 20
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PASSING = (429, 502, 503, 504)


class ServerError(Exception):
    """The server refuses something, or cannot be reached; the text is for people."""

    def __init__(self, sentence: str, *, passing: bool = False) -> None:
        super().__init__(sentence)
        self.passing = passing
        """Whether it may be well again after a while."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes where it was meant to go, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follows none."""


class Server:
    """Speaks for the owner of a token."""

    def __init__(self, address: str, token: str) -> None:
        """Takes what is needed, and asks nothing yet.

        Args:
            address: Of the web pages.
            token: As `netbisect token create` has printed it.

        Raises:
            ServerError: that is no address to which a token may be sent.
        """
        parts = urlsplit(address)
        local = parts.scheme == "http" and parts.hostname in _LOCAL
        if not (parts.scheme == "https" or local) or not parts.netloc or parts.query:
            raise ServerError(
                f"{address!r}: the https:// address of the web pages expected; http:// is for "
                "this host, as a token must not be read on its way"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ServerError("a token expected as `netbisect token create` has printed it")
        self._address = f"{address.rstrip('/')}/{openapi.PREFIX}"
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        """What is there, as that kind.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        return self._call(f"{path}?{urlencode(query)}" if query else path, kind, None)

    def post(self, path: str, kind: type[T], body: Mapping[str, Any]) -> T:
        """What comes of it, as that kind; it is tried once.

        Raises:
            ServerError: the server refuses it, or cannot be reached.
        """
        return self._call(path, kind, json.dumps(body).encode())

    def _call(self, path: str, kind: type[T], content: bytes | None) -> T:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._token}"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        asked = urllib.request.Request(f"{self._address}/{path}", content, headers)  # noqa: S310 - checked in __init__
        try:
            with self._opener.open(asked, timeout=_SECONDS) as answer:
                text = answer.read(_MOST_BYTES)
            return cattrs.Converter().structure(json.loads(text), kind)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read(_MOST_BYTES)) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise ServerError(f"{self._address} cannot be reached: {why}", passing=True) from error
        except (ValueError, cattrs.BaseValidationError) as error:
            raise ServerError(f"{self._address} answers otherwise than a netbisect does") from error


def _refused(status: int, content: bytes) -> ServerError:
    passing = status in _PASSING
    try:
        told = cattrs.Converter().structure(json.loads(content), api.Refusal)
    except (ValueError, cattrs.BaseValidationError):
        return ServerError(f"the server answers with status {status}", passing=passing)
    lines = [told.error]
    lines += [f"  {one.name}  {one.date[:10]}  {one.subject}" for one in told.candidates]
    return ServerError("\n".join(lines), passing=passing)
