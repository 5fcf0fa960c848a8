"""Revisions of a testbed side by side."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.reports.model.series import LevelDocument, SeriesDocument
from netbisect.reports.model.types import AlertSummary, RevisionDocument
from netbisect.reports.render import words
from netbisect.reports.site.files import LISTED, pair_page, testbed_page
from netbisect.reports.site.frame import Page, make_page, short_distance

_CELLS = 1200
"""Most rows of a table."""
_ROWS = 60


def page(summaries: Sequence[SeriesDocument]) -> Page:
    """The levels of one testbed and branch, a row for every revision.

    There is a series for every scenario, at least one.
    """
    first = summaries[0]
    found: dict[str, LevelDocument] = {}
    for one in summaries:
        found.update({level.revision: level for level in one.levels})
    newest = sorted(found.values(), key=lambda level: -level.number)
    rows = newest[: max(min(_ROWS, _CELLS // len(summaries)), 2)]
    places = [{level.revision: at for at, level in enumerate(one.levels)} for one in summaries]
    return make_page(
        "revisions.html",
        f"Revisions of {first.branch} on {first.testbed}",
        wide=True,
        trail=[("testbeds.html", "Testbeds"), (testbed_page(first.testbed), first.testbed)],
        columns=summaries,
        rows=[
            (
                row,
                [
                    _cell(one, of_series.get(row.revision))
                    for one, of_series in zip(summaries, places, strict=True)
                ],
            )
            for row in rows
        ],
    )


def _cell(one: SeriesDocument, at: int | None) -> dict[str, str] | None:
    if at is None:
        return None
    against, base = one.distances(at)
    clear = base is not None and base.clear
    look = ("down-text" if base.ln_ratio < 0 else "up-text") if base and clear else ""
    distances = " / ".join(short_distance(each, one.scenario) or "-" for each in (against, base))
    level = words.level(one.estimates[at].mean, one.scenario)
    return {"level": level, "distances": distances, "look": look}


def revision(
    commit: RevisionDocument,
    series: Sequence[SeriesDocument],
    alerts: Sequence[AlertSummary],
    failures: Sequence[str],
) -> Page:
    """A revision in all series that have it among their latest levels.

    `alerts` are those that name it, `failures` why it could not be measured.
    """
    rows, previous = [], ""
    for one in series:
        at = next((i for i, p in enumerate(one.levels) if p.revision == commit.revision), None)
        if at is None:
            continue
        previous = previous or (one.levels[at - 1].revision if at else "")
        rows.append((one, one.levels[at], one.estimates[at], one.distances(at)))
    return make_page(
        "revision.html",
        commit.label,
        trail=[("index.html", "Overview")],
        commit=commit,
        before=pair_page(previous, commit.revision) if previous else "",
        alerts=alerts,
        failures=failures,
        rows=rows,
        listed=LISTED,
    )
