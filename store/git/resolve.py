"""Resolves revision names.

`grammar.py` parses names, and `subversion.py` looks up numbers of Subversion.
"""

from __future__ import annotations

import difflib
import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from os.path import commonprefix

from netbisect.bisect.model.entities import Commit
from netbisect.store.git.grammar import (
    CountedName,
    Hash,
    Moment,
    RangeName,
    Reading,
    RevisionCandidate,
    RevisionError,
    Single,
    Subversion,
    parse,
)
from netbisect.store.git.history import History
from netbisect.store.git.subversion import SubversionNumbers, subversion_path


@dataclass(frozen=True, slots=True)
class Review:
    """A patch under review."""

    name: str
    """Such as D5180."""
    base: Commit | None
    """Base of the patch, or None."""


@dataclass(frozen=True, slots=True)
class Range:
    """Commits of a first-parent line between two of its commits."""

    good: Commit
    """Older end, excluded."""
    bad: Commit
    """Newer end, included."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Branches and Subversion numbers of a commit."""

    branches: tuple[str, ...]
    """Branches with this commit on their first-parent line."""
    subversion: tuple[str, ...]
    """Such as head@311849, or r311849 if the branch is unknown."""


def resolve(history: History, name: str, *, default_branch: str) -> Commit | Review | Range:
    """Resolves a name in the clone, without fetching.

    Args:
        history: History of the tree under watch, fetched at least once.
        name: A hash or the beginning of one, `r311849`, `stable/10@295802`, `n302145`,
            `main-n302145-0a1b2c3d`, a branch, a tag, `2026-11-01`, `2026-11-01T12:00Z`, any of
            them with `~3` behind it; `D5180`, `D5180@stable/14`; `r311848..r313448`.
        default_branch: Where numbers and days are counted when the name has no branch.

    Raises:
        RevisionError: the name is wrong, unknown, ambiguous or contradictory; no other input
            causes another error.
    """
    parsed = parse(name)
    finder = RevisionFinder(history, default_branch)
    if isinstance(parsed, RangeName):
        return Range(*finder.ends(parsed))
    if isinstance(parsed, Single):
        return finder.commit(parsed)
    base = None if parsed.base is None else finder.commit(parsed.base)
    return Review(parsed.review, base)


def commit_named(history: History, name: str, *, default_branch: str) -> Commit:
    """Resolves the name of a commit; as `resolve`, but a review or a range is an error."""
    found = resolve(history, name, default_branch=default_branch)
    if not isinstance(found, Commit):
        kind = "review" if isinstance(found, Review) else "range"
        raise RevisionError(f"{name} is a {kind}; expected the name of one commit")
    return found


def whereabouts(history: History, revision: str) -> Whereabouts:
    """Branches and Subversion numbers of a commit, by its full hash, in a fetched tree."""
    finder = RevisionFinder(history, "")
    numbers = finder.subversion.of(revision)
    names = (str(Subversion(one.number, one.path)) for one in numbers)
    return Whereabouts(tuple(finder.branches_with(revision)), tuple(dict.fromkeys(names)))


_HEADS, _TAGS = "refs/heads/", "refs/tags/"
_SHOWN = 8
"""Maximum of candidates and of similar names in an error."""
_FULL = 40
_LIKE = 100
"""Maximum of names to compare with a wrong one."""
_TOO_MANY = 2_000
"""Objects with the same beginning of a hash, above which no list is useful."""


class RevisionFinder:
    """Looks up names among the branches and tags at the time of its creation.

    All methods raise HistoryError if the clone cannot be read.
    """

    def __init__(self, history: History, default_branch: str) -> None:
        """Reads branches and tags; the default branch is for names without a branch."""
        self._history = history
        self._default = default_branch
        found = history.references(_HEADS, _TAGS)
        self.branches, self._tags = (
            {name.removeprefix(kind): one for name, one in found.items() if name.startswith(kind)}
            for kind in (_HEADS, _TAGS)
        )
        self.subversion = SubversionNumbers(history, self.branches)

    def commit(self, name: Single) -> Commit:
        """The commit with this name. Raises RevisionError if there is none, or several."""
        [commit] = self._commits(self.find(name))
        return commit

    def find(self, name: Single) -> str:
        """Full hash of `commit`; raises the same errors."""
        meant: dict[str, str] = {}
        missed: list[RevisionError] = []
        for found in (*map(self._lookup, name.readings), self._of_reference(name.text)):
            try:
                for revision, full_name in found:
                    meant.setdefault(revision, full_name)
            except RevisionError as error:
                missed.append(error)
        if not meant:
            raise missed[0] if missed else self._no_reference(name.text)
        if len(meant) > 1:
            raise self._several(name.text, meant)
        revision = next(iter(meant))
        return revision if name.back is None else self._back(name, revision, name.back)

    def ends(self, name: RangeName) -> tuple[Commit, Commit]:
        """Older and newer end of a range; raises the errors of `commit`."""
        good, bad = self.commit(name.good), self.commit(name.bad)
        if good.revision == bad.revision:
            raise RevisionError(
                f"{name} is empty: both ends are {good.label}; expected two commits, the older "
                "one first"
            )
        if self._history.is_on_line(good.revision, bad.revision):
            return good, bad
        if self._history.is_on_line(bad.revision, good.revision):
            turned = f"{name.bad}..{name.good}"
            raise RevisionError(
                f"{name} is reversed, {name.bad} is the older one; expected {turned}",
                (RevisionCandidate(turned, bad),),
            )
        raise self._not_on_line(name, good.revision, bad.revision)

    def branches_with(self, revision: str) -> list[str]:
        """Names of the branches with this commit on their first-parent line."""
        later = {revision}
        for child, parent in self._history.first_parents(*self._history.parents(revision)):
            if parent in later:
                later.add(child)
        return [name for name, head in self.branches.items() if head in later]

    def _back(self, name: Single, revision: str, steps: int) -> str:
        found = self._history.ancestor(revision, steps)
        if not found:
            number = self._history.number(revision)
            raise RevisionError(
                f"{name}: {name.text} is commit {number:,} of its line, which has none "
                f"{steps:,} before it"
            )
        return found

    def _several(self, text: str, meant: dict[str, str]) -> RevisionError:
        more = f" ({_SHOWN} are shown)" if len(meant) > _SHOWN else ""
        return RevisionError(
            f"{text} may mean any of {len(meant)} commits{more}; expected the name of one",
            self._candidates(meant.items()),
        )

    def _candidates(self, named: Iterable[tuple[str, str]]) -> tuple[RevisionCandidate, ...]:
        """Candidates of an error, from pairs of hash and name."""
        names = dict(islice(named, _SHOWN))
        return tuple(RevisionCandidate(names[one.revision], one) for one in self._commits(*names))

    def _commits(self, *revisions: str) -> list[Commit]:
        return self._history.described({one: self._history.number(one) for one in revisions})

    def _not_on_line(self, name: RangeName, good: str, bad: str) -> RevisionError:
        message = f"{name}: {name.good} is not on the first-parent line that leads to {name.bad}"
        lines = (self._history.read("rev-list", "--first-parent", one) for one in (good, bad))
        of_good, of_bad = (line.split() for line in lines)
        known = set(of_good)
        fork = next((one for one in of_bad if one in known), None)
        if fork is None:
            return RevisionError(f"{message}; they have no commit in common")
        [commit] = self._commits(fork)
        return RevisionError(
            f"{message}; the last commit that both lines have is {commit.label}",
            (RevisionCandidate(f"{fork[:12]}..{name.bad}", commit),),
        )

    def _lookup(self, reading: Reading) -> Iterator[tuple[str, str]]:
        """Hashes of possible commits, each with an unambiguous name."""
        if isinstance(reading, Hash):
            return self._of_hash(reading)
        if isinstance(reading, Subversion):
            return self._of_subversion(reading)
        if isinstance(reading, CountedName):
            return self._of_count(reading)
        return self._of_moment(reading)

    def _of_reference(self, name: str) -> Iterator[tuple[str, str]]:
        """Branches and tags, without an error if there is none: another meaning may be right."""
        for prefix in ("", "origin/", "heads/", _HEADS):
            branch = name.removeprefix(prefix)
            if name.startswith(prefix) and branch in self.branches:
                yield self.branches[branch], f"{_HEADS}{branch}"
        for prefix in ("", "tags/", _TAGS):
            tag = name.removeprefix(prefix)
            if name.startswith(prefix) and tag in self._tags:
                revision = self._history.commit_of(self._tags[tag])
                if revision is None:
                    raise RevisionError(f"the tag {tag} names no commit")
                yield revision, f"{_TAGS}{tag}"

    def _of_hash(self, reading: Hash) -> Iterator[tuple[str, str]]:
        found = self._with_prefix(reading.prefix)
        if not found:
            raise RevisionError(
                f"no commit of {self._history.url} has a hash that "
                + ("is " if len(reading.prefix) == _FULL else "begins with ")
                + f"{reading.prefix}; if it is new, it may not have been fetched yet"
            )
        yield from ((revision, revision) for revision in found)

    def _of_subversion(self, reading: Subversion) -> Iterator[tuple[str, str]]:
        found = self.subversion.commits(reading.number)
        if reading.branch:
            path = subversion_path(reading.branch)
            found = [one for one in found if one.path in {"", path}]
            if not found and reading.number <= self.subversion.highest:
                last = self.subversion.before(reading.number, path)
                found = [] if last is None else [last]
        if not found:
            raise self._no_number(reading)
        fetched = [one for one in found if self._with_prefix(one.revision)]
        if not fetched:
            raise RevisionError(
                f"{reading} is {found[0].revision}, which no branch or tag of "
                f"{self._history.url} has"
            )
        for one in fetched:
            branch = one.path or next(iter(self.branches_with(one.revision)), "")
            yield one.revision, str(Subversion(one.number, branch))

    def _of_count(self, reading: CountedName) -> Iterator[tuple[str, str]]:
        head = self._head_of(reading.branch or self._default)
        if reading.prefix:
            yield from self._of_label(reading, head)
            return
        revision = self._numbered(reading.number, head)
        if revision:
            yield revision, _label(reading.number, revision)
            return
        others = [] if reading.branch else self._numbered_anywhere(reading.number)
        if not others:
            raise RevisionError(
                f"{reading}: {reading.branch or self._default} has "
                f"{self._history.number(head):,} commits; if it has grown since, it may "
                "not have been fetched yet"
            )
        yield from ((one, _label(reading.number, one)) for one in others)

    def _of_label(self, reading: CountedName, head: str) -> Iterator[tuple[str, str]]:
        begun = {one: self._history.number(one) for one in self._with_prefix(reading.prefix)}
        found = [one for one, number in begun.items() if number == reading.number]
        if reading.branch:
            found = [one for one in found if self._history.is_on_line(one, head)]
        if found:
            yield from ((one, one) for one in found)
            return
        likely = [(one, _label(number, one)) for one, number in begun.items()]
        numbered = self._numbered(reading.number, head)
        if numbered:
            likely.append((numbered, _label(reading.number, numbered)))
        raise RevisionError(
            f"{reading}: no commit "
            + (f"of {reading.branch} " if reading.branch else "")
            + "has both this number and this hash; it may be of another repository"
            + (", or one of these is meant" if likely else ", or not have been fetched yet"),
            self._candidates(likely),
        )

    def _of_moment(self, reading: Moment) -> Iterator[tuple[str, str]]:
        branch = reading.branch or self._default
        if reading.since > time.time():
            raise RevisionError(f"{reading} is in the future")
        options = ("--first-parent", "-1", f"--min-age={max(reading.until, 0)}")
        revision = self._history.read("rev-list", *options, self._head_of(branch)).strip()
        if not revision:
            raise RevisionError(f"{reading}: {branch} has no commit that early")
        yield revision, str(Moment(reading.text, reading.until, branch))

    def _head_of(self, branch: str) -> str:
        for name in (branch, branch.removeprefix("origin/"), branch.removeprefix(_HEADS)):
            if name in self.branches:
                return self.branches[name]
        names = list(self.branches)
        like = difflib.get_close_matches(branch, names, n=_SHOWN) or names[:_SHOWN]
        raise RevisionError(
            f"there is no branch {branch!r} in {self._history.url}; found {', '.join(like)}"
        )

    def _numbered(self, number: int, head: str) -> str:
        """The commit of this number on the line of a branch, or ""."""
        steps = self._history.number(head) - number
        return self._history.ancestor(head, steps) if number > 0 <= steps else ""

    def _numbered_anywhere(self, number: int) -> list[str]:
        """Commits of this number on the first-parent lines of all branches."""
        numbers = {"": 0}
        for child, parent in self._history.first_parents():
            numbers[child] = numbers[parent] + 1
        return [one for one, at in numbers.items() if one and at == number]

    def _with_prefix(self, prefix: str) -> list[str]:
        """Commits of branches and tags with this beginning of a hash."""
        objects = self._history.read("rev-parse", f"--disambiguate={prefix}").split()
        if len(objects) > _TOO_MANY:
            raise RevisionError(f"{prefix} begins too many hashes; expected more digits")
        if not objects:
            return []
        commits = self._history.read("rev-list", "--no-walk", *objects).split()
        # Fast, but it may list commits of branches and tags, too, where dates are wrong.
        listed = self._history.read("rev-list", *commits, "--not", "--branches", "--tags")
        doubtful = {*listed.split()}
        return [one for one in commits if one not in doubtful or self._is_fetched(one)]

    def _is_fetched(self, revision: str) -> bool:
        """Whether a branch or tag leads to it: a clone keeps rewritten commits for a while."""
        options = ("--count=1", f"--contains={revision}")
        return bool(self._history.read("for-each-ref", *options, _HEADS, _TAGS))

    def _no_reference(self, name: str) -> RevisionError:
        names = [*self.branches, *self._tags]
        # get_close_matches is slow with thousands of tags.
        begun = heapq.nlargest(
            _LIKE,
            names,
            key=lambda one: len(commonprefix((name, one))),  # noqa: RUF071 - of letters
        )
        like = difflib.get_close_matches(name, begun)
        return RevisionError(
            f"{name!r} is not a branch, tag or commit of {self._history.url}"
            + (f"; found {', '.join(like)}" if like else "")
            + "; if it is new, it may not have been fetched yet"
        )

    def _no_number(self, reading: Subversion) -> RevisionError:
        highest, url = self.subversion.highest, self._history.url
        candidates: tuple[RevisionCandidate, ...] = ()
        if not highest:
            message = (
                f"{reading}: notes and messages of {url} have no numbers of Subversion; "
                "expected a table of them (docs/api.md)"
            )
        elif reading.number > highest:
            message = f"{reading} is unknown; the last number of Subversion in {url} is r{highest}"
        elif reading.branch:
            message = f"{reading}: {reading.branch} is unknown up to r{reading.number}"
        else:
            message = f"{reading} changed no branch that is known"
            last = self.subversion.before(reading.number, subversion_path(self._default))
            if last is not None:
                named = str(Subversion(reading.number, self._default))
                message += f"; {named} means {self._default} as it was then"
                candidates = self._candidates([(last.revision, named)])
        return RevisionError(message, candidates)


def _label(number: int, revision: str) -> str:
    return f"n{number}-{revision[:12]}"
