"""Downloads the diff of a review from Phabricator.

The master may reach more hosts than its users: redirects to other servers are refused, and
messages contain no part of the answer.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import string
import time
import urllib.error
import urllib.parse
import urllib.request

from netbisect.workers.build.patches import MOST_BYTES, Patch, PatchError, read

_REVIEW = re.compile(r"D[1-9]\d{0,8}\Z")
_SILENCE = 30.0
"""Timeout of silence, in seconds."""
_LONGEST = 120.0
"""Timeout of the download, in seconds."""
_BLOCK = 1 << 16
_PORTS = {"http": 80, "https": 443}


_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)
"""urllib handlers without redirects."""


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
        PatchError: unavailable, or not a valid diff.
    """
    if not _REVIEW.match(review):
        raise PatchError(f"{review!r}: the name of a review expected, such as D5180")
    address = template.replace("{review}", review)
    host = urllib.parse.urlsplit(address).netloc
    try:
        with _open(host, address) as answer:
            data = _all_of(host, answer)
    except PatchError as error:
        raise PatchError(f"{review}: {error}") from error
    except urllib.error.HTTPError as error:
        error.close()
        phrase = http.client.responses.get(error.code, "")
        raise PatchError(f"{review}: {host} answers {error.code} {phrase}".rstrip()) from error
    except (http.client.HTTPException, ValueError) as error:
        raise PatchError(
            f"{review}: {host} gives no valid HTTP answer ({type(error).__name__})"
        ) from error
    except OSError as error:
        why = getattr(error, "reason", None) or error
        raise PatchError(f"{review}: {host} cannot be asked: {why}") from error
    return read(review, data)


def _open(host: str, address: str) -> http.client.HTTPResponse:
    """Opens an address; follows redirects on the same server.

    Raises:
        HTTPError: error of the server.
        PatchError: redirect to another server, or too many.
    """
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    for _ in range(_MOST_REDIRECTS):
        request = urllib.request.Request(  # noqa: S310 - the lab file allows http and https only
            address, headers={"User-Agent": "netbisect", "Accept": "text/plain, */*"}
        )
        try:
            answer: http.client.HTTPResponse = opener.open(request, timeout=_SILENCE)
        except urllib.error.HTTPError as error:
            if error.code not in _REDIRECTS or "location" not in error.headers:
                raise
            error.close()
            address = _next(host, address, error.headers["location"])
        else:
            return answer
    raise PatchError(f"{host} redirects more than {_MOST_REDIRECTS - 1} times")


def _next(host: str, address: str, place: str) -> str:
    """The target of a redirect.

    Raises:
        PatchError: on another server.
    """
    with contextlib.suppress(ValueError):
        new = urllib.parse.quote(urllib.parse.urljoin(address, place), safe=string.punctuation)
        if _server_of(new) == _server_of(address):
            return new
    raise PatchError(
        f"{host} redirects to another server, which is not followed; expected a review_url whose "
        "server has the diff itself"
    )


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
