"""The pages of the site that tell of many series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.reports.documents.types import AlertSummary
from netbisect.reports.model.case import Links
from netbisect.reports.plots import badge
from netbisect.reports.render import words
from netbisect.reports.site import pages, revisions
from netbisect.reports.site.frame import FEED
from netbisect.reports.site.pages import FinishedLine
from netbisect.reports.site.view_models import (
    SeriesSummary,
    SiteOverview,
    badge_file,
    pair_page,
    revisions_page,
    testbed_page,
)
from netbisect.steps.queries import badges
from netbisect.steps.site import pair as site_pair
from netbisect.steps.site import view_models
from netbisect.steps.site.build import PageBuilder
from netbisect.steps.site.folder import Pair
from netbisect.store.db.records import JobRecord
from netbisect.store.repositories.samples import SampleCount


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """What the ledger has, in numbers and lists."""

    samples: Mapping[tuple[str, str], SampleCount]
    """By testbed and scenario, in order."""
    jobs: Mapping[str, Sequence[JobRecord]]
    """By kind, oldest first."""
    progress: Mapping[int, tuple[int, int]]


class IndexPages:
    """The pages that tell of many series."""

    def __init__(
        self,
        desk: PageBuilder,
        outlook: LedgerSummary,
        series: Sequence[SeriesSummary],
        pairs: Sequence[Pair],
    ) -> None:
        """Nothing is written yet.

        Args:
            desk: Of the run.
            outlook: On the ledger.
            series: All of them, by name.
            pairs: Revisions that are compared on a page of their own.
        """
        self._desk = desk
        self._outlook = outlook
        self._series = {one.name: one for one in series}
        self._pairs = pairs

    def write(self) -> None:
        """Writes the pages.

        Raises:
            SiteRevisionError: One of the pairs is no revision that was measured.
        """
        desk = self._desk
        ends = {
            pair_page(*pair): (
                view_models.resolve(desk.ledger, pair[0]),
                view_models.resolve(desk.ledger, pair[1]),
            )
            for pair in self._pairs
        }
        listed = [(name, after.label, before.label) for name, (before, after) in ends.items()]
        view = _overview(desk, self._outlook, self._series, listed)
        for testbed, group in groupby(self._series.values(), lambda one: one.testbed):
            alerts = [one for one in view.alerts if one.testbed == testbed]
            self._testbed(testbed, list(group), alerts)
        links = Links(commit=desk.lab.commit_link)
        desk.put(
            {
                name: site_pair.page(desk.ledger, pair, self._series, links)
                for name, pair in ends.items()
            }
        )
        desk.put(
            {
                badge_file(*place): badge.badge(badges.title(place), condition)
                for place, condition in badges.conditions(desk.ledger).items()
            }
        )
        desk.put(
            {
                "alerts.html": pages.alerts(view),
                "searches.html": pages.searches(view.running, list(_ended(desk, self._outlook))),
                "testbeds.html": pages.testbeds(view),
                "compare.html": pages.compare(view),
                FEED: desk.documents.atom(),
                "index.html": pages.index(view),
            }
        )

    def _testbed(
        self, testbed: str, mine: Sequence[SeriesSummary], alerts: Sequence[AlertSummary]
    ) -> None:
        files = {testbed_page(testbed): pages.testbed(mine, alerts)}
        for branch in {one.branch: None for one in mine}:
            of_branch = [one for one in mine if one.branch == branch]
            files[revisions_page(testbed, branch)] = revisions.page(of_branch)
        self._desk.put(files)


def _overview(
    desk: PageBuilder,
    outlook: LedgerSummary,
    series: Mapping[tuple[str, str, str], SeriesSummary],
    pairs: Sequence[tuple[str, str, str]],
) -> SiteOverview:
    nights = desk.ledger.nights.latest(view_models.NIGHT_SECONDS)
    running = [
        view_models.running(desk.ledger, one, kind, outlook.progress.get(one.id, (0, 0))[0])
        for kind, record in outlook.jobs.items()
        for one in record
        if one.finding is None
    ]
    times = [one.latest for one in outlook.samples.values()]
    times += [line.changed_at for line in desk.lines.values()]
    times += [one.closed_at or one.opened_at for one in nights]
    return SiteOverview(
        at=max(times, default=0.0),
        nights=view_models.night_views(nights, series),
        night_at=max((one.opened_at for one in nights), default=None),
        alerts=list(reversed(desk.lines.values())),
        running=running,
        series=list(series.values()),
        pairs=pairs,
    )


def _ended(desk: PageBuilder, outlook: LedgerSummary) -> Iterator[FinishedLine]:
    """The newest first."""
    record = [
        (one.id, kind, one)
        for kind, of_kind in outlook.jobs.items()
        for one in of_kind
        if one.finding is not None
    ]
    for number, kind, one in sorted(record, key=lambda item: -item[0]):
        assert isinstance(one.job, CompareJob | BisectJob)
        assert one.finding is not None
        yield FinishedLine(
            kind=kind,
            number=number,
            testbed=one.job.testbed,
            branch=one.job.branch,
            since=one.opened_at,
            answer=words.sentence(one.finding, desk.ledger.commits.label, desk.lab.title),
        )
