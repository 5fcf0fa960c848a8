"""First-parent lines of any commit: on a branch, or beside, as what was merged is."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect.model import Commit
from netbisect.store.history import History
from netbisect.store.revision_index import Index, Stretch


@dataclass(frozen=True, slots=True)
class Line:
    """The first-parent line of a commit."""

    revision: str
    number: int
    own: tuple[str, ...]
    """Its newest part, newest first, where that is on no branch's line."""
    way: tuple[Stretch, ...]


class Lines:
    """Finds lines, and commits on them, in one moment of the tree."""

    def __init__(self, history: History, index: Index) -> None:
        self._history = history
        self._index = index

    def of(self, revision: str) -> Line:
        """The first-parent line of a commit, on a branch or beside."""
        own: list[str] = []
        known = self._index.spot(revision)
        if known is not None:
            way = tuple(self._index.way(known.chain, known.number))
            return Line(revision, known.number, (), way)
        for step in self._history.walk(revision):
            spot = self._index.spot(step.revision)
            if spot is not None:
                way = tuple(self._index.way(spot.chain, spot.number))
                return Line(revision, spot.number + len(own), tuple(own), way)
            own.append(step.revision)
        return Line(revision, len(own), tuple(own), ())

    def commits(self, *lines: Line) -> list[Commit]:
        """The newest commits of those lines."""
        return self._history.described({line.revision: line.number for line in lines})

    def at(self, line: Line, number: int) -> str | None:
        """The commit of that number on a line."""
        back = line.number - number
        if 0 <= back < len(line.own):
            return line.own[back]
        spot = self._index.at(line.way, number)
        return None if spot is None else spot.revision

    def fork(self, one: Line, other: Line) -> str | None:
        """The last commit that two lines have in common."""
        ends = {stretch.chain: stretch.to for stretch in one.way}
        shared = (min(at.to, ends[at.chain]) for at in other.way if at.chain in ends)
        return self.at(other, next(shared, 0))
