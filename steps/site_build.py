"""Makes the pages of series, alerts and questions, each from the ledger alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import cattrs

from netbisect.bisect.model import Bisection
from netbisect.bisect.screen import MIN_EFFECT
from netbisect.reports import schema
from netbisect.reports.case import Case
from netbisect.reports.documents import Document
from netbisect.reports.site import cases
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.cases import Link
from netbisect.reports.site.frame import as_document
from netbisect.reports.site.nouns import (
    AlertLine,
    Point,
    SeriesView,
    alert_page,
    document_file,
    question_page,
)
from netbisect.steps import document_parts, documents
from netbisect.steps import site_material as material
from netbisect.steps.casefile import deeds
from netbisect.steps.site_files import mark_of, put
from netbisect.steps.site_ledger import Remembering
from netbisect.steps.site_source import Source
from netbisect.steps.site_touched import Extent, extent, followed
from netbisect.steps.surroundings import OfLedger
from netbisect.store.lookup import SeriesName
from netbisect.store.records import Alert
from netbisect.store.trails import Trail

KINDS = ("comparison", "bisection")
"""Of questions that have a page."""
COMPACT = cattrs.Converter()
"""Keeps a series in a line; its many points without names, which would be most of the file."""
COMPACT.register_unstructure_hook(Point, attrgetter(*(one.name for one in fields(Point))))
COMPACT.register_structure_hook(Point, lambda told, _: Point(*told))


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
    mark: str
    """Of what its pages were made from."""
    pages: dict[str, str] | None
    """By file: its digest; None where the mark is the one that is known."""
    series: Sequence[Any] = ()
    extent: Extent | None = None
    """Of a case."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that could be drawn."""

    file: str
    testbed: str
    told: dict[str, Any]
    """What it tells."""
    draw: Callable[..., str]
    """Makes its text from that."""


class Desk:
    """Makes pages, in one process."""

    def __init__(self, source: Source, staging: Path) -> None:
        self.ledger = Remembering.of(source.database)
        self.mark = self.ledger.mark()
        """Of the ledger, before anything was read."""
        self.lab = OfLedger(source.commit_link, source.lab, source.home)
        self.now = material.latest(self.ledger)
        self.min_effect = MIN_EFFECT if source.min_effect is None else source.min_effect
        self.documents = documents.Desk(
            self.ledger,
            commit_link=source.commit_link,
            alert_link=alert_page("{number}"),
            min_effect=self.min_effect,
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
        self._seen: defaultdict[SeriesName, list[int]] = defaultdict(list)
        for number, alert in self.alerts.items():
            for name in {SeriesName(one.testbed, one.scenario, one.branch) for one in alert.series}:
                self._seen[name].append(number)
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

    def do(self, tasks: Sequence[tuple[Task, str]]) -> list[Done]:
        """Writes the pages of tasks.

        Args:
            tasks: With the mark of each: of series, what they have; of others, what is known.
                Series are all of one testbed.
        """
        if tasks[0][0].kind != "series":
            return [self._case(task, mark) for task, mark in tasks]
        trails = self.ledger.trails_of(tasks[0][0].testbed, [task.scenario for task, _ in tasks])
        return [
            self._series(task, mark, found)
            for (task, mark), found in zip(tasks, trails, strict=True)
        ]

    def _case(self, task: Task, known: str) -> Done:
        """An alert or a question: all that its page tells is its mark."""
        page = (
            self._alert(self.alerts[task.number]) if task.kind == "alert" else self._question(task)
        )
        document = self._document(task)
        mark = mark_of((page.told, document))
        about = self._extent(task, page)
        if mark == known:
            return Done(task.key, mark, None, extent=about)
        files = {page.file: page.draw(**page.told), document_file(page.file): document}
        if task.kind == "alert" and page.told["case"] is not None:
            files |= cases.drawings(page.told["case"])
        written = {name: put(self._staging, name, text) for name, text in files.items()}
        return Done(task.key, mark, written, extent=about)

    def _extent(self, task: Task, page: _Page) -> Extent:
        """What a case is about: of an alert, also what is looked at as long as it is followed."""
        case: Case | None = page.told["case"]
        about = extent(self.ledger, case, page.testbed)
        if task.kind != "alert" or case is None:
            return about
        alert = self.alerts[task.number]
        until = material.followed_until(alert)
        if self.now < until:
            about = followed(about, case, until, files=self.lab.at_home and bool(alert.culprit))
        return replace(about, files=about.files or any(one.taken for one in case.profiles))

    def _document(self, task: Task) -> str:
        """The same for programs."""
        make: dict[str, Callable[[int], Document]] = {
            "alert": self.documents.alert,
            "comparison": self.documents.comparison,
            "bisection": self.documents.bisection,
        }
        return f"{schema.as_text(make[task.kind](task.number))}\n"

    def _series(self, task: Task, mark: str, trails: Sequence[Trail]) -> Done:
        written: dict[str, str] = {}
        told = []
        for trail in trails:
            name = (trail.name.testbed, trail.name.scenario, trail.name.branch)
            view = material.view_of(
                self.ledger,
                trail,
                self.lab,
                self._by_series.get(name, ()),
                self.min_effect,
                self.ledger.memory,
            )
            files = {
                view.page: series_pages.page(view, [as_document(view.page)]),
                document_file(view.page): self._series_document(trail, view),
            }
            written |= {file: put(self._staging, file, text) for file, text in files.items()}
            told.append(COMPACT.unstructure(series_pages.summary(view)))
        return Done(task.key, mark, written, told)

    def _series_document(self, trail: Trail, view: SeriesView) -> str:
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
        commits = self.ledger.commits({one.revision for one in view.levels})
        baseline = {id(one) for one in trail.baseline}
        levels = [
            document_parts.level_line(
                one, commits[one.revision].label, baseline=id(one) in baseline
            )
            for one in view.levels
        ]
        return f"{document_parts.series_line(told, levels)}\n"

    def _alert(self, alert: Alert) -> _Page:
        questions = [(kind, getattr(alert, kind)) for kind in KINDS]
        told = {
            "line": self.lines[alert.id],
            "case": material.alert_case(self.ledger, alert, self.lab, self.now),
            "seen": material.seen_in(alert, self.lab),
            "deeds": deeds(self.ledger, alert.id),
            "questions": [Link(kind, number) for kind, number in questions if number is not None],
        }
        return _Page(alert_page(alert.id), alert.testbed, told, cases.alert)

    def _question(self, task: Task) -> _Page:
        asked = self.ledger.question(task.number)
        told = {
            "number": task.number,
            "case": material.question_case(self.ledger, asked, self.lab),
            "alert": self.about(task.number),
        }
        place = question_page(task.kind, task.number), asked.question.testbed
        if isinstance(asked.question, Bisection):
            return _Page(*place, told, cases.bisection)
        following = [
            Link("bisection" if isinstance(one.question, Bisection) else "comparison", one.id)
            for one in self.ledger.children(task.number)
        ]
        told |= {"finding": asked.finding, "following": next(iter(following), None)}
        return _Page(*place, told, cases.comparison)
