"""Revisions of a testbed side by side."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from netbisect.bisect.detection.level_difference import level_difference
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment
from netbisect.reports.site.frame import rate, render, short_distance
from netbisect.reports.site.view_models import Point, SeriesSummary, testbed_page

_CELLS = 1200
"""Most rows of a table."""
_ROWS = 60


def page(summaries: Sequence[SeriesSummary]) -> str:
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
    script = environment.get_template("site/revisions.js").render()
    return render(
        "revisions.html",
        f"Revisions of {first.branch} on {first.testbed}",
        wide=True,
        testbed=first.testbed,
        testbed_page=testbed_page(first.testbed),
        hardware=first.hardware,
        columns=summaries,
        rows=[
            {
                "label": row.label,
                "at": row.at,
                "cells": [
                    _cell(one, of_series.get(row.revision))
                    for one, of_series in zip(summaries, places, strict=True)
                ],
            }
            for row in rows
        ],
        data=_data(summaries, places, rows),
        script=Markup(script),  # noqa: S704 - our own
        digest=_digest(script),
    )


def _digest(script: str) -> Markup:
    """Hash of the script for the Content-Security-Policy."""
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Markup(f"sha256-{hashed}")  # noqa: S704 - letters and digits


def _cell(one: SeriesSummary, at: int | None) -> dict[str, str] | None:
    if at is None:
        return None
    point = one.points[at]
    before = one.points[at - 1] if at else None
    against = None
    if before is not None:
        twins = before.identity == point.identity != ""
        against = level_difference(before.standing, point.standing, one.noise, twins=twins)
    base = level_difference(one.baseline, point.standing, one.noise) if one.baseline else None
    clear = base is not None and base.clear
    look = ("down-text" if base.ln_ratio < 0 else "up-text") if base and clear else ""
    said = " / ".join(short_distance(each) or "-" for each in (against, base))
    return {"level": rate(point.mean), "said": said, "look": look}


def _data(
    summaries: Sequence[SeriesSummary], places: Sequence[dict[str, int]], rows: Sequence[Point]
) -> Markup:
    """Data of the script as JSON that is safe in HTML."""

    def level(one: SeriesSummary, at: int | None) -> list[Any] | None:
        if at is None:
            return None
        point = one.points[at]
        return [round(point.mean, 6), float(f"{point.variance:.4g}"), point.identity]

    data = {
        "scenarios": [
            {"title": words.clean(one.title), "image": float(f"{one.image_noise:.4g}")}
            for one in summaries
        ],
        "rows": [
            {
                "label": words.clean(row.label),
                "levels": [
                    level(one, of_series.get(row.revision))
                    for one, of_series in zip(summaries, places, strict=True)
                ],
            }
            for row in rows
        ],
    }
    text = json.dumps(data, separators=(",", ":"))
    # No text in it can end the element: what begins a tag is written as JSON's own escape.
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - see above
