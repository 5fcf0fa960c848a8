"""The ledger for one run of the site: what many pages tell of is read once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence

from netbisect.bisect.model import Commit
from netbisect.steps.site_kept import Kept
from netbisect.store.database import open_database
from netbisect.store.ledger import Ledger
from netbisect.store.measured import Memory
from netbisect.store.records import Event
from netbisect.store.samples import Newest
from netbisect.store.schema import migrate
from netbisect.store.trails import Trail

_TRAILS = 2
"""Testbeds and scenarios whose series are kept: the pages of an alert follow each other."""


class Remembering(Ledger):
    """A ledger that keeps what it has read: commits, newest samples and the latest series."""

    _commits: dict[str, Commit | None]
    _trails: OrderedDict[tuple[str, str], list[Trail]]
    _newest: dict[tuple[str, str, str], Newest]
    _events: dict[str, list[Event] | None]
    memory: Kept | None
    """Of what was measured; None without any."""

    @classmethod
    def of(cls, database: str) -> Remembering:
        """The ledger in a database, which is brought up to date first.

        Raises:
            StoreError: it cannot be used.
        """
        engine = open_database(database)
        migrate(engine)
        found = cls(engine)
        found._commits, found._trails, found._newest = {}, OrderedDict(), {}
        found._events, found.memory = {}, None
        return found

    def commits(self, revisions: Collection[str]) -> dict[str, Commit]:
        """As `Trails.commits`."""
        unknown = [one for one in revisions if one not in self._commits]
        if unknown:
            self._commits.update(dict.fromkeys(unknown))
            self._commits.update(super().commits(unknown))
        return {name: commit for name in revisions if (commit := self._commits[name]) is not None}

    def commit(self, revision: str) -> Commit | None:
        """As `Facts.commit`."""
        return self.commits([revision]).get(revision)

    def newest_samples(self) -> dict[tuple[str, str, str], Newest]:
        """As `Samples.newest_samples`."""
        self._newest = self._newest or super().newest_samples()
        return self._newest

    def events_after(self, mark: str, most: int = 20_000) -> list[Event] | None:
        """As `Marks.events_after`."""
        if mark not in self._events:
            self._events[mark] = super().events_after(mark, most)
        return self._events[mark]

    def trails_of(
        self, testbed: str, scenarios: Sequence[str], memory: Memory | None = None
    ) -> Iterator[list[Trail]]:
        """As `Trails.trails_of`, with the memory of this ledger."""
        return super().trails_of(testbed, scenarios, memory or self.memory)

    def trails(self, testbed: str, scenario: str) -> list[Trail]:
        """As `Trails.trails`."""
        place = testbed, scenario
        if place not in self._trails:
            self._trails[place] = super().trails(testbed, scenario)
        self._trails.move_to_end(place)
        while len(self._trails) > _TRAILS:
            self._trails.popitem(last=False)
        return self._trails[place]
