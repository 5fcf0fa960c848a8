"""The boots of a job so far, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN, ministat

_SETS_MAX = 7
"""Limit of ministat."""


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
    """Display name of the scenario."""
    testbed: str
    sides: Sequence[Side]
    """The kernels with boots, the good one first."""
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
