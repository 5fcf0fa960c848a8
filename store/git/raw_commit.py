"""Reads a commit object as git stores it: bytes that anybody may have written.

`git log --format` prints nothing, or fails, for some of them; here every object gives a commit, and
what cannot be read of it is empty.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

LATEST = 253_370_764_800
"""9999-01-01, seconds since the epoch: later dates are taken for this one, as Python has none."""
MOST_BYTES = 100_000
"""Of a message, that are kept."""
_MOST_LETTERS = 1000
"""Of a subject, a name or an address."""
_IDENTITY = re.compile(rb"([^<]*)<([^>]*)>(?:[^\n]*>)?[ \t]*(-?\d{1,20})?")
_PLAIN = ("iso8859", "cp125", "cp932", "cp949", "koi8", "euc", "gb", "big5", "shift_jis", "mac")
"""How the names of encodings begin of which ASCII is a part."""


@dataclass(frozen=True, slots=True)
class RawCommit:
    """What a commit object says, as text without NUL."""

    revision: str
    author: str
    email: str
    committer: str
    committer_email: str
    at: int
    """When it was committed, seconds since the epoch; 0 where that cannot be read."""
    subject: str
    """The first paragraph in one line; the beginning of the hash where there is none."""
    body: str
    message: str
    """Subject and body."""


def parse(revision: str, raw: bytes) -> RawCommit:
    """Reads any bytes.

    Args:
        revision: Full hash.
        raw: Content of the object.
    """
    header, _, message = raw.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in header.split(b"\n"):
        # The lines of a signature or of a merged tag begin with a blank.
        key, _, value = line.partition(b" ")
        fields.setdefault(key, value)
    encoding = _encoding(fields.get(b"encoding", b""))
    author, email, _ = _identity(fields.get(b"author", b""), encoding)
    committer, committer_email, at = _identity(fields.get(b"committer", b""), encoding)
    text = _text(message[:MOST_BYTES], encoding)
    subject, body = _paragraphs(text)
    return RawCommit(
        revision=revision,
        author=author,
        email=email,
        committer=committer,
        committer_email=committer_email,
        at=at,
        subject=subject[:_MOST_LETTERS] or revision[:12],
        body=body,
        message=text,
    )


def _identity(line: bytes, encoding: str) -> tuple[str, str, int]:
    """Name, address and time."""
    found = _IDENTITY.match(line)
    if found is None:
        return _text(line, encoding).strip()[:_MOST_LETTERS], "", 0
    name, email = (_text(part, encoding).strip()[:_MOST_LETTERS] for part in found.group(1, 2))
    return name, email, min(max(int(found[3] or 0), 0), LATEST)


def _text(raw: bytes, encoding: str) -> str:
    """As UTF-8 where it is, else in the encoding that the commit names; databases take no NUL."""
    try:
        said = raw.decode()
    except UnicodeDecodeError:
        said = raw.decode(encoding, errors="replace")
    return said.replace("\0", "\ufffd")


def _encoding(name: bytes) -> str:
    """The encoding of that name, if it can be the one of a commit."""
    try:
        known = codecs.lookup(name.decode("ascii")).name
    except (LookupError, ValueError):
        return "utf-8"
    return known if known.startswith(_PLAIN) else "utf-8"


def _paragraphs(text: str) -> tuple[str, str]:
    """The first paragraph in one line, and the others."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    end = next((i for i in range(first, len(lines)) if not lines[i].strip()), len(lines))
    subject = " ".join(line.rstrip() for line in lines[first:end]).strip()
    return subject, "\n".join(lines[end:]).strip("\n")
