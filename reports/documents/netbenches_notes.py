"""Remarks beside the tables of ministat: effects between boots, and outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netbisect.bisect.stats.bimodality import widest_gap
from netbisect.bisect.stats.effect import difference
from netbisect.reports.render import words

ONE_IMAGE = (
    "Every set is one kernel image. Images of equivalent code can differ by several percent "
    "because of their code layout, and more boots do not average that out: a small difference "
    "needs other images before and after that show it, too."
)


def effect(reference: Sequence[float], other: Sequence[float], confidence: float) -> str:
    """Difference of a set from the reference, with its interval: `-10.9 % (-11.7 to -10.1)`.

    Both have one value per boot, in packets per second; `confidence` is in percent.
    """
    if min(*reference, *other) <= 0:
        return "none, because a boot forwarded nothing"
    logarithms = [[math.log(rate) for rate in rates] for rates in (reference, other)]
    return words.change(difference(logarithms[0], logarithms[1], "", confidence / 100))


def oddities(name: str, pps: Sequence[float], series: str = "") -> list[str]:
    """Remarks on unusual boots of a set, one sentence each.

    `pps` has one value per boot, in the unit of the series.
    """
    dead = sum(rate <= 0 for rate in pps)
    found = [f"{name}: {words.count(dead, 'boot')} forwarded nothing."] if dead else []
    ordered = sorted(rate for rate in pps if rate > 0)
    gap = widest_gap([math.log(rate) for rate in ordered])
    if gap is None:
        return found
    apart = words.percent(gap.ln_ratio).lstrip("+")
    boots = len(ordered)
    if min(gap.slow, gap.fast) == 1:
        below = gap.slow == 1
        size = words.percent(-gap.ln_ratio if below else gap.ln_ratio).lstrip("+-")
        found.append(
            f"{name}: one of {boots} boots is {size} {'below' if below else 'above'} the others; "
            "an outlier moves the mean and widens ministat's interval."
        )
    else:
        found.append(
            f"{name}: the boots are of two kinds, {gap.slow} near "
            f"{words.number(ordered[gap.slow // 2], series)} and {gap.fast} near "
            f"{words.number(ordered[gap.slow + gap.fast // 2], series)}, {apart} apart; their mean "
            "mostly shows the share of either kind."
        )
    return found
