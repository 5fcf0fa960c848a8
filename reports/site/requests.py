"""The pages of requests and of profiles."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.changes import BisectionDocument
from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.model.profiles import ProfilePair
from netbisect.reports.model.types import Difference, RequestDocument, RequestPart
from netbisect.reports.pages import profiles, requests
from netbisect.reports.plots import chart
from netbisect.reports.plots.figure import dots, draw, segments
from netbisect.reports.render import progress, words
from netbisect.reports.render.palette import BAD, BOOT, INK
from netbisect.reports.render.words import Name
from netbisect.reports.site.files import revision_page
from netbisect.reports.site.frame import Page, make_page

_MOODS = {"regression": "sure", "no regression": "calm"}
"""Classes of the verdict's box."""
_PICTURES_MAX = 12
"""Maximum pictures of a page."""
_TRAIL = (("requests.html", "Requests"),)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How the interval of a difference has narrowed."""

    title: str
    """Revisions, scenario and testbed."""
    effects: Sequence[Effect]
    """After two boots of each kernel, three boots, and so on; at least one."""
    margin: float
    """Smallest drop that matters, as |ln ratio|."""


@dataclass(frozen=True, slots=True)
class PartView:
    """A job of a request, with what was measured for it."""

    part: RequestPart
    boots: Sequence[ComparedScenario] = ()
    """The leading scenario first; empty for jobs with a page of their own."""
    narrowing: Sequence[Narrowing] = ()
    search: BisectionDocument | None = None


def page(found: RequestDocument, parts: Sequence[PartView], files: Sequence[str]) -> Page:
    """The page of a request, with the addresses of its values."""
    pictures = [*_factors(found), *_pictures(parts)]
    return make_page(
        "request.html",
        f"Request {found.number}: {found.kind} {requests.revisions(found.kind, found.labels)}",
        current="requests.html",
        trail=_TRAIL,
        alternates=[("application/json", "For programs", f"api/v1/requests/{found.number}")],
        changing=found.state == "open",
        found=found,
        mood=_MOODS.get(found.verdict, "open"),
        revisions=list(_revisions(found)),
        rows=requests.rows(found) if found.differences else [],
        settings=requests.setting_rows(found) if found.settings else [],
        settings_note=requests.SETTINGS_NOTE,
        remarks=[*requests.consistency(found), *found.remarks],
        hidden=[one for one in map(requests.hidden, found.differences) if one],
        parts=[(one, requests.part_line(one.part)) for one in parts],
        pictures=pictures[:_PICTURES_MAX],
        undrawn=max(len(pictures) - _PICTURES_MAX, 0),
        blocks=[progress.as_text(one.boots).rstrip() for one in parts if one.boots],
        files=files,
    )


def _revisions(found: RequestDocument) -> Iterator[tuple[str, str]]:
    """Labels and files; a revision with a patch has no file."""
    for subject, label in zip(found.subjects, found.labels, strict=True):
        yield label, "" if "+" in subject else revision_page(subject)


def _pictures(parts: Sequence[PartView]) -> Iterator[tuple[Markup, str]]:
    """Drawings with captions: what narrows first."""
    for i, one in enumerate(parts):
        if one.search is not None:
            yield chart.path(one.search), _PATH
        for j, narrowing in enumerate(one.narrowing):
            caption = f"{words.clean(narrowing.title)}. {_NARROWING}"
            yield _narrowing(narrowing, f"narrowing-{i}-{j}"), caption
        for j, scenario in enumerate(one.boots):
            caption = f"{words.clean(scenario.name)}. One mark per boot."
            title = f"{words.clean(scenario.name)} on {words.clean(scenario.testbed)}: boots so far"
            yield chart.boots(scenario, f"boots-{i}-{j}", title), caption


def _factors(found: RequestDocument) -> Iterator[tuple[Markup, str]]:
    """A drawing of the effects for each factor with settings: revisions, and settings."""
    if not found.settings:
        return
    several = len({(line.testbed, line.run) for line in found.settings}) > 1
    revisions = [(f"{line.subject}, {line.scenario}", line) for line in found.differences]
    settings = [
        (f"{line.setting}, {line.scenario}, {line.subject}", line) for line in found.settings
    ]
    for factor, lines, margin in (
        ("revisions", revisions, found.margin),
        ("settings", settings, 0.0),
    ):
        rows = [
            (f"{name}, {line.testbed} {line.run}" if several else name, line.difference)
            for name, line in lines
            if line.difference is not None
        ]
        if rows:
            yield _effects(rows, factor, margin), f"{_FACTOR}{_MARGIN if margin else '.'}"


def _effects(rows: Sequence[tuple[str, Difference]], factor: str, margin: float) -> Markup:
    """Effects with their intervals, a row each.

    `margin` is the smallest drop that matters, as |ln ratio|; 0 for no line.
    """

    def paint(axes: Axes) -> None:
        metrics = {metric_of(one.scenario) for _, one in rows}
        ends = [
            [metric_of(one.scenario).percent(ln) for ln in (one.low, one.ln_ratio, one.high)]
            for _, one in rows
        ]
        axes.axvline(0.0, color=INK, linewidth=0.8)
        if margin:
            for drop in {metric.percent(-margin) for metric in metrics}:
                axes.axvline(drop, color=BAD, linewidth=1.0, linestyle="--")
        segments(axes, ((low, y, high, y) for y, (low, _, high) in enumerate(ends)), BOOT, 2.2)
        dots(axes, [(middle, y) for y, (_, middle, _) in enumerate(ends)], INK, 5.0)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(
            range(len(rows)), [textwrap.fill(words.clean(name), 34) for name, _ in rows]
        )
        axes.set_xlabel("change, %")

    return draw(
        paint,
        0.8 + 0.45 * len(rows),
        name=f"factor-{factor}",
        title=f"Effects of the {factor}",
        text="; ".join(f"{name}: {words.change(one)}" for name, one in rows),
    )


_FACTOR = "Effects with 95 % intervals"
_MARGIN = "; the dashed line is the smallest drop that matters."
_PATH = (
    "One row per step. The darker a cell, the higher the probability of its commits before the "
    "step. A ring marks the tested revision, a cross one without a result. In an empty row, "
    "several commits or a drift are more probable."
)
_NARROWING = (
    "The difference and its 95 % interval after two boots of each kernel, three boots, and so on. "
    "The dashed line is the smallest change for the worse that matters."
)


def _narrowing(one: Narrowing, name: str) -> Markup:
    last = one.effects[-1]
    return draw(
        lambda axes: _intervals(axes, one),
        2.4,
        name=name,
        title=f"{words.clean(one.title)}: the interval as it narrows",
        text=f"After {words.count(last.bad_boots, 'boot')} of each kernel: {words.change(last)}.",
    )


def _intervals(axes: Axes, one: Narrowing) -> None:
    metric = metric_of(one.effects[0].scenario)
    boots = [effect.bad_boots for effect in one.effects]
    percents = [
        [metric.percent(ln) for ln in (effect.low, effect.ln_ratio, effect.high)]
        for effect in one.effects
    ]
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.axhline(metric.percent(-one.margin), color=BAD, linewidth=1.0, linestyle="--")
    rows = list(zip(boots, percents, strict=True))
    segments(axes, ((x, low, x, high) for x, (low, _, high) in rows), BOOT, 2.2)
    dots(axes, [(x, middle) for x, (_, middle, _) in rows], INK, 5.0)
    axes.set_xlim(min(boots) - 0.6, max(*boots, 5) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("boots of each kernel")
    axes.set_ylabel("% against the first")


def profile(number: int, title: str, found: ProfilePair | None, label: Name) -> Page:
    """The page of a profile job; no profiles while they are taken."""
    return make_page(
        "profile.html",
        f"Profile {number}: {title}",
        trail=_TRAIL,
        changing=found is None,
        profiles=profiles.sections((found,), label, profiles.BYTES_ALONE) if found else [],
    )
