"""Reads what FreeBSD's commit messages say of stable branches and of fixes.

`MFC after:` says when a commit of main is to be merged to the stable branches ("merge from
current"), `MFC to:` to which; `(cherry picked from commit ...)` says what a commit on a stable
branch is a copy of, as `MFC r311849:` did in the days of Subversion; `Fixes:` names the commit
that was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from netbisect.bisect.model import Commit

_DAY = 86_400.0
_UNITS = {"hour": _DAY / 24, "day": _DAY, "week": 7 * _DAY, "month": 30 * _DAY, "year": 365 * _DAY}
"""Seconds; a month is thirty days."""
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "six": 6}
_AT_ONCE = ("immediately", "now", "asap", "soon")
_KEY = re.compile(r"[A-Za-z][A-Za-z -]*\Z")
_PERIOD = re.compile(r"(?:(\d{1,6})[ \t-]*|([a-z]+)[ \t]+)?([a-z]+?)s?\b", re.IGNORECASE)
_STABLE = re.compile(r"(?:stable/|releng/)?\d+(?:\.\d+)?(?:-stable)?", re.IGNORECASE)
_NAME = re.compile(r"\b(?:r\d{4,7}|[0-9a-f]{7,40})\b")
_PICKED = re.compile(r"\(cherry[- ]picked from (?:\w+ )?commit ([0-9a-f]{7,40})\b", re.IGNORECASE)
_REVERTED = re.compile(r"\bThis reverts commit ([0-9a-f]{7,40}|r\d{4,7})\b", re.IGNORECASE)
_MFC = re.compile(
    r"^[ \t]*MFC:?[ \t]+(?=r?\d{4,7}\b|[0-9a-f]{7,40}\b)(.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_RANGE = re.compile(r"\br?(\d{4,7})\s*(?:-|through|to)\s*r?(\d{4,7})\b")
_OLD = re.compile(r"\br?(\d{4,7})\b")
_LONGEST_RANGE = 200
_MOST_MERGED = 10_000
"""Of the commits that one message says it merges; the largest of FreeBSD's name some hundreds."""
_SVN = re.compile(r"(?:svn path=/head/?; revision=|git-svn-id: \S*/head@|svn-revision: head@)(\d+)")
"""How the number of a commit got into its message when the tree came from Subversion."""
_SHORTEST = 7
"""Digits of a hash that name a commit."""


@dataclass(frozen=True, slots=True)
class Trailers:
    """What a message says."""

    mfc_after: float | None = None
    """Seconds from the commit until it is to be merged; None when nothing is said."""
    mfc_words: str = ""
    """The same as it is written: `2 weeks`."""
    mfc_to: tuple[str, ...] = ()
    """Branches, as `stable/14`; empty when nothing is said."""
    fixes: tuple[str, ...] = ()
    """Hashes, perhaps short, or numbers as `r311849`; what it reverts is among them."""
    picked: tuple[str, ...] = ()
    """What it is a copy of, named in the same ways."""


def read(message: str) -> Trailers:
    """The trailers of a commit message, subject and body; what is not understood is left out."""
    after, words = None, ""
    to: list[str] = []
    fixes: list[str] = []
    for key, value in _trailers(message):
        if key == "mfc after" and after is None:
            after = _period(value)
            words = value if after is not None else ""
        elif key == "mfc to":
            to += map(_branch, _STABLE.findall(value))
        elif key == "fixes":
            fixes += _names_before_words(value)
    fixes += _REVERTED.findall(message)
    picked = [*_PICKED.findall(message), *islice(_merged(message), _MOST_MERGED)]
    return Trailers(
        mfc_after=after,
        mfc_words=words,
        mfc_to=tuple(dict.fromkeys(to)),
        fixes=tuple(dict.fromkeys(fixes)),
        picked=tuple(dict.fromkeys(picked)),
    )


def _trailers(message: str) -> Iterator[tuple[str, str]]:
    """Lines `Key: value`, the key in small letters with single spaces."""
    for line in message.split("\n"):
        key, colon, value = line.partition(":")
        key = key.strip(" \t")
        if colon and _KEY.match(key):
            yield re.sub(r"[ -]+", " ", key).lower(), value.strip(" \t")


def _period(text: str) -> float | None:
    """`2 weeks`, `3 days`, `1 month`, `a week`, `2w`, `immediately`; None for `never`."""
    if text.lower().startswith(_AT_ONCE):
        return 0.0
    match = _PERIOD.match(text)
    if match is None:
        return None
    digits, word, unit = match.groups()
    count = int(digits) if digits else _NUMBERS.get((word or "one").lower())
    seconds = [_UNITS[name] for name in _UNITS if name.startswith(unit.lower())]
    whole = len(unit) == 1 or unit.lower() in _UNITS
    return None if count is None or not seconds or not whole else count * seconds[0]


def _branch(text: str) -> str:
    name = text.lower().removesuffix("-stable")
    return name if "/" in name else f"stable/{name}"


def _names_before_words(text: str) -> list[str]:
    """`0123456789ab ("subject"), 123456789abc subject` has two: subjects may look like hashes."""
    # What opens and is never closed would be looked for to the end of the line, each time.
    closed = text.rfind(")") + 1
    plain = re.sub(r"\(.*?\)|\".*?\"", " ", text[:closed] + text[closed:].replace("(", "["))
    found = []
    for part in re.split(r",|;|\band\b", plain):
        name = _NAME.match(part.strip())
        if name:
            found.append(name[0])
    return found


def _merged(message: str) -> Iterator[str]:
    """Of `MFC r311849, r311850:`, `MFC: r311849-r311851` and `MFC 0123456789ab:`."""
    for match in _MFC.finditer(message):
        text = match[1].partition(":")[0]
        for first, last in _RANGE.findall(text):
            if 0 <= int(last) - int(first) <= _LONGEST_RANGE:
                yield from (f"r{number}" for number in range(int(first), int(last) + 1))
        for word in re.split(r"[\s,]+", text):
            if _OLD.fullmatch(word):
                yield f"r{word.removeprefix('r')}"
            elif _NAME.fullmatch(word):
                yield word


# -------------------------------------------------------------------------- what becomes of it


@dataclass(frozen=True, slots=True)
class Fate:
    """Where a commit of main has gone, and where it is to go."""

    commit: Commit
    due: float | None = None
    """When it is to be on the stable branches, seconds since the epoch; None: nobody said."""
    words: str = ""
    """How its message says that: `2 weeks`."""
    to: tuple[str, ...] = ()
    """The branches that its message names; empty: the stable branches, whichever."""
    landed: dict[str, Commit] = field(default_factory=dict)
    """By stable branch, the first commit that carries it."""
    fixes: tuple[Commit, ...] = ()
    """Later commits of its own branch that fix or revert it, oldest first."""
    fixed: dict[str, Commit] = field(default_factory=dict)
    """By stable branch that carries it, the first commit there that fixes or reverts it."""


def fate(commit: Commit, later: Sequence[Commit], stable: Mapping[str, Sequence[Commit]]) -> Fate:
    """What becomes of a commit, by the messages of others.

    Args:
        commit: of main, say a culprit.
        later: the commits after it on main, oldest first.
        stable: by branch, its commits since then, oldest first.
    """
    own = read(_message(commit))
    fixes = tuple(other for other in later if _named([commit], read(_message(other)).fixes))
    landed: dict[str, Commit] = {}
    fixed: dict[str, Commit] = {}
    for branch, commits in stable.items():
        carrier = _first(commits, lambda trailers: _named([commit], trailers.picked))
        if carrier is None:
            continue
        landed[branch] = carrier
        found = _fix(commits[commits.index(carrier) + 1 :], [commit, carrier], fixes)
        if found is not None:
            fixed[branch] = found
    return Fate(
        commit=commit,
        due=None if own.mfc_after is None else commit.at + own.mfc_after,
        words=own.mfc_words,
        to=own.mfc_to,
        landed=landed,
        fixes=fixes,
        fixed=fixed,
    )


def _fix(
    commits: Iterable[Commit], wrong: Sequence[Commit], fixes: Sequence[Commit]
) -> Commit | None:
    """The first of these that says that it fixes one of the wrong, or copies one of the fixes."""
    return _first(
        commits,
        lambda trailers: _named(wrong, trailers.fixes) or _named(fixes, trailers.picked),
    )


def _message(commit: Commit) -> str:
    return f"{commit.subject}\n\n{commit.body}"


def _first(commits: Iterable[Commit], wanted: Callable[[Trailers], bool]) -> Commit | None:
    return next((commit for commit in commits if wanted(read(_message(commit)))), None)


def _named(commits: Iterable[Commit], names: Iterable[str]) -> bool:
    """Whether one of these names, short hashes or numbers, means one of these commits."""
    meant = {name for commit in commits for name in (commit.revision, *_numbers(commit))}
    return any(
        one.startswith(name) if len(name) >= _SHORTEST and not name.startswith("r") else one == name
        for name in names
        for one in meant
    )


def _numbers(commit: Commit) -> list[str]:
    """Its number in Subversion, if its message has one."""
    return [f"r{number}" for number in _SVN.findall(commit.body)]
