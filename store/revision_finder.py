"""Looks up the parts of names: each reading of each, in one moment of the tree."""

from __future__ import annotations

import difflib
import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

from netbisect.bisect.model import Commit
from netbisect.store.history import History
from netbisect.store.revision_file import MESSAGE, subversion_path
from netbisect.store.revision_index import Index, Origin, Stretch, on_way
from netbisect.store.revision_lines import Line, Lines
from netbisect.store.revision_names import (
    Counted,
    Hash,
    Moment,
    Namesake,
    RangeName,
    Reading,
    Reference,
    RevisionError,
    Single,
    Subversion,
)

_SHOWN = 8
"""Candidates that are named, and names that are like a wrong one."""
_FULL = 40
_LIKE = 100
"""Names that a wrong one is compared with."""
_TOO_MANY = 2_000
"""Objects with one beginning of a hash, from which on nobody is helped by a list."""


class Finder:
    """Looks names up, in one moment of the tree."""

    def __init__(self, history: History, index: Index, default_branch: str) -> None:
        self._history = history
        self._index = index
        self._default = default_branch
        self._lines = Lines(history, index)

    # --------------------------------------------------------------------------- all of a name

    def commit(self, name: Single) -> Commit:
        """The commit that a name means.

        Raises:
            RevisionError: it means none, or several.
        """
        return self._lines.commits(self._lines.of(self.find(name)))[0]

    def find(self, name: Single) -> str:
        """Its full hash; raises as `commit`."""
        meant: dict[str, str] = {}
        missed: list[RevisionError] = []
        for reading in name.readings:
            try:
                for revision, full_name in self._lookup(reading):
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
        """The older and the newer end of a range; raises RevisionError as `find` does."""
        good, bad = (self._lines.of(self.find(end)) for end in (name.good, name.bad))
        if good.revision == bad.revision:
            [commit] = self._lines.commits(good)
            raise RevisionError(
                f"{name} is empty: both ends are {commit.label}; two commits, the older one first, "
                "would be right"
            )
        if self._lines.at(bad, good.number) != good.revision:
            if self._lines.at(good, bad.number) == bad.revision:
                turned = f"{name.bad}..{name.good}"
                raise RevisionError(
                    f"{name} is reversed, {name.bad} is the older one: {turned} would be right",
                    (Namesake(turned, self._lines.commits(bad)[0]),),
                )
            raise self._apart(name, good, bad)
        older, newer = self._lines.commits(good, bad)
        return older, newer

    def _back(self, name: Single, revision: str, steps: int) -> str:
        line = self._lines.of(revision)
        found = self._lines.at(line, line.number - steps)
        if found is None:
            raise RevisionError(
                f"{name}: {name.text} is commit {line.number:,} of its line, which has none "
                f"{steps:,} before it"
            )
        return found

    def _several(self, text: str, meant: dict[str, str]) -> RevisionError:
        more = f", of which {_SHOWN} are told" if len(meant) > _SHOWN else ""
        return RevisionError(
            f"{text} may mean any of {len(meant)} commits{more}; the name of one would be right",
            self._namesakes(meant.items()),
        )

    def _namesakes(self, meant: Iterable[tuple[str, str]]) -> tuple[Namesake, ...]:
        named = dict(islice(meant, _SHOWN))
        commits = self._lines.commits(*map(self._lines.of, named))
        return tuple(Namesake(named[commit.revision], commit) for commit in commits)

    def _apart(self, name: RangeName, good: Line, bad: Line) -> RevisionError:
        said = f"{name}: {name.good} is not on the first-parent line that leads to {name.bad}"
        fork = self._lines.fork(good, bad)
        if fork is None:
            return RevisionError(f"{said}; they have no commit in common")
        [commit] = self._lines.commits(self._lines.of(fork))
        return RevisionError(
            f"{said}; the last commit that both lines have is {commit.label}",
            (Namesake(f"{fork[:12]}..{name.bad}", commit),),
        )

    # --------------------------------------------------------------------- reading by reading

    def _lookup(self, reading: Reading) -> Iterator[tuple[str, str]]:
        """Hashes of what it may mean, each with a name that means it alone."""
        if isinstance(reading, Hash):
            return self._of_hash(reading)
        if isinstance(reading, Subversion):
            return self._of_subversion(reading)
        if isinstance(reading, Counted):
            return self._of_count(reading)
        if isinstance(reading, Moment):
            return self._of_moment(reading)
        return self._of_reference(reading)

    def _of_reference(self, reading: Reference) -> Iterator[tuple[str, str]]:
        """None where there is none: it need not be a reference."""
        branches, tags, name = self._index.branches, self._index.tags(), reading.name
        for before in ("", "origin/", "heads/", "refs/heads/"):
            branch = name.removeprefix(before)
            if name.startswith(before) and branch in branches:
                yield self._head(branch), f"refs/heads/{branch}"
        for before in ("", "tags/", "refs/tags/"):
            tag = name.removeprefix(before)
            if name.startswith(before) and tag in tags:
                revision = self._commit_of(tags[tag])
                if revision is None:
                    raise RevisionError(f"the tag {tag} names no commit")
                yield revision, f"refs/tags/{tag}"

    def _of_hash(self, reading: Hash) -> Iterator[tuple[str, str]]:
        found = self._begun(reading.prefix)
        if not found:
            raise RevisionError(
                f"no commit of {self._history.url} has a hash that "
                + ("is " if len(reading.prefix) == _FULL else "begins with ")
                + f"{reading.prefix}; if it is new, it may not have been fetched yet",
                unknown=True,
            )
        yield from ((revision, revision) for revision in found)

    def _of_subversion(self, reading: Subversion) -> Iterator[tuple[str, str]]:
        origins = credible(self._index, self._index.of_subversion(reading.number))
        path = subversion_path(reading.branch)
        if reading.branch:
            origins = [one for one in origins if one.path in {"", path}]
            if not origins and reading.number <= self._index.last_of_subversion():
                origins = self._index.before(reading.number, path)
        if not origins:
            raise self._no_number(reading)
        held = [one for one in origins if self._begun(one.revision)]
        if not held:
            raise RevisionError(
                f"{reading} is said to be {origins[0].revision}, which no branch or tag of "
                f"{self._history.url} has",
                unknown=True,
            )
        for one in held:
            branch = one.path or self._index_branch(one.revision)
            yield one.revision, str(Subversion(one.number, branch))

    def _of_count(self, reading: Counted) -> Iterator[tuple[str, str]]:
        line = self._line_of(reading.branch) if reading.branch else None
        if reading.prefix:
            yield from self._of_label(reading, line)
            return
        default = self._line_of(self._default) if line is None else line
        spot = self._index.at(default, reading.number)
        if spot is not None:
            yield spot.revision, _label(spot.number, spot.revision)
            return
        if line is None:
            others = self._index.numbered(reading.number)
            yield from ((one.revision, _label(one.number, one.revision)) for one in others)
            if others:
                return
        branch = reading.branch or self._default
        raise RevisionError(
            f"{reading}: {branch} has {default[0].to:,} commits; if it has grown since, it may "
            "not have been fetched yet",
            unknown=True,
        )

    def _of_label(
        self, reading: Counted, line: Sequence[Stretch] | None
    ) -> Iterator[tuple[str, str]]:
        begun = [self._lines.of(revision) for revision in self._begun(reading.prefix)]
        found = [one for one in begun if one.number == reading.number]
        if line is not None:
            spots = {one.revision: self._index.spot(one.revision) for one in found}
            found = [one for one in found if (at := spots[one.revision]) and on_way(at, line)]
        if found:
            yield from ((one.revision, one.revision) for one in found)
            return
        numbered = self._index.at(line or self._line_of(self._default), reading.number)
        likely = [(one.revision, _label(one.number, one.revision)) for one in begun]
        if numbered is not None:
            likely.append((numbered.revision, _label(numbered.number, numbered.revision)))
        raise RevisionError(
            f"{reading}: no commit "
            + (f"of {reading.branch} " if reading.branch else "")
            + "has both this number and this hash; the tree may be another one"
            + (", or one of these is meant" if likely else ", or not have been fetched yet"),
            self._namesakes(likely),
            unknown=True,
        )

    def _of_moment(self, reading: Moment) -> Iterator[tuple[str, str]]:
        branch = reading.branch or self._default
        if reading.since > time.time():
            raise RevisionError(f"{reading} has not come yet")
        spot = self._index.until(self._line_of(branch), reading.until)
        if spot is None:
            raise RevisionError(f"{reading}: {branch} has no commit so early")
        yield spot.revision, str(Moment(reading.text, reading.until, branch))

    # -------------------------------------------------------------------------------- the tree

    def _head(self, branch: str) -> str:
        spot = self._index.at(self._index.line(branch), self._index.branches[branch][1])
        assert spot is not None
        return spot.revision

    def _line_of(self, branch: str) -> Sequence[Stretch]:
        for name in (branch, branch.removeprefix("origin/"), branch.removeprefix("refs/heads/")):
            if name in self._index.branches:
                return self._index.line(name)
        names = list(self._index.branches)
        like = difflib.get_close_matches(branch, names, n=_SHOWN) or names[:_SHOWN]
        raise RevisionError(
            f"there is no branch {branch!r} in {self._history.url}; there is {', '.join(like)}",
            unknown=True,
        )

    def _index_branch(self, revision: str) -> str:
        spot = self._index.spot(revision)
        return "" if spot is None else next(iter(self._index.branches_of(spot)), "")

    def _commit_of(self, name: str) -> str | None:
        """The commit that an object is, or that a tag's object names, by its full hash."""
        if self._index.spot(name) is not None:
            return name
        said = self._history.read(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", ask=True
        )
        return said.strip() or None

    def _begun(self, prefix: str) -> list[str]:
        """The commits of branches and tags whose hashes begin so."""
        if len(prefix) == _FULL and self._index.spot(prefix) is not None:
            return [prefix]
        objects = self._history.read("rev-parse", f"--disambiguate={prefix}").split()
        if len(objects) > _TOO_MANY:
            raise RevisionError(f"{prefix} begins too many hashes; more digits would be right")
        if not objects:
            return []
        commits = self._history.read("rev-list", "--no-walk", *objects).split()
        return [one for one in commits if self._index.spot(one) is not None or self._held(one)]

    def _held(self, revision: str) -> bool:
        """Whether a branch or tag leads to it; what was rewritten stays in a clone for a while."""
        options = ("--count=1", f"--contains={revision}")
        return bool(self._history.read("for-each-ref", *options, "refs/heads", "refs/tags"))

    def _no_reference(self, name: str) -> RevisionError:
        names = [*self._index.branches, *self._index.tags()]
        # There are thousands of tags, and comparing all with care would take a while.
        begun = heapq.nlargest(_LIKE, names, key=lambda one: _shared(name, one))
        like = difflib.get_close_matches(name, begun)
        return RevisionError(
            f"{name!r} is no branch, tag or commit of {self._history.url}"
            + (f"; there is {', '.join(like)}" if like else "")
            + "; if it is new, it may not have been fetched yet",
            unknown=True,
        )

    def _no_number(self, reading: Subversion) -> RevisionError:
        highest = self._index.last_of_subversion()
        if not highest:
            return RevisionError(
                f"{reading}: neither notes nor messages of {self._history.url} tell numbers of "
                "Subversion; a table of them (docs/requests.md) would be right",
                unknown=True,
            )
        if reading.branch or reading.number > highest:
            return RevisionError(
                f"{reading} is not known; the last number of Subversion in {self._history.url} is "
                f"r{highest}"
                if reading.number > highest
                else f"{reading}: nothing is known of {reading.branch} up to r{reading.number}",
                unknown=True,
            )
        before = self._index.before(reading.number, subversion_path(self._default))
        named = Subversion(reading.number, self._default)
        return RevisionError(
            f"{reading} changed no branch that is known"
            + (f"; {named} means {self._default} as it was then" if before else ""),
            self._namesakes((one.revision, str(named)) for one in before),
            unknown=True,
        )


def _shared(one: str, other: str) -> int:
    """Letters with which both begin."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _label(number: int, revision: str) -> str:
    return f"n{number}-{revision[:12]}"


def credible(index: Index, origins: Sequence[Origin]) -> list[Origin]:
    """What is told best; what a message has copied from another branch's is left out."""
    best: dict[tuple[int, str], int] = {}
    for one in origins:
        key = (one.number, one.path)
        best[key] = min(one.source, best.get(key, one.source))
    told = [one for one in origins if one.source == best[one.number, one.path]]
    with_path = {one.number for one in told if one.path}
    told = [one for one in told if one.path or one.number not in with_path]
    return [one for one in told if one.source != MESSAGE or _is_own(index, one)]


def _is_own(index: Index, origin: Origin) -> bool:
    """Whether a commit is on the branch that its message names, as far as that is known."""
    branch = next((one for one in index.branches if subversion_path(one) == origin.path), None)
    spot = index.spot(origin.revision)
    return branch is None or spot is None or on_way(spot, index.line(branch))
