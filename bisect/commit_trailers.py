"""Trailers of FreeBSD commit messages about stable branches and fixes.

`MFC after:` and `MFC to:` announce a merge from current to stable branches; `(cherry picked from
commit ...)`, or `MFC r311849:` in Subversion, names the original of a copy; `Fixes:` names a
faulty commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from netbisect.bisect.model.entities import Commit

_DAY = 86_400.0
_UNITS = {"hour": _DAY / 24, "day": _DAY, "week": 7 * _DAY, "month": 30 * _DAY, "year": 365 * _DAY}
"""Seconds; a month is thirty days."""
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "six": 6}
_AT_ONCE = ("immediately", "now", "asap", "soon")
_KEY = re.compile(r"[A-Za-z][A-Za-z -]*\Z")
_PERIOD = re.compile(r"(?:(\d{1,3})[ \t-]*|([a-z]+)[ \t]+)?([a-z]+?)s?\b", re.IGNORECASE)
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
"""Maximum merged commits of one message."""
_SVN = re.compile(r"(?:svn path=/head/?; revision=|git-svn-id: \S*/head@|svn-revision: head@)(\d+)")
"""Subversion number in the message of a converted commit."""
_SHORTEST = 7
"""Minimum digits of an abbreviated hash."""


@dataclass(frozen=True, slots=True)
class Trailers:
    """Trailers of a message."""

    mfc_after: float | None = None
    """Seconds from commit to merge, or None."""
    mfc_words: str = ""
    """As written: `2 weeks`."""
    mfc_to: tuple[str, ...] = ()
    """Branches, as `stable/14`."""
    fixes: tuple[str, ...] = ()
    """Hashes, possibly abbreviated, or numbers such as `r311849`; includes reverted commits."""
    picked: tuple[str, ...] = ()
    """Originals of this copy, in the same form."""


def parse_trailers(message: str) -> Trailers:
    """Parses the trailers of a message, subject and body; ignores unknown ones."""
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
    """Lines `Key: value`, with normalised keys."""
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
    # Avoid quadratic search for unclosed parentheses.
    closed = text.rfind(")") + 1
    plain = re.sub(r"\(.*?\)|\".*?\"", " ", text[:closed] + text[closed:].replace("(", "["))
    found = []
    for part in re.split(r",|;|\band\b", plain):
        name = _NAME.match(part.strip())
        if name:
            found.append(name[0])
    return found


def _merged(message: str) -> Iterator[str]:
    """Revisions in `MFC r311849, r311850:`, `MFC: r311849-r311851` and `MFC 0123456789ab:`."""
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


# ------------------------------------------------------------------------------ merge status


@dataclass(frozen=True, slots=True)
class MergeStatus:
    """Merges and fixes of a commit of main."""

    commit: Commit
    due: float | None = None
    """Planned merge time, seconds since the epoch, or None."""
    words: str = ""
    """The period as written: `2 weeks`."""
    to: tuple[str, ...] = ()
    """Named branches; empty for all stable branches."""
    landed: dict[str, Commit] = field(default_factory=dict)
    """By stable branch: the first copy."""
    fixes: tuple[Commit, ...] = ()
    """Later commits of main that fix or revert it, oldest first."""
    fixed: dict[str, Commit] = field(default_factory=dict)
    """By stable branch with a copy: the first fix or revert."""


def merge_status(
    commit: Commit, later: Sequence[Commit], stable: Mapping[str, Sequence[Commit]]
) -> MergeStatus:
    """Merge status of a commit, from the messages of later commits.

    Args:
        commit: On main.
        later: Later commits on main, oldest first.
        stable: Commits since then by stable branch, oldest first.
    """
    own = parse_trailers(_message(commit))
    fixes = tuple(
        other for other in later if _named([commit], parse_trailers(_message(other)).fixes)
    )
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
    return MergeStatus(
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
    """The first commit that fixes one of `wrong`, or copies one of `fixes`."""
    return _first(
        commits,
        lambda trailers: _named(wrong, trailers.fixes) or _named(fixes, trailers.picked),
    )


def _message(commit: Commit) -> str:
    return f"{commit.subject}\n\n{commit.body}"


def _first(commits: Iterable[Commit], wanted: Callable[[Trailers], bool]) -> Commit | None:
    return next((commit for commit in commits if wanted(parse_trailers(_message(commit)))), None)


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
