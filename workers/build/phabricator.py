"""Downloads the diff of a review from Phabricator.

The master may reach more hosts than its users: redirects to other servers are refused, and
messages contain no part of the answer.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import Future
from typing import IO

from netbisect.workers.build.patches import MOST_BYTES, Patch, PatchError, read

_REVIEW = re.compile(r"D[1-9]\d{0,8}\Z")
_SILENCE = 30.0
"""Timeout of silence, in seconds."""
_LONGEST = 120.0
"""Timeout of the download, in seconds."""
_BLOCK = 1 << 16
_PORTS = {"http": 80, "https": 443}

_MOST_REDIRECTS = 4


def _server_of(address: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port.

    Raises:
        ValueError: invalid address.
    """
    parts = urllib.parse.urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def fetch(review: str, template: str) -> Patch:
    """Downloads the newest diff of a review.

    Args:
        review: Name, such as D5180.
        template: `review_url` of the lab file.

    Raises:
        PatchError: unavailable, not a valid diff, or not downloaded after two minutes.
    """
    if not _REVIEW.match(review):
        raise PatchError(f"{review!r}: expected the name of a review, such as D5180")
    address = template.replace("{review}", review)
    request = urllib.request.Request(  # noqa: S310 - the lab file allows http and https only
        address, headers={"User-Agent": "netbisect", "Accept": "text/plain, */*"}
    )
    found = Future[Patch]()
    # urllib limits each read only; a server may send its headers byte by byte.
    threading.Thread(target=_answer, args=(found, review, request), daemon=True).start()
    try:
        return found.result(_LONGEST)
    except TimeoutError:
        raise PatchError(
            f"{review}: {request.host} has not sent all of it after {_LONGEST:g} s"
        ) from None


def _answer(found: Future[Patch], review: str, request: urllib.request.Request) -> None:
    try:
        found.set_result(_download(review, request))
    except BaseException as error:  # noqa: BLE001 - raised in the other thread
        found.set_exception(error)


def _download(review: str, request: urllib.request.Request) -> Patch:
    host = request.host
    try:
        with urllib.request.build_opener(_SameServer).open(request, timeout=_SILENCE) as answer:
            data = _all_of(host, answer)
    except PatchError as error:
        raise PatchError(f"{review}: {error}") from error
    except urllib.error.HTTPError as error:
        error.close()
        phrase = http.client.responses.get(error.code, "")
        raise PatchError(f"{review}: {host} answers {error.code} {phrase}".rstrip()) from error
    except (http.client.HTTPException, ValueError) as error:
        raise PatchError(
            f"{review}: {host} sent no valid HTTP response ({type(error).__name__})"
        ) from error
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise PatchError(f"{review}: {host} cannot be reached: {why}") from error
    return read(review, data)


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same server; raises PatchError for others, or too many."""

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> http.client.HTTPResponse | None:
        fp.close()  # urllib would read all of it, or leave it open if the target is invalid
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if _server_of(newurl) != _server_of(req.full_url):
            raise PatchError(
                f"{req.host} redirects to another server, which is not followed; expected a "
                "review_url whose server has the diff itself"
            )
        if sum(getattr(req, "redirect_dict", {}).values()) >= _MOST_REDIRECTS:
            raise PatchError(f"{req.host} redirects more than {_MOST_REDIRECTS} times")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _all_of(host: str, answer: http.client.HTTPResponse) -> bytes:
    """The content, up to the limits of size and time."""
    deadline = time.monotonic() + _LONGEST
    data = bytearray()
    while block := answer.read1(_BLOCK):
        data += block
        if len(data) > MOST_BYTES:
            break  # `read` reports it
        if time.monotonic() > deadline:
            raise PatchError(f"{host} has not sent all of it after {_LONGEST:g} s")
    else:
        if answer.length:
            raise PatchError(f"{host} sent {len(data)} bytes and not the rest")
    return bytes(data)
