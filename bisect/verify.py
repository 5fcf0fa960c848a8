"""The proof before the name: culprit and parent measured against each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.compare import difference, effects, values
from netbisect.bisect.line import Line, Place
from netbisect.bisect.model import Belief, Culprit, Reading, Suspects, Unfinished, Visit
from netbisect.bisect.turns import good_is_next

SURE = 0.99
"""Chance at which a candidate, or candidates that cannot be told apart, go to the proof."""
LEAST_BOOTS = 3
"""Fresh boots on each side without which nobody is named."""
MOST_BOOTS = 10
"""Of each side, after which a proof that is still unclear has failed: enough for a drop of three
standard deviations of a boot, even when one boot of each side is an outlier."""
ALPHA = 0.01
_LEAST_SHARE = 0.5
"""Of the expected effect, by which the two sides must differ."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Candidates that no kernel between them can tell apart; mostly a single one."""

    positions: tuple[int, ...]
    chance: float
    good: Place | None
    """The last kernel before them that can be measured."""
    bad: Place | None
    """The first kernel from the last of them on that can be measured."""


def likeliest(line: Line, chances: NDArray[np.float64]) -> Stretch | None:
    """Finds the stretch with the highest chance; None when no candidate is possible.

    Args:
        line: The question and its evidence.
        chances: n + 1 values, by position.
    """
    measurable = np.flatnonzero([place is not None for place in line.at])
    candidates = np.flatnonzero(line.possible)
    if len(candidates) == 0:
        return None
    # Candidates with the same measurable neighbours are one stretch.
    after = np.searchsorted(measurable, candidates)
    best = int(np.argmax(np.bincount(after, chances[candidates])))
    positions = candidates[after == best]
    return Stretch(
        tuple(positions.tolist()),
        float(chances[positions].sum()),
        line.at[measurable[best - 1]] if best > 0 else None,
        line.at[measurable[best]] if best < len(measurable) else None,
    )


def prove(
    line: Line, stretch: Stretch, belief: Belief
) -> Visit | Culprit | Suspects | Unfinished | None:
    """Takes the next step of the proof that the culprit is in `stretch`.

    Facts do not say what they were ordered for, so the proof rests on all fresh boots of the two
    kernels: at least three of each, whose difference has a p below 1 % and is at least half the
    expected effect. While that is open, they are booted in turns, up to ten of each.

    Returns:
        A finding when it is proved, or when a side cannot be measured; None when the proof has
        failed, so that the search goes on with these boots among its facts.
    """
    if stretch.good is None or stretch.bad is None:
        end, revision = (
            ("good", line.revisions[0]) if stretch.good is None else ("bad", line.revisions[-1])
        )
        return Unfinished(f"the {end} end cannot be measured: {_trouble(line, revision)}", belief)
    good, bad = ([r for r in place.readings if r.fresh] for place in (stretch.good, stretch.bad))
    lead = line.question.lead
    sides = values(good, lead), values(bad, lead)
    boots = min(map(len, sides))
    if boots >= LEAST_BOOTS:
        effect = difference(*sides, lead)
        least = _LEAST_SHARE * abs(line.question.effect)
        sign = 1 if line.question.effect > 0 else -1
        if effect.p < ALPHA and sign * effect.ln_ratio >= least:
            return _name(line, stretch, belief, good, bad)
        if max(sign * effect.low, sign * effect.high) < least or boots >= MOST_BOOTS:
            return None
    place = stretch.good if good_is_next(*map(len, sides)) else stretch.bad
    return Visit(place.revision, _why(line, stretch), belief)


def _name(
    line: Line, stretch: Stretch, belief: Belief, good: list[Reading], bad: list[Reading]
) -> Culprit | Suspects:
    question, revisions = line.question, line.revisions
    if len(stretch.positions) == 1:
        (culprit,) = stretch.positions
        found = effects(good, bad, question.lead, question.scenarios)
        return Culprit(revisions[culprit], revisions[culprit - 1], belief, found)
    suspects = tuple(revisions[position] for position in stretch.positions)
    blocked = [name for name in suspects if line.at[revisions.index(name)] is None]
    return Suspects(
        suspects,
        belief,
        f"{len(blocked)} of them cannot be measured; "
        f"{blocked[0][:12]}: {_trouble(line, blocked[0])}",
    )


def _why(line: Line, stretch: Stretch) -> str:
    first, last = stretch.positions[0], stretch.positions[-1]
    culprit, parent = line.revisions[last][:12], line.revisions[first - 1][:12]
    if first == last:
        return f"verifies {culprit} against its parent {parent}"
    return (
        f"verifies that the change lies among {len(stretch.positions)} neighbours up to {culprit}"
    )


def _trouble(line: Line, revision: str) -> str:
    return line.evidence.skipped.get(revision, "its boots give no valid sample")
