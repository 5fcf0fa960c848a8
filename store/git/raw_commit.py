"""Parses commit objects, which may contain any bytes.

`git log --format` fails for some of them; this parser returns a commit for every object, with empty
fields where it is invalid.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

LATEST = 253_370_764_800
"""9999-01-01, seconds since the epoch; replaces later dates, which Python does not support."""
MOST_BYTES = 100_000
"""Most bytes of a message."""
_MOST_LETTERS = 1000
"""Most characters of a subject, a name or an address."""
_IDENTITY = re.compile(rb"([^<]*)<([^>]*)>(?:[^\n]*>)?[ \t]*(-?\d{1,20})?")
_PLAIN = ("iso8859", "cp125", "cp932", "cp949", "koi8", "euc", "gb", "big5", "shift_jis", "mac")
"""Prefixes of the names of supersets of ASCII."""


@dataclass(frozen=True, slots=True)
class RawCommit:
    """A commit object as text without NUL."""

    revision: str
    author: str
    email: str
    committer: str
    committer_email: str
    at: int
    """Time of the commit, seconds since the epoch; 0 if invalid."""
    subject: str
    """The first paragraph as one line, or the beginning of the hash."""
    body: str
    message: str
    """Subject and body."""


def parse(revision: str, raw: bytes) -> RawCommit:
    """Parses the content of a commit object; `revision` is its full hash."""
    header, _, message = raw.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in header.split(b"\n"):
        # Lines of a signature or a merged tag begin with a blank.
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
    """Decodes UTF-8, or else the encoding of the commit, and replaces NUL."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(encoding, errors="replace")
    return text.replace("\0", "\ufffd")


def _encoding(name: bytes) -> str:
    """Python's name of an encoding; UTF-8 if it is unknown or no superset of ASCII."""
    try:
        known = codecs.lookup(name.decode("ascii")).name
    except (LookupError, ValueError):
        return "utf-8"
    return known if known.startswith(_PLAIN) else "utf-8"


def _paragraphs(text: str) -> tuple[str, str]:
    """The first paragraph as one line, and the rest."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    end = next((i for i in range(first, len(lines)) if not lines[i].strip()), len(lines))
    subject = " ".join(line.rstrip() for line in lines[first:end]).strip()
    return subject, "\n".join(lines[end:]).strip("\n")
