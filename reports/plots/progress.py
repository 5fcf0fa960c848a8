"""The comparison in progress on the page of a build, as text and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN, ministat
from netbisect.reports.render.templating import environment

_SETS_MAX = 7
"""As many as ministat takes."""


@dataclass(frozen=True, slots=True)
class Side:
    """The boots of a kernel."""

    name: str
    """Label of the revision."""
    pps: tuple[float, ...]
    """One value per boot, oldest first."""


@dataclass(frozen=True, slots=True)
class ScenarioProgress:
    """A scenario of a job."""

    title: str
    """Name of the scenario for people."""
    testbed: str
    sides: Sequence[Side]
    """The good one first; none without boots."""
    series: str = ""
    """Name of the scenario's series."""


def as_text(found: Sequence[ScenarioProgress]) -> str:
    """A ministat block for every scenario, raw numbers; or why there is none."""
    return "\n\n".join(f"{words.clean(one.title)}\n{_block(one)}".rstrip() for one in found) + "\n"


def _block(one: ScenarioProgress) -> str:
    sides = one.sides[:_SETS_MAX]
    short = [side for side in sides if len(side.pps) < POINTS_MIN]
    if len(sides) > 1 and not short:
        return ministat([(words.clean(side.name), list(side.pps)) for side in sides])
    counts_of_sides = [
        f"{words.clean(side.name)}: {words.count(len(side.pps), 'boot')}" for side in sides
    ]
    counts = "; ".join(counts_of_sides) or "no boots"
    rates = [
        f"  {words.clean(side.name)}: "
        + ", ".join(words.number(rate, one.series) for rate in side.pps)
        for side in sides
    ]
    wanted = f"ministat compares two kernels with at least {POINTS_MIN} boots each"
    return "\n".join([f"{counts}; {wanted}.", *rates])


def as_page(found: Sequence[ScenarioProgress], links: Sequence[tuple[str, str]]) -> str:
    """The pictures, as a page without script.

    Args:
        found: The leading scenario first.
        links: Names and addresses of related pages.
    """
    return environment.get_template("progress.html").render(
        pictures=[boots(one, f"boots-{number}") for number, one in enumerate(found)],
        text=as_text(found),
        links=links,
    )


def boots(one: ScenarioProgress, name: str) -> Markup:
    """The boots of every kernel, side by side; SVG.

    Args:
        one: A scenario.
        name: Prefix of the ids in the element, unique in the page.
    """
    title = f"{words.clean(one.title)} on {words.clean(one.testbed)}: boots so far"
    facts = [
        f"{words.clean(side.name)}: {words.count(len(side.pps), 'boot')} from "
        f"{words.number(min(side.pps), one.series)} to {words.number(max(side.pps), one.series)}"
        for side in one.sides
    ]
    text = f"{'; '.join(facts) or 'No boots measured yet'}."
    # The master imports this module for its text, and must not load matplotlib.
    from netbisect.reports.plots.chart import notice  # noqa: PLC0415 - see above
    from netbisect.reports.plots.figure import draw  # noqa: PLC0415 - see above
    from netbisect.reports.plots.netbenches_plot import Panel, marks  # noqa: PLC0415 - see above

    if not facts:
        return Markup(notice(text))  # noqa: S704 - our own drawing
    panel = Panel(
        words.clean(one.title), [(words.clean(s.name), s.pps) for s in one.sides], one.series
    )
    height = 1.1 + 0.42 * len(one.sides)
    drawn = draw(lambda axes: marks(axes, panel), height, name=name, title=title, text=text)
    return Markup(drawn)  # noqa: S704 - our own drawing, its texts escaped
