"""Fetches the diff of a review from Phabricator."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request

from netbisect.workers.patches import MOST_BYTES, Patch, PatchError, read

_REVIEW = re.compile(r"D[1-9]\d{0,8}\Z")
_SILENCE = 30.0
"""Seconds without a word after which the server counts as down."""
_LONGEST = 120.0
"""Seconds in which all of it must have come."""
_BLOCK = 1 << 16


def fetch(review: str, template: str) -> Patch:
    """The newest diff of a review.

    Args:
        review: Its name, such as D5180.
        template: Address of its raw diff, `{review}` for the name: `review_url` of the lab file.

    Raises:
        PatchError: it cannot be had, or is no diff that may be applied.
    """
    if not _REVIEW.match(review):
        raise PatchError(f"{review!r}: the name of a review expected, such as D5180")
    address = template.replace("{review}", review)
    host = urllib.parse.urlsplit(address).netloc
    request = urllib.request.Request(  # noqa: S310 - the lab file allows http and https only
        address, headers={"User-Agent": "netbisect", "Accept": "text/plain, */*"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SILENCE) as answer:  # noqa: S310 - as above
            data = _all_of(review, host, answer)
    except urllib.error.HTTPError as error:
        raise PatchError(f"{review}: {host} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise PatchError(f"{review}: {host} cannot be asked: {why}") from error
    return read(review, data)


def _all_of(review: str, host: str, answer: http.client.HTTPResponse) -> bytes:
    """What the server sends, as long as it is not too much and does not take too long."""
    deadline = time.monotonic() + _LONGEST
    data = bytearray()
    while block := answer.read1(_BLOCK):
        data += block
        if len(data) > MOST_BYTES:
            break  # whoever reads it says so
        if time.monotonic() > deadline:
            raise PatchError(f"{review}: {host} has not sent all of it after {_LONGEST:g} s")
    else:
        if answer.length:
            raise PatchError(f"{review}: {host} sent {len(data)} bytes and not the rest")
    return bytes(data)
