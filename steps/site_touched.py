"""Which alerts and questions something has happened to since their pages were made.

To gather all that the page of a case tells takes longer than to find that nothing of it has
changed: a night measures the newest revisions, and cases are about older ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain

from netbisect.reports.case import Case
from netbisect.steps.surroundings import AFTER, BEFORE
from netbisect.store.beside import nearest
from netbisect.store.ledger import Ledger
from netbisect.store.records import Event

_OF_FACTS = {"boot", "sample", "kernel", "dud"}
_OF_MANY = {"import", "known"}
"""Kinds of events that name their revisions where they are few."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a case is about."""

    testbed: str
    first: float
    """Number of the first commit whose measurements it tells of; -inf where earlier ones count."""
    last: float
    """Of the last one; inf where later ones count."""
    branch: str = ""
    """Where other testbeds are looked at for the same change; "" where they are not."""
    good: int = 0
    """Number of the last commit before that change."""
    bad: int = 0
    """Number of the first one with it."""
    until: float = math.inf
    """Up to when they are looked at, seconds since the epoch."""
    files: bool = False
    """It tells of the tree or of profiles, of which the ledger knows nothing."""

    def holds(self, first: float, last: float) -> bool:
        """Whether a range of numbers and this one have some in common."""
        return first <= self.last and last >= self.first


def extent(ledger: Ledger, case: Case | None, testbed: str) -> Extent:
    """What a case is about: its commits, and the levels of its picture.

    Args:
        ledger: That knows the places of commits.
        case: None where nothing was measured for it.
        testbed: Of the case.
    """
    if case is None:
        return Extent(testbed, math.inf, -math.inf)
    ends = {case.good.revision, case.bad.revision, *(one.revision for one in case.commits)}
    levels = {one.revision for one in case.series.get(case.lead, ())}
    numbers = ledger.places(ends | levels).get(case.branch, {})
    if not ends <= numbers.keys():
        return Extent(testbed, -math.inf, math.inf)
    first, last = min(map(numbers.__getitem__, ends)), max(map(numbers.__getitem__, ends))
    drawn = [numbers[one] for one in levels]
    before, after = [n for n in drawn if n <= first], [n for n in drawn if n >= last]
    return Extent(
        testbed,
        min(before) if len(before) >= BEFORE else -math.inf,
        max(after) if len(after) >= AFTER else math.inf,
    )


def followed(about: Extent, case: Case, until: float, *, files: bool) -> Extent:
    """What the case of an alert is about as long as the alert is followed.

    Args:
        about: As `extent` says it.
        case: Of the alert.
        until: Up to when it is followed, seconds since the epoch.
        files: Whether it tells of the tree.
    """
    good, bad = case.good.number, case.bad.number
    return replace(about, branch=case.branch, good=good, bad=bad, until=until, files=files)


@dataclass(frozen=True, slots=True)
class News:
    """What has happened."""

    everything: bool = False
    """Nobody knows what."""
    testbeds: frozenset[str] = frozenset()
    """Where something was asked, decided or said of alerts, or conditions have changed."""
    ranges: tuple[tuple[float, float], ...] = ()
    """Numbers of commits that were measured or learned."""
    measured: Mapping[str, Mapping[str, frozenset[int]]] = field(default_factory=dict)
    """By branch and testbed: numbers of commits that were measured, or got their numbers."""
    booted: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """By branch and testbed: the numbers of all commits that were booted, in order."""
    now: float = 0.0
    """When the newest thing was done that pages of alerts tell of, seconds since the epoch."""

    def touches(self, extent: Extent) -> bool:
        """Whether the page of a case may tell of it."""
        return (
            self.everything
            or extent.files
            or extent.testbed in self.testbeds
            or any(extent.holds(*numbers) for numbers in self.ranges)
            or (bool(extent.branch) and (self.now >= extent.until or self._beside(extent)))
        )

    def _beside(self, extent: Extent) -> bool:
        """Whether another testbed was measured where it is looked at for the same change."""
        booted = self.booted.get(extent.branch, {})
        return any(
            not numbers.isdisjoint(chain(*nearest(booted[name], (extent.good, extent.bad))))
            for name, numbers in self.measured.get(extent.branch, {}).items()
        )


def news_of(
    ledger: Ledger, events: Sequence[Event] | None, questions: Mapping[int, AbstractSet[str]]
) -> News:
    """What events tell.

    Args:
        ledger: That knows the places of commits.
        events: Since the pages were made; None where nobody knows them.
        questions: Testbeds whose cases tell of a question; none of those that are not here do.
    """
    if events is None:
        return News(everything=True)
    testbeds: set[str] = set()
    revisions: set[str] = set()
    ranges: set[tuple[float, float]] = set()
    learned: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    measured: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.kind == "mail" or "quarantine" in event.data:
            continue  # no page of a case tells of them
        if event.question is not None and event.question in questions:
            testbeds.update(questions[event.question])
        if event.kind in {"conditions", "alert"}:
            testbeds.add(event.data["testbed"])
        elif event.kind == "learned":
            ranges.add((event.data["first"], event.data["last"]))
            learned[event.data["branch"]].add((event.data["first"], event.data["last"]))
        elif event.kind in _OF_MANY and event.data.get("revisions") is not None:
            revisions.update(event.data["revisions"])
            measured[""].update(event.data["revisions"])
        elif event.kind in _OF_FACTS:
            revisions.add(event.data["revision"])
            measured[event.data.get("testbed", "")].add(event.data["revision"])
        elif event.question is None:
            return News(everything=True)
    places = ledger.places(revisions)
    ranges.update(_ranges(revisions, places))
    booted = {branch: ledger.booted(branch) for branch in {*places, *learned}}
    return News(
        testbeds=frozenset(testbeds),
        ranges=tuple(sorted(ranges)),
        measured={
            branch: {
                testbed: _measured(
                    numbers,
                    {
                        of_branch[one]
                        for one in measured[""] | measured[testbed]
                        if one in (of_branch := places.get(branch, {}))
                    },
                    learned[branch],
                )
                for testbed, numbers in of_testbed.items()
            }
            for branch, of_testbed in booted.items()
        },
        booted=booted,
    )


def measured_in(events: Sequence[Event] | None) -> frozenset[str] | None:
    """Revisions of which facts were added; None where nobody knows them.

    Args:
        events: In any order; None where nobody knows them.
    """
    if events is None:
        return None
    found: set[str] = set()
    for event in events:
        if event.kind in _OF_MANY:
            if event.data.get("revisions") is None:
                return None
            found.update(event.data["revisions"])
        elif event.kind in _OF_FACTS:
            found.add(event.data["revision"])
    return frozenset(found)


def _measured(
    booted: Sequence[int], measured: set[int], learned: Iterable[tuple[int, int]]
) -> frozenset[int]:
    """Of the commits that a testbed booted: the numbers of those of which there is news.

    Args:
        booted: All of them, in order.
        measured: Those with new facts.
        learned: The first and last number of commits that were learned: what was booted before
            has its place only now, and where commits come in between, others lose theirs.
    """
    return frozenset(
        number
        for number in booted
        if number in measured or any(first <= number for first, _ in learned)
    )


def _ranges(
    revisions: Iterable[str], places: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[float, float]]:
    """Where these commits are; one that was not learned may be anywhere."""
    for revision in revisions:
        found = [of_branch[revision] for of_branch in places.values() if revision in of_branch]
        yield (min(found), max(found)) if found else (-math.inf, math.inf)
