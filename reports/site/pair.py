"""Any two revisions, in every series that has both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from netbisect.bisect.detection.level_difference import LevelEstimate, level_difference
from netbisect.bisect.model.detection_results import LevelDifference
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import RevisionDocument
from netbisect.reports.plots.figure import draw
from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN, ministat
from netbisect.reports.render.palette import BAD, BOOT, GOOD, INK
from netbisect.reports.site.frame import Page, make_page

_PICTURED = 40
"""Series in a picture."""


@dataclass(frozen=True, slots=True)
class SeriesPair:
    """A series that has both revisions."""

    series: SeriesDocument
    before: Level
    after: Level
    estimates: tuple[LevelEstimate, LevelEstimate]

    @property
    def distance(self) -> LevelDifference:
        """How far the second lies from the first."""
        same_image = self.before.identity == self.after.identity != ""
        return level_difference(*self.estimates, self.series.noise, same_image=same_image)


def pair(before: RevisionDocument, after: RevisionDocument, series: Sequence[SeriesPair]) -> Page:
    """Two revisions in every series that has both."""
    found = sorted(series, key=lambda one: -abs(one.distance.ln_ratio))
    labels = words.clean(before.label), words.clean(after.label)
    clear = [one for one in found if one.distance.clear]
    synthesis = (
        f"Both revisions were measured in {words.count(len(found), 'series')}; in {len(clear)} of "
        "them the change exceeds the noise of boots and images."
        if found
        else "No series has valid boots of both revisions under the same conditions."
    )
    if len({metric_of(one.series.scenario) for one in found}) == 1:
        mean = math.fsum(one.distance.ln_ratio for one in found) / len(found)
        change = words.percent(mean, found[0].series.scenario)
        synthesis += f" Geometric mean of all changes: {change}."
    return make_page(
        "pair.html",
        f"{labels[1]} against {labels[0]}",
        sides=[("before", before), ("after", after)],
        synthesis=synthesis,
        pairs=found,
        picture=_picture(found) if found else "",
        block=_ministat(found[0], labels) if found else "",
    )


def _ministat(one: SeriesPair, labels: tuple[str, str]) -> str:
    sides = [
        [metric_of(one.series.scenario).number(ln) for ln in level.ln_pps]
        for level in (one.before, one.after)
    ]
    if min(map(len, sides)) < POINTS_MIN:
        return ""
    return ministat(list(zip(labels, sides, strict=True)))


def _picture(found: Sequence[SeriesPair]) -> Markup:
    shown = found[:_PICTURED]
    text = f"{words.count(len(shown), 'change')}, see the table."
    height = 0.7 + 0.19 * len(shown)
    return draw(
        lambda axes: _paint(axes, shown), height, name="changes", title="Changes", text=text
    )


def _paint(axes: Axes, shown: Sequence[SeriesPair]) -> None:
    for y, one in enumerate(shown):
        its = one.distance
        colour = (BAD if its.ln_ratio < 0 else GOOD) if its.clear else BOOT
        percent = metric_of(one.series.scenario).percent
        ends = [percent(ln) for ln in (its.low, its.high)]
        axes.plot(ends, [y, y], color=colour, linewidth=1.4)
        axes.plot([percent(its.ln_ratio)], [y], "o", color=colour, markersize=4)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.yaxis.set_major_locator(FixedLocator(list(range(len(shown)))))
    axes.set_yticklabels(
        [words.clean(f"{one.series.title}, {one.series.testbed}")[:48] for one in shown]
    )
    axes.set_xlabel("change, %")
