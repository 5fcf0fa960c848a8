"""The pages about many series."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from netbisect.bisect.detection.health import level_estimates
from netbisect.bisect.model.entities import Commit
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.plots import badge
from netbisect.reports.render import words
from netbisect.reports.site import pages, revisions
from netbisect.reports.site.files import (
    JOB_KINDS,
    badge_file,
    pair_page,
    revision_page,
    revisions_page,
    testbed_page,
)
from netbisect.reports.site.frame import FEED, File, Page
from netbisect.reports.site.overview import Overview, RunningJob
from netbisect.reports.site.pair import SeriesPair, pair
from netbisect.steps.queries import badges, progress
from netbisect.steps.queries.documents import quarantines
from netbisect.steps.queries.lab_context import known_commits
from netbisect.steps.site import revision_names
from netbisect.steps.site.build import PageBuilder
from netbisect.steps.site.folder import Pair

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class IndexPages:
    """Renders the pages about many series."""

    builder: PageBuilder
    overview: Overview

    def files(self, pairs: Sequence[Pair]) -> Iterator[tuple[str, File]]:
        """All of them by name, and a page for each pair of revisions. Raises SiteRevisionError."""
        for ends in pairs:
            yield pair_page(*ends), partial(self.pair, *ends)
        yield from self.makers().items()
        named = self.revisions()
        commits = known_commits(self.builder.ledger, named.values())
        for page, commit in zip(named, commits, strict=True):
            yield page, partial(self.revision, commit)
        for place, condition in badges.conditions(self.builder.ledger).items():
            yield badge_file(*place), partial(badge.badge, badges.title(place), condition)
        yield FEED, self.builder.documents.atom

    def makers(self) -> dict[str, Callable[[], Page]]:
        """Functions that make the pages, by file name, except those of revisions and pairs."""
        view = self.overview
        testbeds = _grouped((testbed_page(one.testbed), one) for one in view.series)
        branches = _grouped((revisions_page(one.testbed, one.branch), one) for one in view.series)
        return {
            "index.html": partial(pages.index, view),
            "alerts.html": partial(pages.alerts, view),
            "testbeds.html": partial(pages.testbeds, view),
            "compare.html": partial(pages.compare, view),
            "health.html": partial(pages.health, view),
            "searches.html": self._searches,
            **{
                page: partial(pages.testbed, series, view.alerts)
                for page, series in testbeds.items()
            },
            **{page: partial(revisions.page, series) for page, series in branches.items()},
        }

    def revisions(self) -> dict[str, str]:
        """The latest revisions, and those named by alerts, by their page."""
        found = {one.revision for of in self.overview.series for one in of.levels}
        for alert in self.overview.alerts:
            found |= {alert.good, alert.bad, alert.culprit} - {""}
        return {revision_page(name): name for name in sorted(found)}

    def revision(self, commit: Commit) -> Page:
        """The page of a revision."""
        name = commit.revision
        named = [one for one in self.overview.alerts if name in (one.good, one.bad, one.culprit)]
        document = self.builder.lab.revision(commit)
        failures = self.builder.ledger.evidence.failures(name)
        return revisions.revision(document, self.overview.series, named, failures)

    def pair(self, before: str, after: str) -> Page:
        """The page of two revisions. Raises SiteRevisionError if one was not measured."""
        ledger = self.builder.ledger
        first, second = (
            self.builder.lab.revision(revision_names.resolve(ledger, one))
            for one in (before, after)
        )
        return pair(first, second, list(self._both_in(first.revision, second.revision)))

    def _both_in(self, before: str, after: str) -> Iterator[SeriesPair]:
        """The series that have both revisions under their newest conditions."""
        by_place = _grouped(((one.testbed, one.scenario), one) for one in self.overview.series)
        measured = self.builder.ledger.series.of_revisions((before, after))
        for place, levels in sorted(measured.items()):
            if before not in levels or after not in levels or place not in by_place:
                continue
            # Where both are on several branches, their boots are the same ones.
            one = max(by_place[place], key=lambda series: series.kernels)
            first, second = level_estimates([levels[before], levels[after]], one.noise)
            yield SeriesPair(one, levels[before], levels[after], (first, second))

    def _searches(self) -> Page:
        ledger, title = self.builder.ledger, self.builder.lab.title
        found = [(kind, one) for kind in JOB_KINDS for one in ledger.jobs.of_kind(kind)]
        ended = [
            (kind, one, words.sentence(one.result, ledger.commits.label, title))
            for kind, one in sorted(found, key=lambda item: -item[1].id)
            if one.result is not None
        ]
        running = [one for one in self.overview.running if one.kind in JOB_KINDS]
        return pages.searches(running, ended)


def _grouped(named: Iterator[tuple[K, SeriesDocument]]) -> dict[K, list[SeriesDocument]]:
    found: dict[K, list[SeriesDocument]] = {}
    for name, one in named:
        found.setdefault(name, []).append(one)
    return found


def overview(
    builder: PageBuilder,
    series: Sequence[SeriesDocument],
    running: Sequence[RunningJob],
    at: float,
    **more: Any,
) -> Overview:
    """The overview of a ledger.

    `series` may be incomplete; `running` has all open jobs; `at` is now, or the time of the latest
    data; `more` has other fields.
    """
    ledger = builder.ledger
    return Overview(
        at=at,
        night=progress.last_night(ledger, builder.lab),
        alerts=list(reversed(builder.lines.values())),
        running=running,
        series=series,
        outside=ledger.nights.outside(one.name for one in series),
        held=quarantines(ledger),
        mails_given_up=len(ledger.mails.given_up()),
        **more,
    )
