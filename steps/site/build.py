"""Makes the pages of series, alerts and questions, each from the ledger alone."""

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
from netbisect.reports.documents.types import AlertSummary
from netbisect.reports.site import cases
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.cases import QuestionLink
from netbisect.reports.site.frame import as_document
from netbisect.reports.site.view_models import (
    SeriesSummary,
    SeriesView,
    alert_page,
    document_file,
    question_page,
)
from netbisect.steps.queries import document_parts, documents
from netbisect.steps.queries.lab_context import LedgerLab
from netbisect.steps.site import view_models
from netbisect.steps.site.folder import put
from netbisect.steps.site.source import SiteSource
from netbisect.store.db.records import Alert, SeriesName
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series_history import SeriesHistory

KINDS = ("comparison", "bisection")
"""Of questions that have a page."""


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
    """Kind, as in KINDS, and number."""


class PageBuilder:
    """Makes pages, in one process."""

    def __init__(
        self, source: SiteSource, ledger: Ledger, folder: Path, alerts: AlertIndex
    ) -> None:
        """Nothing is written yet.

        Args:
            source: Of all pages.
            ledger: Of the source.
            folder: In which the pages are written.
            alerts: Of the run.
        """
        self.ledger = ledger
        self.folder = folder
        self.lab = LedgerLab(source.commit_link, source.lab, source.home)
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

    def make(self, part: PagesOfTestbed) -> list[SeriesSummary]:
        """Writes the pages of a testbed; returns its series, for pages about many of them."""
        for number in part.alerts:
            self._alert(self.alerts.by_number[number])
        for kind, number in part.jobs:
            self._job(kind, number)
        trails = self.ledger.series_histories.of_scenarios(part.testbed, part.scenarios)
        return [self._series(trail) for found in trails for trail in found]

    def put(self, files: Mapping[str, str]) -> None:
        """Writes files of the site."""
        put(self.folder, files)

    def _series(self, trail: SeriesHistory) -> SeriesSummary:
        alerts = self._moved.get(trail.name, ())
        view = view_models.view_of(self.ledger, trail, self.lab, alerts, self.min_effect)
        self.put(
            {
                view.page: series_pages.page(view, [as_document(view.page)]),
                document_file(view.page): self._series_document(trail, view),
            }
        )
        return series_pages.summary(view)

    def _series_document(self, trail: SeriesHistory, view: SeriesView) -> str:
        """The same for programs, in one line: it has every boot."""
        told = document_parts.series(
            trail.name,
            (),
            (),
            conditions=view.epochs[-1].values,
            health=view.health,
            alerts=self._seen[trail.name],
            commits={},
        )
        commits = self.ledger.commits.find({one.revision for one in view.levels})
        baseline = {id(one) for one in trail.baseline}
        levels = [
            document_parts.level_line(
                one, commits[one.revision].label, baseline=id(one) in baseline
            )
            for one in view.levels
        ]
        return f"{document_parts.series_line(told, levels)}\n"

    def _alert(self, alert: Alert) -> None:
        jobs = [(kind, getattr(alert, kind)) for kind in KINDS]
        case = view_models.alert_case(self.ledger, alert, self.lab, self.alerts.now)
        document = self.documents.alert(alert.id)
        page = cases.alert(
            summary=self.lines[alert.id],
            document=document,
            case=case,
            title=self.lab.title,
            jobs=[QuestionLink(kind, number) for kind, number in jobs if number is not None],
        )
        self._case(alert_page(alert.id), page, document)
        if case is not None:
            self.put(cases.drawings(case))

    def _job(self, kind: str, number: int) -> None:
        record = self.ledger.jobs.get(number)
        case = view_models.question_case(self.ledger, record, self.lab)
        alert, file = self._by_job.get(number), question_page(kind, number)
        if isinstance(record.job, BisectJob):
            page = cases.bisection(number=number, case=case, alert=alert)
            self._case(file, page, self.documents.bisection(number))
            return
        following = [
            QuestionLink("bisection" if isinstance(one.job, BisectJob) else "comparison", one.id)
            for one in self.ledger.jobs.children(number)
        ]
        page = cases.comparison(
            number=number,
            case=case,
            alert=alert,
            finding=record.finding,
            following=next(iter(following), None),
        )
        self._case(file, page, self.documents.comparison(number))

    def _case(self, file: str, page: str, document: Document) -> None:
        """Writes a page, and the same for programs."""
        self.put({file: page, document_file(file): f"{json_schema.as_text(document)}\n"})
