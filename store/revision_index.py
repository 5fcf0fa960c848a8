"""The index of revisions: numbers, times and Subversion's numbers, in a file beside the clone.

Every commit has one first parent, so the first-parent lines of all branches are a tree, and the
number of a commit is how deep it lies there, whatever the branch. The index cuts that tree into
chains: each commit is in one of them, at its number, and a chain grows out of a commit of another.
A branch is a way along chains, and shares all but its own commits with the others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

BLOCK = 1_000
"""Commits of a chain of which the earliest time is kept, so that most need not be looked at."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A commit of the index."""

    revision: str
    chain: int
    number: int
    at: int
    """Commit time, seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a chain: after one number, up to another."""

    chain: int
    after: int
    to: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What a commit was in Subversion."""

    number: int
    path: str
    """Of the branch, such as head or stable/10; empty where it is not told."""
    revision: str
    source: int


class Index:
    """The index of one clone, as it stands now."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._chains: dict[int, tuple[int | None, int]] = {
            chain: (parent, base)
            for chain, parent, base in database.execute("SELECT id, parent, base FROM chains")
        }
        rows = database.execute("SELECT name, chain, number FROM branches ORDER BY name")
        self.branches: dict[str, tuple[int, int]] = {
            name: (chain, number) for name, chain, number in rows
        }
        """By name: chain and number of its newest commit."""

    def tags(self) -> dict[str, str]:
        """By name: the object, a commit or a tag's own, that a tag names."""
        rows = self._database.execute("SELECT what, state FROM known WHERE what LIKE 'refs/tags/%'")
        return {name.removeprefix("refs/tags/"): revision for name, revision in rows}

    def way(self, chain: int, number: int) -> list[Stretch]:
        """The first-parent line of the commit that is there, newest stretch first."""
        found = []
        at: int | None = chain
        while at is not None:
            parent, base = self._chains[at]
            found.append(Stretch(at, base, number))
            at, number = parent, base
        return found

    def line(self, branch: str) -> list[Stretch]:
        """The first-parent line of a branch."""
        return self.way(*self.branches[branch])

    def spot(self, revision: str) -> Spot | None:
        """Where a commit is; None: on no first-parent line of a branch."""
        row = self._database.execute(
            "SELECT chain, number, at FROM commits WHERE hash = ?", (bytes.fromhex(revision),)
        ).fetchone()
        return None if row is None else Spot(revision, *row)

    def at(self, way: Iterable[Stretch], number: int) -> Spot | None:
        """The commit of that number on a line; None: it is not so long."""
        for stretch in way:
            if stretch.after < number <= stretch.to:
                row = self._database.execute(
                    "SELECT hash, at FROM commits WHERE chain = ? AND number = ?",
                    (stretch.chain, number),
                ).fetchone()
                return Spot(row[0].hex(), stretch.chain, number, row[1])
        return None

    def numbered(self, number: int) -> list[Spot]:
        """All commits of that number, on whatever branches."""
        rows = self._database.execute(
            "SELECT c.hash, c.chain, c.number, c.at FROM chains JOIN commits AS c "
            "ON c.chain = chains.id AND c.number = ? ORDER BY chains.id",
            (number,),
        )
        return [Spot(revision.hex(), *rest) for revision, *rest in rows]

    def until(self, way: Iterable[Stretch], at: int) -> Spot | None:
        """The last commit of a line that is not later than that, seconds since the epoch."""
        for stretch in way:
            first, last = stretch.after + 1, stretch.to
            blocks = self._database.execute(
                "SELECT block FROM blocks WHERE chain = ? AND block BETWEEN ? AND ? "
                "AND earliest <= ? ORDER BY block DESC",
                (stretch.chain, first // BLOCK, last // BLOCK, at),
            )
            for (block,) in blocks:
                row = self._database.execute(
                    "SELECT number FROM commits WHERE chain = ? AND number BETWEEN ? AND ? "
                    "AND at <= ? ORDER BY number DESC LIMIT 1",
                    (
                        stretch.chain,
                        max(first, block * BLOCK),
                        min(last, (block + 1) * BLOCK - 1),
                        at,
                    ),
                ).fetchone()
                if row is not None:
                    return self.at([stretch], row[0])
        return None

    def branches_of(self, spot: Spot) -> list[str]:
        """Names of the branches on whose first-parent lines a commit is."""
        return [name for name in self.branches if on_way(spot, self.line(name))]

    def origins(self, revision: str) -> list[Origin]:
        """What a commit was in Subversion, by the best that is told."""
        return self._origins("hash = ?", bytes.fromhex(revision))

    def of_subversion(self, number: int) -> list[Origin]:
        """The commits that are said to have been that number."""
        return self._origins("number = ?", number)

    def before(self, number: int, path: str) -> list[Origin]:
        """The last commits of a branch in Subversion up to that number; mostly one."""
        query = "SELECT MAX(number) FROM subversion WHERE path = ? AND number <= ?"
        last = self._database.execute(query, (path, number)).fetchone()[0]
        return [] if last is None else self._origins("number = ? AND path = ?", last, path)

    def last_of_subversion(self) -> int:
        """The highest number that is known; 0: none is."""
        row = self._database.execute("SELECT MAX(number) FROM subversion").fetchone()
        return row[0] or 0

    def _origins(self, where: str, *values: object) -> list[Origin]:
        rows = self._database.execute(
            f"SELECT number, path, hash, source FROM subversion WHERE {where} "  # noqa: S608 - ours
            "ORDER BY path, source",
            values,
        )
        return [Origin(number, path, one.hex(), source) for number, path, one, source in rows]


def on_way(spot: Spot, way: Iterable[Stretch]) -> bool:
    """Whether a commit is on a first-parent line."""
    return any(one.chain == spot.chain and one.after < spot.number <= one.to for one in way)
