"""Reimplementations of the detection rules of other tools, for one series.

A rule gets the boots of all nights since the start of the series or its last alert, and returns the
first slower night or None. Rules do not retest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from benchmarks.detection.lab import Floats

Rule = Callable[[Sequence[Floats]], int | None]

_TWO_PERCENT = math.log(0.98)


def ministat(nights: Sequence[Floats]) -> int | None:
    """Student's pooled t test of the last two nights, like `ministat` at 95 %."""
    if len(nights) < 2:
        return None
    before, after = nights[-2], nights[-1]
    lower = after.mean() < before.mean()
    return len(nights) - 1 if lower and stats.ttest_ind(before, after).pvalue < 0.05 else None


def ministat_two_percent(nights: Sequence[Floats]) -> int | None:
    """The same for drops of at least 2 %."""
    found = ministat(nights)
    if found is None or nights[-1].mean() - nights[-2].mean() > _TWO_PERCENT:
        return None
    return found


def perfherder(nights: Sequence[Floats]) -> int | None:
    """Mozilla's rule: weighted t above 7 between 12 nights and the 12 to 24 nights before."""
    fore, least, most = 12, 12, 24
    if len(nights) < fore + least:
        return None
    y = np.array([np.median(night) for night in nights])
    at = len(y) - fore
    before, after = y[max(0, at - most) : at][::-1], y[at:]
    sides = []
    for side in (before, after):
        weight = np.linspace(1, 1 / len(side), len(side))
        mean = float(np.average(side, weights=weight))
        variance = float(np.average((side - mean) ** 2, weights=weight)) * len(side)
        sides.append((mean, variance / max(len(side) - 1, 1) / len(side)))
    (good, one), (bad, other) = sides
    return at if good - bad > 7 * math.sqrt(one + other) and bad - good <= _TWO_PERCENT else None


def pelt_cuts(y: Floats) -> list[int]:
    """PELT of ruptures: cost l2, penalty 6 sd² ln n, sd from first differences; the end is last."""
    import ruptures  # noqa: PLC0415 - has no release for Python 3.14

    sd = float(np.median(np.abs(np.diff(y)))) / 0.6745 / math.sqrt(2)
    search = ruptures.KernelCPD(kernel="linear", min_size=3).fit(y[:, None])
    return [int(cut) for cut in search.predict(pen=6 * max(sd, 1e-4) ** 2 * math.log(len(y)))]


def pelt(nights: Sequence[Floats]) -> int | None:
    """The last cut of PELT on medians."""
    if len(nights) < 6:
        return None
    y = np.array([np.median(night) for night in nights])
    return _last_drop(y, pelt_cuts(y)[:-1])


def e_divisive(nights: Sequence[Floats]) -> int | None:
    """Otava's rule: energy distance on the last 50 medians, cuts with p <= 0.001 of a t test."""
    y = np.array([np.median(night) for night in nights])
    skipped = max(0, len(y) - 50)
    cuts: list[int] = []
    _divide(y[skipped:], 0, cuts)
    return _last_drop(y, sorted(skipped + cut for cut in cuts))


def _divide(y: Floats, offset: int, cuts: list[int]) -> None:
    if len(y) < 4:
        return
    cut = _energy_cut(y)
    before, after = y[:cut], y[cut:]
    p = stats.ttest_ind_from_stats(
        before.mean(), before.std(), len(before), after.mean(), after.std(), len(after)
    ).pvalue
    if not p <= 0.001:
        return
    cuts.append(offset + cut)
    _divide(before, offset, cuts)
    _divide(after, offset + cut, cuts)


def _energy_cut(y: Floats) -> int:
    """The cut of largest energy distance (Matteson and James, JASA 109, 2014, equation 7)."""
    distances = np.abs(y[:, None] - y[None, :])
    inside = np.cumsum(np.cumsum(distances, axis=0), axis=1)
    n = len(y)
    at = np.arange(2, n - 1)
    left, whole = inside[at - 1, at - 1], inside[-1, -1]
    across = inside[at - 1, -1] - left
    right = whole - left - 2 * across
    m = n - at
    energy = 2 * across / (at * m) - left / at**2 - right / m**2
    return int(at[np.argmax(energy * at * m / n)])


def _last_drop(y: Floats, cuts: Sequence[int]) -> int | None:
    """The last cut, if it is a drop of at least 2 %."""
    if not cuts:
        return None
    start = cuts[-2] if len(cuts) > 1 else 0
    drop = float(np.mean(y[cuts[-1] :]) - np.mean(y[start : cuts[-1]]))
    return cuts[-1] if drop <= _TWO_PERCENT else None


RULES: dict[str, Rule] = {
    "ministat 95 % (rule)": ministat,
    "ministat 95 % and 2 % (rule)": ministat_two_percent,
    "Perfherder (rule)": perfherder,
    "E-divisive, Otava (rule)": e_divisive,
    "PELT (ruptures)": pelt,
}
