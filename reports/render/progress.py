"""The boots of a job so far, as text."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN, SETS_MAX, ministat


def as_text(found: Sequence[ComparedScenario]) -> str:
    """A ministat block for every scenario, raw numbers; or why there is none."""
    return "\n\n".join(f"{words.clean(one.name)}\n{_block(one)}".rstrip() for one in found) + "\n"


def _block(one: ComparedScenario) -> str:
    sides = one.sets[:SETS_MAX]
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
