"""What a build's page tells: the comparison so far, as ministat has it and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from netbisect.reports import words
from netbisect.reports.drawing import notice
from netbisect.reports.ministat import POINTS_MIN, ministat
from netbisect.reports.templating import environment

_SETS_MAX = 7
"""As many as ministat takes."""


@dataclass(frozen=True, slots=True)
class Side:
    """The boots of a kernel."""

    name: str
    """Of the revision, for people."""
    pps: tuple[float, ...]
    """One value per boot, oldest first."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """A scenario of a question that is being measured, or was."""

    title: str
    """Name of the scenario for people."""
    testbed: str
    sides: Sequence[Side]
    """The good one first; none without boots."""


def as_text(found: Sequence[SoFar]) -> str:
    """A ministat block for every scenario, raw pps; or why there is none."""
    return "\n\n".join(f"{words.clean(one.title)}\n{_block(one)}".rstrip() for one in found) + "\n"


def _block(one: SoFar) -> str:
    sides = one.sides[:_SETS_MAX]
    short = [side for side in sides if len(side.pps) < POINTS_MIN]
    if len(sides) > 1 and not short:
        return ministat([(words.clean(side.name), list(side.pps)) for side in sides])
    told = [f"{words.clean(side.name)}: {words.count(len(side.pps), 'boot')}" for side in sides]
    counts = "; ".join(told) or "no boots"
    rates = [
        f"  {words.clean(side.name)}: {', '.join(words.pps(rate) for rate in side.pps)}"
        for side in sides
    ]
    wanted = f"ministat compares two kernels with at least {POINTS_MIN} boots each"
    return "\n".join([f"{counts}; {wanted}.", *rates])


def as_page(found: Sequence[SoFar], links: Sequence[tuple[str, str]]) -> str:
    """The pictures, as a page without script.

    Args:
        found: The leading scenario first.
        links: What else there is to see, and where.
    """
    return environment.get_template("sofar.html").render(
        pictures=[_picture(one, number) for number, one in enumerate(found)],
        text=as_text(found),
        links=links,
    )


def _picture(one: SoFar, number: int) -> Markup:
    title = f"{words.clean(one.title)} on {words.clean(one.testbed)}: boots so far"
    told = [
        f"{words.clean(side.name)}: {words.count(len(side.pps), 'boot')} from "
        f"{words.pps(min(side.pps))} to {words.pps(max(side.pps))}"
        for side in one.sides
    ]
    name, text = f"boots-{number}", f"{'; '.join(told) or 'No boot has been measured yet'}."
    if not told:
        return Markup(notice(text, name=name, title=title))  # noqa: S704 - our own drawing
    # What draws takes long to load, and the master would have it in memory for nothing else.
    from netbisect.reports.canvas import draw  # noqa: PLC0415 - see above
    from netbisect.reports.netbenches_plot import Panel, marks  # noqa: PLC0415 - see above

    panel = Panel(words.clean(one.title), [(words.clean(s.name), s.pps) for s in one.sides])
    height = 1.1 + 0.42 * len(one.sides)
    drawn = draw(lambda axes: marks(axes, panel), height, name=name, title=title, text=text)
    return Markup(drawn)  # noqa: S704 - our own drawing, its texts escaped
