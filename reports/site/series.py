"""The page of a series, and the series in a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from netbisect.bisect.detection.level_difference import LevelDifference, level_difference
from netbisect.bisect.model.entities import Level
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.render import words
from netbisect.reports.site import plots
from netbisect.reports.site.frame import AlternateForm, Page, distance_text, drop, make_page, spread
from netbisect.reports.site.view_models import (
    LISTED,
    RECENT,
    TIMES,
    Point,
    SeriesEpoch,
    SeriesSummary,
    SeriesView,
    revisions_page,
    testbed_page,
    when,
)

_DAY = 86400.0
_CALM = 120
"""Levels of a picture that is not crowded."""
_ENOUGH = 2
"""Boots that have a spread."""
_IDENTITY = 8
"""Letters that tell images of one series apart."""


def page(view: SeriesView, alternates: Sequence[AlternateForm] = ()) -> Page:
    """The page of a series."""
    places = {level.revision: x for x, level in enumerate(view.levels)}
    return make_page(
        "series.html",
        f"{view.title} on {view.testbed}, {view.branch}",
        alternates=alternates,
        trail=[("testbeds.html", "Testbeds"), (testbed_page(view.testbed), view.testbed)],
        view=view,
        revisions_page=revisions_page(view.testbed, view.branch),
        open=[one for one in view.alerts if one.state.standing],
        past=[one for one in view.alerts if not one.state.standing],
        facts=list(_facts(view)),
        ranges=list(_ranges(view)),
        history=Markup(plots.history(view)),  # noqa: S704 - our own drawing, its texts escaped
        steps=[_step(view, i, places) for i in range(len(view.steps) - 1, -1, -1)],
        least=drop(view.least),
        epochs=list(_epochs(view.epochs)),
        rows=list(_rows(view)),
        conditions=view.epochs[-1].values,
    )


def summary(view: SeriesView) -> SeriesSummary:
    """The series in a line."""
    numbers = range(max(len(view.levels) - LISTED, 0), len(view.levels))
    standings = view.standings
    return SeriesSummary(
        testbed=view.testbed,
        scenario=view.scenario,
        branch=view.branch,
        title=view.title,
        hardware=view.hardware,
        points=[
            Point(
                number=view.numbers.get(level.revision, 0),
                revision=level.revision,
                label=view.label(level.revision),
                at=level.at,
                mean=standings[i].mean,
                variance=standings[i].variance,
                boots=len(level.ln_pps),
                identity=level.identity[-_IDENTITY:],
            )
            for i, level in ((i, view.levels[i]) for i in numbers)
        ],
        levels=len(view.levels),
        boots=sum(len(level.ln_pps) for level in view.levels),
        baseline=view.baseline,
        against=level_difference(view.baseline, standings[-1], view.noise)
        if view.baseline
        else None,
        image_noise=view.noise.image,
        boot_noise=view.noise.boot,
        smallest_drop=view.health.smallest_drop,
        smallest_lasting_drop=view.health.smallest_lasting_drop,
        saturated=view.health.saturated,
        bimodal=view.health.modes is not None,
        spark=plots.spark([one.mean for one in standings[-plots.SPARK :]]),
    )


def _ranges(view: SeriesView) -> Iterator[tuple[str, Markup, bool]]:
    """Name and picture of each range but "all", and whether it is shown at first."""
    last = view.levels[-1].at
    days = {"30 days": 30.0, "a year": 365.0} if last >= TIMES else {"latest": math.inf}
    found: dict[str, list[Level]] = {}
    for name, most in days.items():
        levels = [one for one in view.levels[-RECENT:] if one.at > last - most * _DAY]
        if levels not in found.values():
            found[name] = levels
    shown = [name for name, levels in found.items() if len(levels) <= _CALM] or list(found)[:1]
    for number, (name, levels) in enumerate(found.items()):
        drawn = Markup(plots.recent(view, levels, f"recent-{number}"))  # noqa: S704 - as above
        yield name, drawn, name == shown[-1]


def _facts(view: SeriesView) -> Iterator[tuple[str, str, str]]:
    """Name, value and remark."""
    latest, level, health = view.levels[-1], view.standings[-1], view.health
    boots = words.count(len(latest.ln_pps), "boot")
    yield (
        "Latest level",
        words.level(level.mean, view.scenario),
        f"{view.label(latest.revision)}, {boots}, {when(latest.at)}",
    )
    if view.baseline:
        images = words.count(view.baselined, "kernel")
        distance = distance_text(level_difference(view.baseline, level, view.noise), view.scenario)
        since = view.label(view.baseline_from)
        yield (
            "Against baseline",
            distance,
            f"{words.level(view.baseline.mean, view.scenario)}, {images} since {since}",
        )
    else:
        yield "Against baseline", "learning", "no earlier level since the last change"
    if health.smallest_drop is not None:
        lasting = drop(health.smallest_lasting_drop)
        more = f"{lasting} by five nights together" if lasting else ""
        yield "Smallest drop one night shows", drop(health.smallest_drop), more
    elif health.saturated:
        yield "Smallest drop one night shows", "none", "the generator sends no more"
    noise = f"images: {spread(health.image_noise)}" if health.image_noise is not None else ""
    yield "Noise between boots", spread(health.boot_noise), noise
    if health.modes:
        share = f"{100 * health.modes.share:.0f} % of the boots"
        yield "Slow mode", f"{drop(health.modes.gap)} slower", share
    else:
        yield "Modes", "one", "no slow mode is seen"
    if health.drift:
        since = f"since {view.label(health.drift.best)}"
        yield "Drift", words.percent(health.drift.ln_ratio, view.scenario), since
    total = sum(len(one.ln_pps) for one in view.levels)
    yield "Measured", words.count(len(view.levels), "kernel"), words.count(total, "boot")


def _step(view: SeriesView, number: int, places: dict[str, int]) -> dict[str, Any]:
    step = view.steps[number]
    start, stop = places[step.earliest], places[step.latest]
    shift = LevelDifference(step.ln_ratio, step.low, step.high)
    return {
        "before": step.before,
        "before_label": view.label(step.before),
        "at": step.at,
        "at_label": view.label(step.at),
        "when": when(view.levels[places[step.at]].at),
        "change": distance_text(shift, view.scenario),
        "score": f"{step.score:.1f}",
        "levels_before": step.levels_before,
        "levels_after": step.levels_after,
        "alerts": [one for one in view.alerts if _first(view, one) in range(start, stop + 1)],
    }


def _first(view: SeriesView, alert: AlertSummary) -> int | None:
    """Place of the first level with the change of an alert."""
    culprit = view.commits.get(alert.culprit)
    return plots.first_changed(alert, view.levels, view.numbers, culprit)


def _epochs(epochs: Sequence[SeriesEpoch]) -> Iterator[dict[str, Any]]:
    before: SeriesEpoch | None = None
    for epoch in epochs:
        times = [level.at for level in epoch.levels]
        yield {
            "first": min(times),
            "last": max(times),
            "kernels": len(epoch.levels),
            "changed": _changed(before, epoch),
        }
        before = epoch


def _changed(before: SeriesEpoch | None, epoch: SeriesEpoch) -> str:
    if before is None:
        return ""
    return words.changed_conditions(before.values, epoch.values)


def _scatter(level: Level) -> float:
    """Standard deviation of two boots or more; not as exact as that of `statistics`, but quick."""
    mean = level.mean
    squares = math.fsum([(one - mean) ** 2 for one in level.ln_pps])
    return math.sqrt(squares / (len(level.ln_pps) - 1))


def _rows(view: SeriesView) -> Iterator[dict[str, Any]]:
    """The latest levels, the newest first."""
    for i in range(len(view.levels) - 1, max(len(view.levels) - LISTED, 0) - 1, -1):
        level, standing = view.levels[i], view.standings[i]
        before = view.standings[i - 1] if i else None
        twins = bool(i) and level.identity == view.levels[i - 1].identity != ""
        many = len(level.ln_pps) >= _ENOUGH
        yield {
            "revision": level.revision,
            "label": view.label(level.revision),
            "at": level.at,
            "boots": len(level.ln_pps),
            "level": words.level(standing.mean, view.scenario),
            "saturated": level.saturated,
            "scatter": spread(_scatter(level)) if many else "",
            "previous": distance_text(
                level_difference(before, standing, view.noise, twins=twins), view.scenario
            )
            if before
            else "",
            "baseline": distance_text(
                level_difference(view.baseline, standing, view.noise), view.scenario
            )
            if view.baseline
            else "",
        }
