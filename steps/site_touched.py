"""Which alerts and questions something has happened to since their pages were made.

To gather all that the page of a case tells takes longer than to find that nothing of it has
changed: a night measures the newest revisions, and cases are about older ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from netbisect.reports.case import Case
from netbisect.steps.surroundings import AFTER, BEFORE
from netbisect.store.ledger import Ledger
from netbisect.store.records import Event

_OF_FACTS = {"boot", "sample", "kernel", "dud"}


@dataclass(frozen=True, slots=True)
class Extent:
    """What a case is about."""

    testbed: str
    first: float
    """Number of the first commit whose measurements it tells of; -inf where earlier ones count."""
    last: float
    """Of the last one; inf where later ones count."""

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


@dataclass(frozen=True, slots=True)
class News:
    """What has happened."""

    everything: bool = False
    """Nobody knows what."""
    testbeds: frozenset[str] = frozenset()
    """Where something was asked, decided or said of alerts, or conditions have changed."""
    ranges: tuple[tuple[float, float], ...] = ()
    """Numbers of commits that were measured or learned."""

    def touches(self, extent: Extent) -> bool:
        """Whether the page of a case may tell of it."""
        return (
            self.everything
            or extent.testbed in self.testbeds
            or any(extent.holds(*numbers) for numbers in self.ranges)
        )


def news_of(ledger: Ledger, events: Sequence[Event] | None, questions: Mapping[int, str]) -> News:
    """What events tell.

    Args:
        ledger: That knows the places of commits.
        events: Since the pages were made; None where nobody knows them.
        questions: Testbeds of the comparisons and bisections; others are no cases.
    """
    if events is None:
        return News(everything=True)
    testbeds: set[str] = set()
    revisions: set[str] = set()
    ranges: set[tuple[float, float]] = set()
    for event in events:
        if event.kind == "mail" or "quarantine" in event.data:
            continue  # no page of a case tells of them
        if event.question is not None and event.question in questions:
            testbeds.add(questions[event.question])
        if event.kind in {"conditions", "alert"}:
            testbeds.add(event.data["testbed"])
        elif event.kind == "learned":
            ranges.add((event.data["first"], event.data["last"]))
        elif event.kind == "import" and event.data.get("revisions") is not None:
            revisions.update(event.data["revisions"])
        elif event.kind in _OF_FACTS:
            revisions.add(event.data["revision"])
        elif event.question is None:
            return News(everything=True)
    ranges.update(_ranges(revisions, ledger.places(revisions)))
    return News(testbeds=frozenset(testbeds), ranges=tuple(sorted(ranges)))


def _ranges(
    revisions: Iterable[str], places: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[float, float]]:
    """Where these commits are; one that was not learned may be anywhere."""
    for revision in revisions:
        found = [of_branch[revision] for of_branch in places.values() if revision in of_branch]
        yield (min(found), max(found)) if found else (-math.inf, math.inf)
