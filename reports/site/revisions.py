"""Revisions of a testbed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netbisect.bisect.detection.level_difference import LevelDifference, level_difference
from netbisect.reports.model.types import AlertSummary, RevisionDocument
from netbisect.reports.render import words
from netbisect.reports.site.frame import Page, distance_text, make_page, short_distance
from netbisect.reports.site.view_models import (
    LISTED,
    Point,
    SeriesSummary,
    pair_page,
    revision_page,
    testbed_page,
)

_CELLS = 1200
"""Most rows of a table."""
_ROWS = 60


def page(summaries: Sequence[SeriesSummary]) -> Page:
    """The levels of one testbed and branch, a row for every revision.

    Args:
        summaries: Of all its scenarios, at least one.
    """
    first = summaries[0]
    found: dict[str, Point] = {}
    for one in summaries:
        found.update({point.revision: point for point in one.points})
    newest = sorted(found.values(), key=lambda point: -point.number)
    rows = newest[: max(min(_ROWS, _CELLS // len(summaries)), 2)]
    places = [{point.revision: at for at, point in enumerate(one.points)} for one in summaries]
    return make_page(
        "revisions.html",
        f"Revisions of {first.branch} on {first.testbed}",
        wide=True,
        trail=[("testbeds.html", "Testbeds"), (testbed_page(first.testbed), first.testbed)],
        columns=summaries,
        rows=[
            {
                "label": row.label,
                "page": revision_page(row.revision),
                "at": row.at,
                "cells": [
                    _cell(one, of_series.get(row.revision))
                    for one, of_series in zip(summaries, places, strict=True)
                ],
            }
            for row in rows
        ],
    )


def _cell(one: SeriesSummary, at: int | None) -> dict[str, str] | None:
    if at is None:
        return None
    point = one.points[at]
    against, base = _distances(one, point, one.points[at - 1] if at else None)
    clear = base is not None and base.clear
    look = ("down-text" if base.ln_ratio < 0 else "up-text") if base and clear else ""
    distances = " / ".join(short_distance(each, one.scenario) or "-" for each in (against, base))
    return {"level": words.level(point.mean, one.scenario), "distances": distances, "look": look}


def revision(
    commit: RevisionDocument, series: Sequence[SeriesSummary], alerts: Sequence[AlertSummary]
) -> Page:
    """A revision in all series that have it among their latest levels.

    Args:
        commit: The revision.
        series: All of them.
        alerts: Those that name it.
    """
    rows, previous = [], ""
    for one in series:
        at = next((i for i, p in enumerate(one.points) if p.revision == commit.revision), None)
        if at is None:
            continue
        before = one.points[at - 1] if at else None
        previous = previous or (before.revision if before else "")
        rows.append(_row(one, one.points[at], before))
    return make_page(
        "revision.html",
        commit.label,
        trail=[("index.html", "Overview")],
        commit=commit,
        before=pair_page(previous, commit.revision) if previous else "",
        alerts=alerts,
        rows=rows,
        listed=LISTED,
    )


def _row(one: SeriesSummary, point: Point, before: Point | None) -> dict[str, Any]:
    against, base = _distances(one, point, before)
    return {
        "page": one.page,
        "name": f"{one.title} on {one.testbed}, {one.branch}",
        "level": words.level(point.mean, one.scenario),
        "boots": point.boots,
        "previous": distance_text(against, one.scenario),
        "baseline": distance_text(base, one.scenario),
    }


def _distances(
    one: SeriesSummary, point: Point, before: Point | None
) -> tuple[LevelDifference | None, LevelDifference | None]:
    """Of a level to the previous one, and to the baseline."""
    against = None
    if before is not None:
        twins = before.identity == point.identity != ""
        against = level_difference(before.standing, point.standing, one.noise, twins=twins)
    base = level_difference(one.baseline, point.standing, one.noise) if one.baseline else None
    return against, base
