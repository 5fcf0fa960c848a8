"""Renders the pages of series, alerts and jobs, each from the ledger alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from netbisect.bisect.model.entities import SeriesName
from netbisect.bisect.model.jobs import BisectJob
from netbisect.reports.documents import json_schema
from netbisect.reports.documents.json_schema import Document
from netbisect.reports.model.changes import BisectionDocument
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.site import changes
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.files import LISTED, alert_page, document_file, job_page, series_file
from netbisect.reports.site.frame import File
from netbisect.steps.policy.alert_actions import ACTIONS
from netbisect.steps.queries import documents, progress
from netbisect.steps.queries.changes import of_alert, of_job
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.site.folder import put
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import SeriesHistory


@dataclass(frozen=True, slots=True)
class AlertIndex:
    """The alerts at the start of a run, shared by all processes, so that their links agree."""

    by_number: Mapping[int, Alert]
    changed: Mapping[int, float]
    """By number: time of the last change, seconds since the epoch."""
    now: float
    """Time of the latest change of an alert or a night, seconds since the epoch."""

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """The alerts of a ledger."""
        changed = {number: at for number, (_, at) in ledger.alerts.change_counts().items()}
        return cls(
            {one.id: one for one in ledger.alerts.all()}, changed, _latest(ledger, changed.values())
        )


@dataclass(frozen=True, slots=True)
class PagesOfTestbed:
    """The pages of a testbed, which one process makes."""

    testbed: str
    scenarios: tuple[str, ...]
    alerts: tuple[int, ...]
    jobs: tuple[int, ...]
    """Comparisons and bisections."""


class PageBuilder:
    """Renders pages; each method returns files by name."""

    def __init__(self, lab: LabContext, ledger: Ledger, alerts: AlertIndex, url: str = "") -> None:
        """`url` is the address of the pages; "" for a folder, which may be anywhere."""
        self.ledger = ledger
        self.lab = lab
        self.documents = documents.DocumentQueries(self.ledger, self.lab, url)
        self.alerts = alerts
        self.lines = {
            number: documents.alert_summary(one, alerts.changed.get(number, 0.0), self.lab.title)
            for number, one in alerts.by_number.items()
        }
        self._moved: defaultdict[SeriesName, list[AlertSummary]] = defaultdict(list)
        self._seen: defaultdict[SeriesName, list[int]] = defaultdict(list)
        self._by_job: dict[int, AlertSummary] = {}
        for number, alert in alerts.by_number.items():
            self._note(number, alert)

    def _note(self, number: int, alert: Alert) -> None:
        """Indexes an alert by its series, newest first where they moved, and by its jobs."""
        line = self.lines[number]
        series = [
            (SeriesName(one.testbed, one.scenario, one.branch), one.moved) for one in alert.series
        ]
        for name in dict.fromkeys(name for name, moved in series if moved):
            self._moved[name].insert(0, line)
        for name in dict.fromkeys(name for name, _ in series if alert.announced_at is not None):
            self._seen[name].append(number)
        self._by_job |= {job: line for job in (alert.comparison, alert.bisection) if job}

    def make(self, part: PagesOfTestbed, folder: Path) -> list[SeriesDocument]:
        """Writes the pages of a testbed; returns its series, for pages about many of them."""
        for number in part.alerts:
            put(folder, self.alert(number).items())
        for number in part.jobs:
            put(folder, self.job(number).items())
        found = []
        for histories in self.ledger.series.histories_of(part.testbed, part.scenarios):
            for one in histories:
                document = self.document(one)
                put(folder, self.series(document).items())
                found.append(document.latest_only(LISTED))
        return found

    def document(self, history: SeriesHistory) -> SeriesDocument:
        """The document of a series."""
        return self.documents.series_of(history, self._seen[history.name])

    def series(self, document: SeriesDocument) -> dict[str, File]:
        """The page of a series and its document, which has every boot in one line."""
        alerts = self._moved.get(document.name, [])
        culprits = self.ledger.commits.find({one.culprit for one in alerts if one.culprit})
        numbers = {name: one.number for name, one in culprits.items()}
        marked = [(one, numbers.get(one.culprit)) for one in alerts]
        file = series_file(document)
        return {
            file: partial(series_pages.page, document, marked),
            document_file(file): lambda: f"{json_schema.as_line(document)}\n",
        }

    def alert(self, number: int) -> dict[str, File]:
        """The page of an alert, its document, and its flame graphs. Raises NotFoundError."""
        document = self.documents.alert(number)
        alert = self.alerts.by_number[number]
        last = alert.bisection or alert.comparison
        found = of_alert(self.lab, self.ledger, alert, self.alerts.now)
        taken = self.lab.profiles(self.ledger, self.ledger.jobs.get(last)) if last else ()
        page = partial(
            changes.alert,
            document,
            found,
            title=self.lab.title,
            taken=taken,
            verbs=[(name, one.help) for name, one in ACTIONS.items()],
        )
        drawings = changes.drawings(taken, found, number) if found else {}
        return {**_files(alert_page(number), page, document), **drawings}

    def job(self, number: int) -> dict[str, File]:
        """The page of a comparison or bisection, and its document. Raises NotFoundError."""
        alert = self._by_job.get(number)
        record = self.ledger.jobs.get(number)
        document = of_job(self.lab, self.ledger, record)
        if isinstance(document, BisectionDocument):
            page = partial(changes.bisection, document, alert, record.request)
            return _files(job_page("bisection", number), page, document)
        after = [
            ("bisection" if isinstance(one.job, BisectJob) else "comparison", one.id)
            for one in self.ledger.jobs.children(number)
        ]
        page = partial(changes.comparison, document, alert, next(iter(after), None), record.request)
        return _files(job_page("comparison", number), page, document)


def _files(file: str, page: File, document: Document) -> dict[str, File]:
    return {file: page, document_file(file): lambda: f"{json_schema.as_text(document)}\n"}


def _latest(ledger: Ledger, changes: Collection[float]) -> float:
    """Time of the latest change of an alert or a night, seconds since the epoch."""
    nights = ledger.nights.latest(progress.NIGHT_SECONDS)
    return max([*changes, *(one.closed_at or one.opened_at for one in nights)], default=0.0)
