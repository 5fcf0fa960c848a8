"""The page of any two revisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from netbisect.bisect.detection.health import level_estimates
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import RevisionDocument
from netbisect.reports.site.frame import Page
from netbisect.reports.site.pair import SeriesPair, pair
from netbisect.store.ledger import Ledger


def page(
    ledger: Ledger,
    ends: tuple[RevisionDocument, RevisionDocument],
    series: Sequence[SeriesDocument],
) -> Page:
    """Two revisions in all series that have both."""
    before, after = ends
    return pair(before, after, _both_in(ledger, (before.revision, after.revision), series))


def _both_in(
    ledger: Ledger, ends: tuple[str, str], series: Sequence[SeriesDocument]
) -> list[SeriesPair]:
    """The series that have both revisions under their newest conditions."""
    found = []
    by_place: defaultdict[tuple[str, str], list[SeriesDocument]] = defaultdict(list)
    for one in series:
        by_place[one.testbed, one.scenario].append(one)
    for place, levels in sorted(ledger.series.of_revisions(ends).items()):
        if not set(ends) <= set(levels) or not by_place[place]:
            continue
        # Where both are on several branches, their boots are the same ones.
        one = max(by_place[place], key=lambda series: series.kernels)
        before, after = levels[ends[0]], levels[ends[1]]
        first, second = level_estimates([before, after], one.noise)
        found.append(SeriesPair(one, before, after, (first, second)))
    return found
