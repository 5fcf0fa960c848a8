"""Renders the pages of series, alerts and jobs, each from the ledger alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.bisect.model.jobs import BisectJob
from netbisect.reports.documents import json_schema
from netbisect.reports.documents.json_schema import Document
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.site import cases
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.cases import JobLink
from netbisect.reports.site.frame import File, Page, as_document
from netbisect.reports.site.view_models import (
    JOB_KINDS,
    SeriesSummary,
    SeriesView,
    alert_page,
    document_file,
    question_page,
)
from netbisect.steps.policy.alert_actions import ACTIONS
from netbisect.steps.queries import document_parts, documents
from netbisect.steps.queries.case import alert_case
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.site import view_models
from netbisect.steps.site.folder import put
from netbisect.steps.site.source import SiteSource
from netbisect.store.db.records import Alert, SeriesName
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import SeriesHistory


@dataclass(frozen=True, slots=True)
class AlertIndex:
    """The alerts at the start of a run. All processes use these, so that their links agree."""

    by_number: Mapping[int, Alert]
    changed: Mapping[int, float]
    """By number: time of the last change, seconds since the epoch."""
    now: float
    """As `site_material.latest`."""

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """The alerts of a ledger."""
        changed = {number: at for number, (_, at) in ledger.alerts.change_counts().items()}
        return cls(
            {one.id: one for one in ledger.alerts.all()}, changed, view_models.latest(ledger)
        )


@dataclass(frozen=True, slots=True)
class PagesOfTestbed:
    """All pages about one testbed, which one process makes."""

    testbed: str
    scenarios: tuple[str, ...]
    alerts: tuple[int, ...]
    jobs: tuple[tuple[str, int], ...]
    """Kind and number."""


class PageBuilder:
    """Renders pages; each method returns files by name."""

    def __init__(self, source: SiteSource, ledger: Ledger, alerts: AlertIndex) -> None:
        """Indexes the alerts.

        Args:
            source: Of all pages.
            ledger: Of the source.
            alerts: Of the run.
        """
        self.ledger = ledger
        self.lab = LabContext(source.commit_link, source.lab, source.home)
        self.min_effect = MIN_EFFECT if source.min_effect is None else source.min_effect
        self.documents = documents.DocumentQueries(
            self.ledger,
            commit_link=source.commit_link,
            alert_link=alert_page("{number}"),
            min_effect=self.min_effect,
        )
        self.alerts = alerts
        self.lines = {
            number: document_parts.alert_summary(
                one, alerts.changed.get(number, 0.0), self.lab.title
            )
            for number, one in alerts.by_number.items()
        }
        self._moved: defaultdict[SeriesName, list[AlertSummary]] = defaultdict(list)
        self._seen: defaultdict[SeriesName, list[int]] = defaultdict(list)
        self._by_job: dict[int, AlertSummary] = {}
        for number, alert in alerts.by_number.items():
            self._note(number, alert)

    def _note(self, number: int, alert: Alert) -> None:
        """Indexes an alert by its series, newest first where they moved, and by its questions."""
        line = self.lines[number]
        series = [
            (SeriesName(one.testbed, one.scenario, one.branch), one.moved) for one in alert.series
        ]
        for name in dict.fromkeys(name for name, moved in series if moved):
            self._moved[name].insert(0, line)
        for name in dict.fromkeys(name for name, _ in series):
            self._seen[name].append(number)
        self._by_job |= {job: line for job in (alert.comparison, alert.bisection) if job}

    def make(self, part: PagesOfTestbed, folder: Path) -> list[SeriesSummary]:
        """Writes the pages of a testbed; returns its series, for pages about many of them."""
        for number in part.alerts:
            put(folder, self.alert(number))
        for _, number in part.jobs:
            put(folder, self.job(number))
        found = []
        for histories in self.ledger.series_histories.of_scenarios(part.testbed, part.scenarios):
            for one in histories:
                view = self.view(one)
                put(folder, self.series(one, view))
                found.append(series_pages.summary(view))
        return found

    def view(self, history: SeriesHistory) -> SeriesView:
        """The view model of a series."""
        alerts = self._moved.get(history.name, ())
        return view_models.view_of(self.ledger, history, self.lab, alerts, self.min_effect)

    def series(self, history: SeriesHistory, view: SeriesView) -> dict[str, File]:
        """The page of a series and its document, which has every boot in one line."""
        document = document_parts.series(
            history.name,
            view.levels,
            {id(one) for one in history.baseline},
            conditions=view.epochs[-1].values,
            health=view.health,
            alerts=self._seen[history.name],
            commits=self.ledger.commits.find({one.revision for one in view.levels}),
        )
        return {
            view.page: series_pages.page(view, [as_document(view.page)]),
            document_file(view.page): f"{json_schema.as_line(document)}\n",
        }

    def alert(self, number: int) -> dict[str, File]:
        """The page of an alert, its document, and its flame graphs.

        Raises:
            StoreError: There is no such alert.
        """
        document = self.documents.alert(number)
        alert = self.alerts.by_number[number]
        jobs = [(kind, getattr(alert, kind)) for kind in JOB_KINDS]
        case = alert_case(self.lab, self.ledger, alert, self.alerts.now)
        page = cases.alert(
            document=document,
            case=case,
            title=self.lab.title,
            jobs=[JobLink(kind, job) for kind, job in jobs if job is not None],
            verbs=[(name, one.help) for name, one in ACTIONS.items()],
        )
        drawings = cases.drawings(case) if case else {}
        return _files(alert_page(number), page, document) | drawings

    def job(self, number: int) -> dict[str, File]:
        """The page of a comparison or bisection, and its document.

        Raises:
            StoreError: There is no such job.
        """
        record = self.ledger.jobs.get(number)
        alert = self._by_job.get(number)
        file = question_page(document_parts.kind(record), number)
        document: Document
        if isinstance(record.job, BisectJob):
            document = self.documents.bisection(number)
            case = view_models.question_case(self.ledger, record, self.lab)
            page = cases.bisection(number=number, case=case, alert=alert)
            return _files(file, page, document)
        document = self.documents.comparison(number)
        following = [
            JobLink("bisection" if isinstance(one.job, BisectJob) else "comparison", one.id)
            for one in self.ledger.jobs.children(number)
        ]
        page = cases.comparison(
            number=number,
            case=view_models.question_case(self.ledger, record, self.lab),
            alert=alert,
            finding=record.finding,
            following=next(iter(following), None),
        )
        return _files(file, page, document)


def _files(file: str, page: Page, document: Document) -> dict[str, File]:
    return {file: page, document_file(file): f"{json_schema.as_text(document)}\n"}
