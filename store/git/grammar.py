"""What kind of name a text is, as FreeBSD people name revisions. No tree is asked.

A text may be read in several ways: `311849` is a number of Subversion and the beginning of a hash.
Which of them means a commit is for `store/git/resolve.py` to find out. Nothing of a text is ever
handed to git but the digits of a hash.
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
"""Characters of a name."""
_DAY = 86_400
_HASH = re.compile(r"[0-9a-fA-F]{4,40}")
_SUBVERSION = re.compile(r"(r?)([0-9]{1,9})")
_SHORTEST = 4
"""Digits of a number of Subversion without r or branch; of a hash."""
_COUNTED = re.compile(r"(?:(.+)-)?n([0-9]{1,9})(?:-([0-9a-fA-F]{4,40}))?(-dirty)?")
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(.*))?")
_ZONE = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}")
_REVIEW = re.compile(r"D([1-9][0-9]{0,6})(?:@(.*))?")
_PLAIN = re.compile(r"[A-Za-z0-9._/+@:~-]+")
_BACK = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class RevisionCandidate:
    """A commit that a name may mean, with a name that means it and no other."""

    name: str
    commit: Commit


class RevisionError(UserError, ValueError):
    """A name that means no revision, or several; the text is a sentence that says which.

    Attributes:
        candidates: What it may mean, or what may be meant instead; often none.
        unknown: Whether the name is a good one that the tree does not have: a newer tree may.
    """

    def __init__(
        self,
        sentence: str,
        candidates: tuple[RevisionCandidate, ...] = (),
        *,
        unknown: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.candidates = candidates
        self.unknown = unknown


# --------------------------------------------------------------------------------- the readings


@dataclass(frozen=True, slots=True)
class Hash:
    """The beginning of a hash, or a whole one."""

    prefix: str
    """4 to 40 digits, lower case."""

    def __str__(self) -> str:
        return self.prefix


@dataclass(frozen=True, slots=True)
class Subversion:
    """A number of the days of Subversion: `r311849`, `stable/10@295802`."""

    number: int
    branch: str = ""
    """With it, the branch as it was then, which it may have become earlier."""

    def __str__(self) -> str:
        return f"{self.branch}@{self.number}" if self.branch else f"r{self.number}"


@dataclass(frozen=True, slots=True)
class CountedName:
    """A place on a first-parent line, as in `uname -v`: `main-n302145-0a1b2c3d`, `n302145`."""

    number: int
    branch: str = ""
    prefix: str = ""
    """Of the hash, lower case."""

    def __str__(self) -> str:
        before = f"{self.branch}-" if self.branch else ""
        after = f"-{self.prefix}" if self.prefix else ""
        return f"{before}n{self.number}{after}"


@dataclass(frozen=True, slots=True)
class Moment:
    """What a branch was at the end of a day, or at a moment: `2026-11-01`, `2026-11-01T12:00Z`."""

    text: str
    until: int
    """The last second that counts, since the epoch."""
    branch: str = ""

    @property
    def since(self) -> int:
        """The first second of the day, or the moment itself."""
        return self.until if "T" in self.text else self.until - _DAY + 1

    def __str__(self) -> str:
        return f"{self.branch}@{self.text}" if self.branch else self.text


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or a tag: `stable/14`, `release/14.2.0`, `origin/main`, `refs/tags/main`."""

    name: str

    def __str__(self) -> str:
        return self.name


Reading: TypeAlias = Hash | Subversion | CountedName | Moment | Reference

# ----------------------------------------------------------------------------------- the names


@dataclass(frozen=True, slots=True)
class Single:
    """The name of one commit."""

    text: str
    """Without the steps back."""
    readings: tuple[Reading, ...]
    """All that it may be; a reference at least."""
    back: int | None = None
    """Steps along first parents, of `main~3`; None where none are named."""

    def __str__(self) -> str:
        return self.text if self.back is None else f"{self.text}~{self.back}"


@dataclass(frozen=True, slots=True)
class ReviewName:
    """A patch under review, and perhaps upon what: `D5180`, `D5180@stable/14`."""

    review: str
    base: Single | None = None

    def __str__(self) -> str:
        return self.review if self.base is None else f"{self.review}@{self.base}"


@dataclass(frozen=True, slots=True)
class RangeName:
    """The commits after one up to another: `r311848..r313448`."""

    good: Single
    bad: Single

    def __str__(self) -> str:
        return f"{self.good}..{self.bad}"


Name: TypeAlias = Single | ReviewName | RangeName


def parse(text: str) -> Name:
    """What kind of name a text is; blanks around it do not count.

    Raises:
        RevisionError: it is none.
    """
    name = text.strip(" \t\r\n")
    _check(name)
    if "..." in name:
        raise RevisionError(f"{name}: a range has two dots, as in {name.replace('...', '..', 1)}")
    if ".." in name:
        return _range(name)
    review = _REVIEW.fullmatch(name)
    if review is None:
        return _single(name)
    if review[2] is None:
        return ReviewName(f"D{review[1]}")
    if not review[2] or _REVIEW.fullmatch(review[2]):
        raise RevisionError(f"{name}: after @ comes the revision that the patch is for")
    return ReviewName(f"D{review[1]}", _single(review[2]))


def _check(name: str) -> None:
    """Refuses what is no name of any kind."""
    if not name:
        raise RevisionError("a name of a revision is missing, such as main, r311849 or 0a1b2c3d")
    if len(name) > LONGEST:
        raise RevisionError(
            f"{_shown(name[:20])}…: {len(name)} characters; a name of a revision has {LONGEST} at "
            "most"
        )
    strange = next((one for one in name if not one.isascii() or not one.isprintable()), None)
    if strange is not None:
        called = unicodedata.name(strange, f"U+{ord(strange):04X}")
        raise RevisionError(
            f"{_shown(name)} holds {called}, which names of revisions do not; "
            "typed anew in plain ASCII it may be right"
        )
    if name.startswith("-"):
        raise RevisionError(f"{name!r} looks like an option, and is no name of a revision")
    if "^" in name or "@{" in name:
        raise RevisionError(
            f"{name!r}: of git's ways to go on from a commit, ~ and a number of steps are "
            "understood, as in main~3"
        )
    if name.startswith("@"):
        raise RevisionError(f"{name!r}: before @ comes a branch, as in stable/10@295802")
    plain = _PLAIN.match(name)
    if plain is None or plain.end() != len(name):
        wrong = name[plain.end() if plain else 0]
        raise RevisionError(f"{name!r} holds {wrong!r}, which names of revisions do not")


def _shown(text: str) -> str:
    """As it can be printed on any terminal, whatever it holds."""
    return ascii(text)


def _range(name: str) -> RangeName:
    ends = name.split("..")
    if len(ends) != 2 or not all(ends):  # noqa: PLR2004 - a range has two ends
        raise RevisionError(f"{name}: a range has two ends, as in r311848..r313448")
    for end in ends:
        if _REVIEW.fullmatch(end):
            raise RevisionError(f"{name}: {end} is a review, and no end of a range of commits")
    return RangeName(_single(ends[0]), _single(ends[1]))


def _single(name: str) -> Single:
    text, tilde, steps = name.partition("~")
    if tilde and (not text or not _BACK.fullmatch(steps)):
        raise RevisionError(f"{name!r}: after ~ comes one number of steps back, as in main~3")
    branch, at, what = text.rpartition("@")
    readings = tuple(_readings(what, branch if at else ""))
    if ":" in text and not readings:
        raise RevisionError(
            f"{name!r}: a path in a commit is no revision; leave out : and the rest"
        )
    return Single(text, (*readings, Reference(text)), int(steps) if tilde else None)


def _readings(text: str, branch: str) -> Iterator[Reading]:
    """All but that of a branch or tag; `branch` is what stands before an @."""
    subversion = _SUBVERSION.fullmatch(text)
    if subversion and (branch or subversion[1] or len(subversion[2]) >= _SHORTEST):
        yield Subversion(int(subversion[2]), branch)
    counted = _COUNTED.fullmatch(text)
    if counted and not (branch and counted[1]):
        own, number, prefix, dirty = counted.groups()
        if dirty:
            raise RevisionError(
                f"{text} was built from changed sources, which no revision is; without -dirty it "
                "names the commit that was changed"
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
        raise RevisionError(f"{day} is no day of the calendar") from None
    if clock is None:
        return Moment(day, int(midnight.timestamp()) + _DAY - 1)
    text = f"{day}T{clock}{zone}"
    if not _ZONE.fullmatch(zone or ""):
        raise RevisionError(f"{text}: of which zone? {day}T{clock}Z is by universal time")
    try:
        return Moment(text, int(datetime.fromisoformat(text).timestamp()))
    except ValueError:
        raise RevisionError(f"{text} is no time of a day") from None
