"""The page of a series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from statistics import stdev
from typing import Any

from markupsafe import Markup

from netbisect.bisect.model.detection_results import LevelDifference, LevelStep
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.model.series import EpochDocument, LevelDocument, SeriesDocument
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary
from netbisect.reports.render import words
from netbisect.reports.site import plots
from netbisect.reports.site.files import LISTED, RECENT, revisions_page, series_file, testbed_page
from netbisect.reports.site.frame import Page, as_document, make_page
from netbisect.reports.site.plots import MarkedAlert

_DAY = 86400.0
_CALM = 120
"""Levels of a picture that is not crowded."""


def page(view: SeriesDocument, alerts: Sequence[MarkedAlert] = ()) -> Page:
    """The page of a series, with the alerts that moved it."""
    places = {level.revision: x for x, level in enumerate(view.levels)}
    epochs = [*view.earlier, EpochDocument(view.conditions, view.levels)]
    return make_page(
        "series.html",
        f"{view.title} on {view.testbed}, {view.branch}",
        alternates=[as_document(series_file(view))],
        trail=[("testbeds.html", "Testbeds"), (testbed_page(view.testbed), view.testbed)],
        view=view,
        revisions_page=revisions_page(view.testbed, view.branch),
        open=[one for one, _ in alerts if one.state.standing],
        past=[one for one, _ in alerts if not one.state.standing],
        label=partial(_label, view),
        ranges=list(_ranges(view, alerts)),
        history=plots.history(view, alerts),
        steps=[_step(view, one, places, alerts) for one in reversed(view.steps)],
        epochs=epochs,
        changed=[
            "",
            *(
                words.changed_conditions(one.conditions, later.conditions)
                for one, later in pairwise(epochs)
            ),
        ],
        rows=list(_rows(view)),
    )


def _ranges(
    view: SeriesDocument, alerts: Sequence[MarkedAlert]
) -> Iterator[tuple[str, Markup, bool]]:
    """Name and picture of each range but "all", and whether it is shown at first."""
    last = view.levels[-1].at
    days = {"30 days": 30.0, "a year": 365.0} if last >= words.FIRST_TIME else {"latest": math.inf}
    found: dict[str, list[LevelDocument]] = {}
    for name, most in days.items():
        levels = [one for one in view.levels[-RECENT:] if one.at > last - most * _DAY]
        if levels not in found.values():
            found[name] = levels
    shown = [name for name, levels in found.items() if len(levels) <= _CALM] or list(found)[:1]
    for number, (name, levels) in enumerate(found.items()):
        drawing = plots.recent(view, levels, alerts, f"recent-{number}")
        yield name, drawing, name == shown[-1]


def _label(view: SeriesDocument, revision: str) -> str:
    """Short name of a level."""
    labels = {one.revision: one.label for one in view.levels}
    return words.clean(labels.get(revision, revision[:HASH_LENGTH]))


def _step(
    view: SeriesDocument, step: LevelStep, places: dict[str, int], alerts: Sequence[MarkedAlert]
) -> tuple[LevelStep, LevelDocument, LevelDifference, list[AlertSummary]]:
    """The step, its first level, its size, and the alerts that it may belong to."""
    between = range(places[step.earliest], places[step.latest] + 1)
    return (
        step,
        view.levels[places[step.at]],
        LevelDifference(step.ln_ratio, step.low, step.high),
        [
            one
            for one, culprit in alerts
            if plots.first_changed(one, view.levels, culprit) in between
        ],
    )


def _scatter(level: LevelDocument, scenario: str) -> float | None:
    """Standard deviation between boots, of ln numbers; None for a single boot."""
    boots = [metric_of(scenario).level(one) for one in level.boots]
    return stdev(boots) if len(boots) > 1 else None


def _rows(view: SeriesDocument) -> Iterator[tuple[Any, ...]]:
    """The latest levels, newest first, each with estimate, scatter and distances."""
    for i in range(len(view.levels) - 1, max(len(view.levels) - LISTED, 0) - 1, -1):
        level = view.levels[i]
        yield level, view.estimates[i], _scatter(level, view.scenario), view.distances(i)
