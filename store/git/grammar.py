"""Parses the names of revisions, without access to a repository.

A name may have several readings: `311849` is a Subversion number and the prefix of a hash.
`store/git/resolve.py` looks up each of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TypeAlias

from netbisect.bisect.model.entities import Commit
from netbisect.errors import UserError

LONGEST = 200
"""Most characters of a name."""
_DAY = 86_400
_HASH = re.compile(r"[0-9a-fA-F]{4,40}")
_SUBVERSION = re.compile(r"(r?)([0-9]{1,9})")
_SHORTEST = 4
"""Fewest digits of a Subversion number without r or branch."""
_COUNTED = re.compile(r"(?:(.+)-)?n([0-9]{1,9})(?:-([0-9a-fA-F]{4,40}))?(-dirty)?")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(.*))?")
_ZONE = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}")
_REVIEW = re.compile(r"D[1-9][0-9]{0,6}(@.*)?")
_PLAIN = re.compile(r"[A-Za-z0-9._/+@:~-]+")
_BACK = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class RevisionCandidate:
    """A commit that a name may mean, with an unambiguous name."""

    name: str
    commit: Commit


class RevisionError(UserError, ValueError):
    """A name is invalid, unknown or ambiguous."""

    def __init__(self, sentence: str, candidates: tuple[RevisionCandidate, ...] = ()) -> None:
        super().__init__(sentence)
        self.candidates = candidates
        """Possible meanings, or alternatives; often none."""


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash, or the prefix of one."""

    prefix: str
    """4 to 40 lower-case digits."""

    def __str__(self) -> str:
        return self.prefix


@dataclass(frozen=True, slots=True)
class Subversion:
    """A Subversion number: `r311849`, `stable/10@295802`."""

    number: int
    branch: str = ""
    """With a branch: its last commit up to the number."""

    def __str__(self) -> str:
        return f"{self.branch}@{self.number}" if self.branch else f"r{self.number}"


@dataclass(frozen=True, slots=True)
class CountedName:
    """A number on a first-parent line, as in `uname -v`: `main-n302145-0a1b2c3d`, `n302145`."""

    number: int
    branch: str = ""
    prefix: str = ""
    """Prefix of the hash, lower case."""

    def __str__(self) -> str:
        before = f"{self.branch}-" if self.branch else ""
        after = f"-{self.prefix}" if self.prefix else ""
        return f"{before}n{self.number}{after}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A branch at the end of a day, or at a time: `2026-11-01`, `2026-11-01T12:00Z`."""

    text: str
    until: int
    """Last second, since the epoch."""
    branch: str = ""

    @property
    def since(self) -> int:
        """First second of the day, or the time."""
        return self.until if "T" in self.text else self.until - _DAY + 1

    def __str__(self) -> str:
        return f"{self.branch}@{self.text}" if self.branch else self.text


Reading: TypeAlias = Hash | Subversion | CountedName | Moment


@dataclass(frozen=True, slots=True)
class Single:
    """The name of one commit."""

    text: str
    """Without `~` and the steps."""
    readings: tuple[Reading, ...]
    """All possible meanings, beside that of a branch or a tag, such as `origin/main`."""
    back: int | None = None
    """Steps along first parents, as in `main~3`, or None."""

    def __str__(self) -> str:
        return self.text if self.back is None else f"{self.text}~{self.back}"


@dataclass(frozen=True, slots=True)
class ReviewName:
    """A patch under review, optionally with a base: `D5180`, `D5180@stable/14`."""

    review: str
    base: Single | None = None

    def __str__(self) -> str:
        return self.review if self.base is None else f"{self.review}@{self.base}"


@dataclass(frozen=True, slots=True)
class RangeName:
    """The commits after `good` up to `bad`: `r311848..r313448`."""

    good: Single
    bad: Single

    def __str__(self) -> str:
        return f"{self.good}..{self.bad}"


Name: TypeAlias = Single | ReviewName | RangeName


def parse(text: str) -> Name:
    """Parses a name; surrounding blanks are ignored.

    Raises:
        RevisionError: it is invalid.
    """
    name = text.strip(" \t\r\n")
    _check(name)
    if "..." in name:
        raise RevisionError(
            f"{name}: expected two dots in a range, as in {name.replace('...', '..', 1)}"
        )
    if ".." in name:
        return _range(name)
    if not _REVIEW.fullmatch(name):
        return _single(name)
    review, at, base = name.partition("@")
    if at and (not base or _REVIEW.fullmatch(base)):
        raise RevisionError(f"{name}: expected the base of the patch, a revision, after @")
    return ReviewName(review, _single(base) if at else None)


def _check(name: str) -> None:
    """Checks the characters of a name."""
    if not name:
        raise RevisionError("expected the name of a revision, such as main, r311849 or 0a1b2c3d")
    if len(name) > LONGEST:
        raise RevisionError(
            f"{name[:20]!a}…: expected at most {LONGEST} characters, found {len(name)}"
        )
    strange = next((one for one in name if not one.isascii() or not one.isprintable()), None)
    if strange is not None:
        called = unicodedata.name(strange, f"U+{ord(strange):04X}")
        raise RevisionError(f"{name!a}: unexpected {called}; names of revisions are ASCII")
    if name.startswith("-"):
        raise RevisionError(f"{name!r}: expected the name of a revision, not an option")
    if "^" in name or "@{" in name:
        raise RevisionError(
            f"{name!r}: ^ and @{{}} are not supported; expected ~ and a number, as in main~3"
        )
    if name.startswith("@"):
        raise RevisionError(f"{name!r}: expected a branch before @, as in stable/10@295802")
    plain = _PLAIN.match(name)
    if plain is None or plain.end() != len(name):
        wrong = name[plain.end() if plain else 0]
        raise RevisionError(f"{name!r}: unexpected {wrong!r}")


def _range(name: str) -> RangeName:
    ends = name.split("..")
    if len(ends) != 2 or not all(ends):  # noqa: PLR2004 - a range has two ends
        raise RevisionError(f"{name}: expected two ends of a range, as in r311848..r313448")
    for end in ends:
        if _REVIEW.fullmatch(end):
            raise RevisionError(
                f"{name}: expected commits as ends of a range, found the review {end}"
            )
    return RangeName(_single(ends[0]), _single(ends[1]))


def _single(name: str) -> Single:
    text, tilde, steps = name.partition("~")
    if tilde and (not text or not _BACK.fullmatch(steps)):
        raise RevisionError(f"{name!r}: expected one number after ~, as in main~3")
    branch, at, what = text.rpartition("@")
    readings = tuple(_readings(what, branch if at else ""))
    if ":" in text and not readings:
        raise RevisionError(f"{name!r}: expected a revision without a path; remove : and the rest")
    return Single(text, readings, int(steps) if tilde else None)


def _readings(text: str, branch: str) -> Iterator[Reading]:
    """Possible meanings of a text behind a branch and @, or of a whole name."""
    subversion = _SUBVERSION.fullmatch(text)
    if subversion and (branch or subversion[1] or len(subversion[2]) >= _SHORTEST):
        yield Subversion(int(subversion[2]), branch)
    counted = _COUNTED.fullmatch(text)
    if counted and not (branch and counted[1]):
        own, number, prefix, dirty = counted.groups()
        if dirty:
            raise RevisionError(
                f"{text}: built from modified sources, which are no revision; the name without "
                "-dirty is the unmodified commit"
            )
        yield CountedName(int(number), branch or own or "", (prefix or "").lower())
    dated = _DATE.fullmatch(text)
    if dated:
        yield replace(_moment(*dated.groups()), branch=branch)
    if not branch and _HASH.fullmatch(text):
        yield Hash(text.lower())


def _moment(day: str, clock: str | None, zone: str | None) -> Moment:
    try:
        midnight = datetime.combine(date.fromisoformat(day), datetime.min.time(), tzinfo=UTC)
    except ValueError:
        raise RevisionError(f"{day}: expected a date") from None
    if clock is None:
        return Moment(day, int(midnight.timestamp()) + _DAY - 1)
    text = f"{day}T{clock}{zone}"
    if not _ZONE.fullmatch(zone or ""):
        raise RevisionError(f"{text}: expected a time zone, such as {day}T{clock}Z for UTC")
    try:
        return Moment(text, int(datetime.fromisoformat(text).timestamp()))
    except ValueError:
        raise RevisionError(f"{text}: expected a time of day") from None
