"""The pages of the site that tell of many series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from netbisect.bisect.model import Bisection, Commit, Comparison
from netbisect.reports import badge, words
from netbisect.reports.case import Links
from netbisect.reports.site import pages, revisions
from netbisect.reports.site.frame import FEED
from netbisect.reports.site.nouns import (
    AlertLine,
    Overview,
    Summary,
    badge_file,
    pair_page,
    revisions_page,
    testbed_page,
)
from netbisect.reports.site.pages import Ended
from netbisect.steps import badges
from netbisect.steps import site_material as material
from netbisect.steps.site_build import COMPACT, Desk
from netbisect.steps.site_files import Folder, Manifest, mark_of, put
from netbisect.store.marks import Mark
from netbisect.store.records import Asked

_FRONT = "front"
"""Those of all testbeds, as a task."""
_OF_TESTBED = "testbed\n"
"""Begins the tasks of the pages that tell of a testbed."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the ledger has, in little: enough to tell what is out of date."""

    marks: Mapping[tuple[str, str], Mark]
    questions: Mapping[str, Sequence[Asked]]
    """By kind, oldest first."""
    progress: Mapping[int, tuple[int, int]]


class Front:
    """The pages that tell of many series."""

    def __init__(self, desk: Desk, outlook: Outlook, manifest: Manifest, folder: Folder) -> None:
        self._desk = desk
        self._outlook = outlook
        self._manifest = manifest
        self._folder = folder
        series = [
            COMPACT.structure(one, Summary) for told in manifest.series.values() for one in told
        ]
        self._series = {one.name: one for one in sorted(series, key=lambda one: one.name)}

    def write(self, before: Manifest) -> None:
        """Writes them, and into the manifest what was written.

        Args:
            before: What is known of those that are there.
        """
        desk, manifest = self._desk, self._manifest
        pairs = {pair_page(*pair): pair for pair in manifest.pairs}
        ends = {
            name: (material.resolve(desk.ledger, first), material.resolve(desk.ledger, second))
            for name, (first, second) in pairs.items()
        }
        listed = [(name, after.label, earlier.label) for name, (earlier, after) in ends.items()]
        view = _overview(desk, self._outlook, self._series, listed)
        for testbed, group in groupby(self._series.values(), lambda one: one.testbed):
            alerts = [one for one in view.alerts if one.testbed == testbed]
            self._testbed(testbed, list(group), alerts, before)
        links = Links(commit=desk.lab.commit_link)
        conditions = badges.conditions(desk.ledger)
        manifest.until = badges.until(conditions, desk.ledger.clock())
        files = {name: self._pair(pair, links) for name, pair in ends.items()} | {
            "alerts.html": pages.alerts(view),
            "searches.html": pages.searches(view.running, list(_ended(desk, self._outlook))),
            "testbeds.html": pages.testbeds(view),
            "compare.html": pages.compare(view),
            FEED: desk.documents.atom(),
            **{
                badge_file(*place): badge.badge(badges.title(place), condition)
                for place, condition in conditions.items()
            },
            "index.html": pages.index(view),
        }
        manifest.pages[_FRONT] = self._put(files)

    def _pair(self, ends: tuple[Commit, Commit], links: Links) -> str:
        from netbisect.steps.site_pair import page  # noqa: PLC0415 - long to load, and seldom asked

        return page(self._desk.ledger, ends, self._series, links)

    def _put(self, files: Mapping[str, str]) -> dict[str, str]:
        return {name: put(self._folder.staging, name, text) for name, text in files.items()}

    def _testbed(
        self,
        testbed: str,
        mine: Sequence[Summary],
        alerts: Sequence[AlertLine],
        before: Manifest,
    ) -> None:
        """The pages of a testbed, unless they are there and would tell the same."""
        key = f"{_OF_TESTBED}{testbed}"
        mark = mark_of((mine, alerts))
        self._manifest.marks[key] = mark
        if before.marks.get(key) == mark and self._folder.whole(key):
            self._manifest.pages[key] = before.pages[key]
            return
        files = {testbed_page(testbed): pages.testbed(mine, alerts)}
        for branch in {one.branch: None for one in mine}:
            of_branch = [one for one in mine if one.branch == branch]
            files[revisions_page(testbed, branch)] = revisions.page(of_branch)
        self._manifest.pages[key] = self._put(files)


def _overview(
    desk: Desk,
    outlook: Outlook,
    series: Mapping[tuple[str, str, str], Summary],
    pairs: Sequence[tuple[str, str, str]],
) -> Overview:
    nights = desk.ledger.last_nights(material.NIGHT_SECONDS)
    running = [
        material.running(desk.ledger, one, kind, outlook.progress.get(one.id, (0, 0))[0])
        for kind, asked in outlook.questions.items()
        for one in asked
        if one.finding is None
    ]
    times = [mark.latest for mark in outlook.marks.values()]
    times += [line.changed for line in desk.lines.values()]
    times += [one.closed_at or one.opened_at for one in nights]
    return Overview(
        at=max(times, default=0.0),
        nights=material.night_views(nights, series),
        night_at=max((one.opened_at for one in nights), default=None),
        alerts=list(reversed(desk.lines.values())),
        running=running,
        series=list(series.values()),
        pairs=pairs,
    )


def _ended(desk: Desk, outlook: Outlook) -> Iterator[Ended]:
    """The newest first."""
    asked = [
        (one.id, kind, one)
        for kind, of_kind in outlook.questions.items()
        for one in of_kind
        if one.finding is not None
    ]
    for number, kind, one in sorted(asked, key=lambda item: -item[0]):
        assert isinstance(one.question, Comparison | Bisection)
        assert one.finding is not None
        yield Ended(
            kind=kind,
            number=number,
            testbed=one.question.testbed,
            branch=one.question.branch,
            since=one.opened_at,
            answer=words.sentence(one.finding, desk.ledger.label, desk.lab.title),
        )
