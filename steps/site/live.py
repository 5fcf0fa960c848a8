"""Renders pages of the running service; called in the compute process."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from netbisect.bisect.model.entities import Commit
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.site import frame, pages
from netbisect.reports.site.files import LISTED, pair_page, revision_page, series_page
from netbisect.reports.site.frame import File, Page, Serving, make_page
from netbisect.reports.site.overview import Overview, RunningJob
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import progress_of
from netbisect.steps.service import stalls
from netbisect.steps.service.settings import MOST_BOOTS, Settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.steps.site import revision_names
from netbisect.steps.site.build import AlertIndex, PageBuilder
from netbisect.steps.site.folder import SiteRevisionError
from netbisect.steps.site.index_pages import IndexPages, overview
from netbisect.steps.site.requests import profile_files, request_files
from netbisect.store.db.database import NotFoundError, retried_while_unavailable
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.mirror import HistoryError
from netbisect.store.git.resolve import commit_named
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab, load_lab

_PATIENCE = 0.5
"""Seconds that a page waits for series; the next request reads further ones."""
_NUMBERED = re.compile(r"(alert|bisection|comparison|profile|request)-([0-9]{1,9})[.]")
_REVISION = re.compile(r"revision-([0-9A-Za-z_-]{1,50})[.]html")
_PAIR = re.compile(r"compare-([0-9A-Za-z_-]{1,50})[.]([0-9A-Za-z_-]{1,50})[.]html")
_Place = tuple[str, str]


class LivePages:
    """The pages of one ledger, up to date at every request."""

    def __init__(
        self, settings: Settings, lab: Lab, ledger: Ledger, patience: float = _PATIENCE
    ) -> None:
        self.settings = settings
        self.lab = lab
        self.ledger = ledger
        self.patience = patience
        self._event = -1
        self._series: dict[_Place, tuple[str, list[SeriesDocument]]] = {}
        """With the version of their samples and alerts."""
        self._running: dict[int, tuple[tuple[int, int], RunningJob]] = {}
        """By job, with its numbers of submitted and finished attempts."""

    def file(self, name: str) -> str | None:
        """A page or another file; None if there is none of this name."""
        found = self._file(name)
        return found.html(_serving(self.settings)) if isinstance(found, Page) else found

    def _file(self, name: str) -> Page | str | None:
        self._refresh()
        if name == "requests.html":
            return pages.requests(self.ledger.requests.all(), cache(self.ledger.commits.label))
        if name == "new-request.html":
            return _new_request(self.settings, self.lab)
        if found := _NUMBERED.match(name):
            make = self._numbered(found[1], int(found[2])).get(name)
        elif name.startswith("series-"):
            make = self._one_series(name)
        else:
            return self._of_many(name)
        return make() if make else None

    def _numbered(self, kind: str, number: int) -> Mapping[str, File]:
        """The files about an alert, a job or a request; none if there is none of this number."""
        try:
            match kind:
                case "alert":
                    return self.builder.alert(number)
                case "profile":
                    return profile_files(self.builder, self.settings, number)
                case "request":
                    return request_files(self.builder, self.settings, self.lab, number)
                case _:
                    return self.builder.job(number)
        except (NotFoundError, KeyError):
            return {}

    def _one_series(self, name: str) -> File | None:
        page = f"{name.rpartition('.')[0]}.html"
        for one in self.ledger.series.names():
            if series_page(one.testbed, one.scenario, one.branch) == page:
                for history in self.ledger.series.histories(one.testbed, one.scenario):
                    if history.name == one:
                        return self.builder.series(self.builder.document(history)).get(name)
        return None

    def _of_many(self, name: str) -> Page | None:
        many = IndexPages(self.builder, self.overview())
        if make := many.makers().get(name):
            return make()
        named = many.revisions()  # pages of imported revisions have other names
        try:
            if pair := _PAIR.fullmatch(name):
                return many.pair(*(named.get(f"revision-{one}.html", one) for one in pair.groups()))
            if one := _REVISION.fullmatch(name):
                return many.revision(self.commit(named.get(name, one[1])))
        except SiteRevisionError:
            pass
        return None

    def commit(self, name: str) -> Commit:
        """The commit that a user names, measured or in the tree. Raises SiteRevisionError."""
        try:
            return revision_names.resolve(self.ledger, name)
        except SiteRevisionError as error:
            tree = self.builder.lab.history
            if tree is None:
                raise
            try:
                return commit_named(tree, name, default_branch=self.settings.branches[0])
            except (RevisionError, HistoryError):
                raise error from None

    def search(self, names: Sequence[str]) -> str:
        """The page of a revision, or of the comparison of two. Raises SiteRevisionError."""
        self._refresh()
        found = [self.commit(one.strip()).revision for one in names]
        return revision_page(found[0]) if len(found) == 1 else pair_page(found[0], found[1])

    def overview(self) -> Overview:
        """Everything on the pages about many series; changed series are read first."""
        self._refresh()
        stale = self.stale()
        end = time.monotonic() + self.patience
        while stale and time.monotonic() < end:
            place, version = stale.pop(0)
            found = self.ledger.series.histories(*place)
            self._series[place] = (
                version,
                [self.builder.document(one).latest_only(LISTED) for one in found],
            )
        every = [one for _, found in self._series.values() for one in found]
        return overview(
            self.builder,
            sorted(every, key=lambda one: one.name),
            list(self._jobs()),
            self.ledger.clock(),
            stalls=stalls.read(self.settings.state).recent,
            unread=len(stale),
        )

    def stale(self) -> list[tuple[_Place, str]]:
        """Testbeds and scenarios that have changed since they were read, with their versions."""
        self._refresh()
        counted = self.ledger.samples.counts()
        self._series = {place: one for place, one in self._series.items() if place in counted}
        changes: dict[_Place, float] = {}
        for number, alert in self.alerts.by_number.items():
            for one in alert.series:
                at = self.alerts.changed.get(number, 0.0)
                place = one.testbed, one.scenario
                changes[place] = max(at, changes.get(place, at))
        versions = {
            place: f"{one.samples} {one.latest!r} {changes.get(place)}"
            for place, one in counted.items()
        }
        return [
            (place, version)
            for place, version in versions.items()
            if self._series.get(place, ("", []))[0] != version
        ]

    def _refresh(self) -> None:
        event = self.ledger.events.last()
        if event != self._event:
            self.alerts = AlertIndex.of(self.ledger)
            self.builder = PageBuilder(
                LabContext(self.lab, self.settings),
                self.ledger,
                self.alerts,
                self.settings.page_address(""),
            )
            self._event = event

    def _jobs(self) -> list[RunningJob]:
        found = self.ledger.jobs.all_open()
        counts = self.ledger.jobs.progress({one.id for one in found})
        before, self._running = self._running, {}
        for one in found:
            count = counts.get(one.id, (0, 0))
            kept = before.get(one.id)
            if kept is None or kept[0] != count:
                kept = count, progress_of(self.ledger, self.builder.lab, one)
            self._running[one.id] = kept
        return [job for _, job in self._running.values()]


_pages: list[LivePages] = []
"""Pages of the last request."""


def file(settings: Settings, name: str) -> str | None:
    """A page of the service or another file; None if there is none of this name."""
    return retried_while_unavailable(lambda: _pages_of(settings).file(name))


def unread(settings: Settings) -> int:
    """Reads some of the changed series; returns how many remain."""
    return retried_while_unavailable(lambda: _pages_of(settings).overview().unread)


def search(settings: Settings, names: Sequence[str]) -> tuple[str, str]:
    """The file about one or two revisions; or "" and why there is none."""
    try:
        return retried_while_unavailable(lambda: _pages_of(settings).search(names)), ""
    except SiteRevisionError as error:
        return "", str(error)


def message(settings: Settings, title: str, text: str, **options: Any) -> str:
    """A page with a sentence; `options` as in `frame.message`."""
    return frame.message(title, text, **options).html(_serving(settings))


def _new_request(settings: Settings, lab: Lab) -> Page:
    return make_page(
        "new-request.html",
        "New request",
        trail=[("requests.html", "Requests")],
        testbeds=[(one.name, one.scenarios) for one in lab.testbeds],
        branches=settings.branches,
        boots=settings.requests.boots,
        most_boots=MOST_BOOTS,
        margin=settings.min_effect_percent,
        hours=settings.requests.hours,
    )


def _serving(settings: Settings) -> Serving:
    """Links to Buildbot's own pages."""
    web = settings.web
    login = f"{web.url}auth/login?redirect=/netbisect" if web.login.kind != "none" else ""
    return Serving(f"{web.url}#/builders", login)


def _pages_of(settings: Settings) -> LivePages:
    lab = load_lab(settings.lab)
    if not _pages or (_pages[0].settings, _pages[0].lab) != (settings, lab):
        _pages[:] = [LivePages(settings, lab, open_service_ledger(settings))]
    return _pages[0]
