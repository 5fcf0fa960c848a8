"""Makes the pages of series, alerts and questions, each from the ledger alone."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import cattrs

from netbisect.bisect.model import Bisection
from netbisect.bisect.screen import MIN_EFFECT
from netbisect.reports import schema
from netbisect.reports.documents import Document
from netbisect.reports.site import cases
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.cases import Link
from netbisect.reports.site.nouns import AlertLine, Point, alert_page, document_file, question_page
from netbisect.steps import documents
from netbisect.steps import site_material as material
from netbisect.steps.casefile import deeds
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import Settings
from netbisect.steps.site_files import put
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert
from netbisect.workers.lab import Lab

_FORMAT = "2"
"""Of the pages: another one makes all of them anew."""
KINDS = ("comparison", "bisection")
"""Of questions that have a page."""
COMPACT = cattrs.Converter()
"""Keeps a series in a line; its many points without names, which would be most of the file."""
COMPACT.register_unstructure_hook(Point, astuple)
COMPACT.register_structure_hook(Point, lambda told, _: Point(*told))


@dataclass(frozen=True)
class Source:
    """Where the site comes from."""

    database: str
    commit_link: str = ""
    lab: Lab | None = None
    min_effect: float = MIN_EFFECT
    home: Settings | None = None
    """Of the service, where its folders are there."""

    def digest(self) -> str:
        """Of all but the database."""
        told = repr((_FORMAT, self.commit_link, self.lab, self.min_effect, self.home))
        return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Task:
    """Pages that are made from the same inputs."""

    kind: str
    """`series`, `alert`, or the kind of a question."""
    testbed: str = ""
    scenario: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        """Its name in the manifest."""
        return f"{self.kind}\n{self.testbed}\n{self.scenario}\n{self.number}"


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a task."""

    key: str
    pages: dict[str, str]
    series: list[Any]


class Desk:
    """Makes pages, in one process."""

    def __init__(self, source: Source, staging: Path, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or open_ledger(source.database)
        self.lab = OfLedger(source.commit_link, source.lab, source.home)
        self.now = material.latest(self.ledger)
        self._source = source
        self.documents = documents.Desk(
            self.ledger,
            commit_link=source.commit_link,
            alert_link=alert_page("{number}"),
            min_effect=source.min_effect,
        )
        self._staging = staging
        news = self.ledger.alert_news()
        self.alerts = {one.id: one for one in self.ledger.alerts()}
        self.lines = {
            number: material.alert_line(one, self.lab, news.get(number, (0, 0.0))[1])
            for number, one in self.alerts.items()
        }
        self._by_series: defaultdict[tuple[str, str, str], list[AlertLine]] = defaultdict(list)
        for number, alert in reversed(self.alerts.items()):
            for place in dict.fromkeys(
                (one.testbed, one.scenario, one.branch) for one in alert.series if one.moved
            ):
                self._by_series[place].append(self.lines[number])
        self._by_question = {
            question: self.lines[number]
            for number, alert in self.alerts.items()
            for question in (alert.comparison, alert.bisection)
            if question is not None
        }

    def touching(self, testbed: str, scenario: str) -> list[AlertLine]:
        """The alerts that moved a series of this testbed and scenario."""
        return [
            line
            for (bed, name, _), lines in self._by_series.items()
            if (bed, name) == (testbed, scenario)
            for line in lines
        ]

    def about(self, question: int) -> AlertLine | None:
        """The alert that a question was asked for."""
        return self._by_question.get(question)

    def do(self, task: Task) -> Done:
        """Writes the pages of a task."""
        if task.kind == "series":
            return self._series(task)
        if task.kind == "alert":
            name, (text, beside) = alert_page(task.number), self._alert(self.alerts[task.number])
        else:
            name, text = question_page(task.kind, task.number), self._question(task)
            beside = {}
        files = {name: text, document_file(name): self._document(task), **beside}
        return Done(
            task.key, {file: put(self._staging, file, told) for file, told in files.items()}, []
        )

    def _document(self, task: Task) -> str:
        """The same for programs."""
        make: dict[str, Callable[[int], Document]] = {
            "alert": self.documents.alert,
            "comparison": self.documents.comparison,
            "bisection": self.documents.bisection,
        }
        return f"{schema.as_text(make[task.kind](task.number))}\n"

    def _series(self, task: Task) -> Done:
        written, told = {}, []
        for trail in self.ledger.trails(task.testbed, task.scenario):
            name = (trail.name.testbed, trail.name.scenario, trail.name.branch)
            view = material.view_of(
                self.ledger, trail, self.lab, self._by_series.get(name, ()), self._source.min_effect
            )
            written[view.page] = put(self._staging, view.page, series_pages.page(view))
            told.append(COMPACT.unstructure(series_pages.summary(view)))
        return Done(task.key, written, told)

    def _alert(self, alert: Alert) -> tuple[str, dict[str, str]]:
        """The page, and the files beside it."""
        questions = [(kind, getattr(alert, kind)) for kind in KINDS]
        case = material.alert_case(self.ledger, alert, self.lab, self.now)
        page = cases.alert(
            self.lines[alert.id],
            case,
            seen=material.seen_in(alert, self.lab),
            deeds=deeds(self.ledger, alert.id),
            questions=[Link(kind, number) for kind, number in questions if number is not None],
        )
        return page, cases.drawings(case) if case else {}

    def _question(self, task: Task) -> str:
        asked = self.ledger.question(task.number)
        case = material.question_case(self.ledger, asked, self.lab)
        if isinstance(asked.question, Bisection):
            return cases.bisection(task.number, case, self.about(task.number))
        following = [
            Link("bisection" if isinstance(one.question, Bisection) else "comparison", one.id)
            for one in self.ledger.children(task.number)
        ]
        return cases.comparison(
            task.number,
            case,
            asked.finding,
            alert=self.about(task.number),
            following=next(iter(following), None),
        )
