"""The proof before the name: culprit and parent measured against each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect import layouts
from netbisect.bisect.compare import Known, difference, effects, sides
from netbisect.bisect.levels import LEAST_BOOT_SD
from netbisect.bisect.line import Line, Place, testbed_of
from netbisect.bisect.meanwhile import QUIET, Meanwhile, Wait
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Culprit,
    Effect,
    Noise,
    Reading,
    Suspects,
    Unfinished,
    Visit,
)
from netbisect.bisect.turns import good_is_next

SURE = 0.99
"""Chance at which a candidate, or candidates that cannot be told apart, are named when proved."""
HELD = 0.95
"""Chance of a range that is given because the offsets of kernels hide which of a few it is."""
SUSPECTED = 0.8
"""Chance at which the proof begins: its boots have to be made, and they tell as much as others."""
LEAST_BOOTS = 3
"""Fresh boots on each side without which nobody is named."""
ALPHA = 0.01
RUNS = (1, 2, 4, 8, 12)
"""Runs of a boot that are thought of."""
_MOST_BOOTS = 10
"""Of each side, after which a proof that is still unclear has failed: enough for a drop of three
standard deviations of a boot, even when one boot of each side is an outlier."""
_LEAST_SHARE, _LEAST_PART = 0.5, 0.2
"""Of the expected effect, by which the two sides must differ; less if two commits share it."""
_KNOWN_WEIGHT = 4.0
"""Degrees of freedom that the noise of the question counts for, on each side."""
_CLEAR = 4.0
"""Standard deviations of the mean of a boot's runs that the effect should be."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Candidates that no kernel between them can tell apart; mostly a single one."""

    positions: tuple[int, ...]
    chance: float
    good: Place | None
    """The last kernel before them that can be measured."""
    bad: Place | None
    """The first kernel from the last of them on that can be measured."""


def stretches(line: Line, chances: NDArray[np.float64], count: int) -> list[Stretch]:
    """Finds the stretches with the highest chances, the highest first.

    Args:
        line: The question and its evidence.
        chances: n + 1 values, by position.
        count: Of stretches, at most.
    """
    measurable = np.flatnonzero([place is not None for place in line.at])
    candidates = np.flatnonzero(line.possible)
    if len(candidates) == 0:
        return []
    # Candidates with the same measurable neighbours are one stretch.
    after = np.searchsorted(measurable, candidates)
    sums = np.bincount(after, chances[candidates])
    found = []
    for best in np.argsort(-sums, kind="stable")[:count].tolist():
        positions = candidates[after == best]
        if len(positions):
            found.append(
                Stretch(
                    tuple(positions.tolist()),
                    float(chances[positions].sum()),
                    line.at[measurable[best - 1]] if best > 0 else None,
                    line.at[measurable[best]] if best < len(measurable) else None,
                )
            )
    return found


def most_boots(question: Bisection) -> int:
    """Fresh boots of each side that a proof may take: more where the noise hides the effect."""
    ratio = question.noise.variance_of_boot(RUNS[-1]) / question.effect**2
    return max(_MOST_BOOTS, math.ceil(min(40 * ratio, 120)))


def runs_of_proof(noise: Noise, effect: float, clear: float = _CLEAR) -> int:
    """Runs of a boot after which its own scatter is small beside the effect."""
    if not noise.run:
        return 1
    wanted = max(abs(effect) / clear, noise.boot)
    return next((runs for runs in RUNS if noise.run / math.sqrt(runs) <= wanted), RUNS[-1])


def prove(
    line: Line,
    stretch: Stretch,
    belief: Belief,
    meanwhile: Meanwhile = QUIET,
    other: Stretch | None = None,
) -> Visit | Culprit | Suspects | Unfinished | Wait | None:
    """Takes the next step of the proof that a culprit is in `stretch`.

    Facts do not say what they were ordered for, so the proof rests on all fresh boots of the two
    kernels: at least three of each, whose difference has a p below 1 % and is at least half the
    expected effect. While that is open, they are booted in turns, up to ten of each. Where images
    have offsets, the neighbours on both sides are held against each other too; or, where the lab
    can link a revision in other layouts, culprit and parent themselves, by the means over as many
    layouts as it takes. Boots of several testbeds count together, each held against those of its
    own.

    Args:
        line: The question and its evidence.
        stretch: Where the culprit is said to be.
        belief: What is held to be true.
        meanwhile: What goes on elsewhere.
        other: Where another step is, which the neighbours that are held against each other must
            not lie beyond.

    Returns:
        A finding when it is proved, or when a side cannot be measured; to wait when the boots that
        are under way may be enough; None when the proof has failed, so that the search goes on
        with these boots among its facts.
    """
    if stretch.good is None or stretch.bad is None:
        end, revision = (
            ("good", line.revisions[0]) if stretch.good is None else ("bad", line.revisions[-1])
        )
        return Unfinished(f"the {end} end cannot be measured: {_trouble(line, revision)}", belief)
    question = line.question
    good, bad = (
        [r for r in layouts.of_place(line, place) if r.fresh]
        for place in (stretch.good, stretch.bad)
    )
    fast, slow, strata = sides(good, bad, question.lead)
    boots = min(len(fast), len(slow))
    if boots >= LEAST_BOOTS:
        known = _known(question.noise, (*good, *bad))
        effect = difference(fast, slow, question.lead, known=known, strata=strata)
        images = layouts.difference(line, stretch.good, stretch.bad)
        if layouts.averages(question) and images is not None:
            beyond_luck, effect_seen = _shown(question, images, belief), images
        else:
            beyond_luck, effect_seen = sides_differ(line, stretch, other), effect
        if _shown(question, effect, belief) and beyond_luck:
            return _name(line, stretch, belief, good, bad)
        if _refuted(question, effect_seen, belief) or boots >= most_boots(question):
            return None
    turns = _Turns.of(line, (stretch.good, stretch.bad), meanwhile)
    if boots < LEAST_BOOTS <= turns.planned():
        return Wait.WAIT
    place = (
        stretch.good if turns.good_is_next(meanwhile.testbed or question.testbed) else stretch.bad
    )
    if layouts.averages(question):
        place = _layout(line, place, boots, 2 * _least(question, belief), meanwhile)
    runs = runs_of_proof(question.noise, 2 * _least(question, belief))
    why = _why(line, stretch)
    return Visit(place.revision, why, belief, runs, meanwhile.testbed, place.layout)


def _layout(line: Line, place: Place, boots: int, apart: float, meanwhile: Meanwhile) -> Place:
    """The layout that this side of a proof boots next; one more when the boots prove nothing."""
    wanted = layouts.wanted(line, apart)
    if boots >= LEAST_BOOTS:
        wanted = max(wanted, line.question.layouts + 1)
    return layouts.next_of(line, place, wanted, meanwhile)


@dataclass(frozen=True, slots=True)
class _Turns:
    """Fresh boots of the two sides by testbed, those under way among them."""

    counts: dict[str, tuple[int, int]]
    waits: bool
    """Whether any of them is under way."""

    @classmethod
    def of(cls, line: Line, places: tuple[Place, Place], meanwhile: Meanwhile) -> _Turns:
        question = line.question
        boots = [
            Counter(
                testbed_of(question, r)
                for r in layouts.of_place(line, place)
                if r.fresh and question.lead in r.ln_pps
            )
            for place in places
        ]
        ahead = [
            Counter(
                visit.testbed or question.testbed
                for visit in meanwhile.under_way
                if line.at[line.revisions.index(visit.revision)] is place
            )
            for place in places
        ]
        fast, slow = (own + more for own, more in zip(boots, ahead, strict=True))
        counts = {name: (fast[name], slow[name]) for name in fast.keys() | slow.keys()}
        return cls(counts, any(ahead))

    def planned(self) -> int:
        """Boots of each side that count once nothing is under way; 0 if nothing is."""
        both = [pair for pair in self.counts.values() if min(pair) > 0]
        return min(sum(column) for column in zip(*both, strict=True)) if both and self.waits else 0

    def good_is_next(self, testbed: str) -> bool:
        """Whether this testbed boots the good side next: in turns, and what all together lack."""
        own = self.counts.get(testbed, (0, 0))
        good, bad = (sum(pair[i] for pair in self.counts.values()) for i in (0, 1))
        if own[0] == own[1] and good != bad:
            return good < bad
        return good_is_next(*own)


def _least(question: Bisection, belief: Belief) -> float:
    share = _LEAST_PART if belief.two > 0.5 else _LEAST_SHARE  # noqa: PLR2004 - likelier than not
    return share * abs(question.effect)


def _shown(question: Bisection, effect: Effect, belief: Belief) -> bool:
    sign = 1 if question.effect > 0 else -1
    shift = sign * effect.ln_ratio
    if belief.two > 0.5:  # noqa: PLR2004 - one of two may go the other way
        shift = abs(shift)
    return effect.p < ALPHA and shift >= _least(question, belief)


def _refuted(question: Bisection, effect: Effect, belief: Belief) -> bool:
    sign = 1 if question.effect > 0 else -1
    most = max(sign * effect.low, sign * effect.high)
    if belief.two > 0.5:  # noqa: PLR2004 - as above
        most = max(abs(effect.low), abs(effect.high))
    return most < _least(question, belief)


def _known(noise: Noise, boots: Sequence[Reading]) -> Known:
    runs = min((reading.runs for reading in boots), default=1)
    return Known(max(math.sqrt(noise.variance_of_boot(runs)), LEAST_BOOT_SD), _KNOWN_WEIGHT)


def moved(line: Line) -> Effect | None:
    """How the good end differs today from what it was; None if it does not, as far as is known.

    It must have become slower, or whatever the search is for, by half the effect.
    """
    place, question = line.at[0], line.question
    if place is None:
        return None
    before, today, strata = sides(
        [r for r in place.readings if not r.fresh],
        [r for r in place.readings if r.fresh],
        question.lead,
    )
    if min(len(before), len(today)) < 2:  # noqa: PLR2004 - a spread takes two values
        return None
    known = _known(question.noise, place.readings)
    effect = difference(before, today, question.lead, known=known, strata=strata)
    share = effect.ln_ratio / question.effect
    return effect if effect.p < ALPHA and share >= _LEAST_SHARE else None


def sides_differ(line: Line, stretch: Stretch, other: Stretch | None = None) -> bool:
    """Whether the images before and after a stretch differ by more than offsets explain.

    Only where images have offsets; there, two images prove nothing, however often they are booted.
    With another step on the line, only the images on this side of it tell, and a part of the
    effect will do, of whichever sign.
    """
    noise, effect = line.question.noise, line.question.effect
    if not noise.image:
        return True
    first, last = stretch.positions[0], stretch.positions[-1]
    low, high = 0, len(line.revisions)
    if other is not None and other.positions[0] < first:
        low = other.positions[-1]
    elif other is not None:
        high = other.positions[0]
    images = line.images
    before = layouts.level_of(line, [one for one in images if low <= one.position < first])
    after = layouts.level_of(line, [one for one in images if last <= one.position < high])
    if before is None or after is None:
        return False
    shift = after.mean - before.mean
    variance = before.variance + after.variance + layouts.between(line, before, after)
    p = 2 * float(special.ndtr(-abs(shift) / math.sqrt(variance)))
    if other is not None:
        return p < ALPHA and abs(shift / effect) >= _LEAST_PART
    return p < ALPHA and shift / effect >= _LEAST_SHARE


def _name(
    line: Line, stretch: Stretch, belief: Belief, good: list[Reading], bad: list[Reading]
) -> Culprit | Suspects:
    question, revisions = line.question, line.revisions
    if len(stretch.positions) == 1:
        (culprit,) = stretch.positions
        known = _known(question.noise, (*good, *bad))
        found = layouts.effects(question, good, bad) if layouts.averages(question) else ()
        found = found or effects(good, bad, question.lead, question.scenarios, known)
        return Culprit(
            revisions[culprit],
            revisions[culprit - 1],
            belief,
            found,
            min(1.0, stretch.chance),
        )
    suspects = tuple(revisions[position] for position in stretch.positions)
    blocked = [name for name in suspects if line.at[revisions.index(name)] is None]
    return Suspects(
        suspects,
        belief,
        f"{len(blocked)} of them cannot be measured; "
        f"{blocked[0][:12]}: {_trouble(line, blocked[0])}",
    )


def hidden(line: Line, chances: NDArray[np.float64], belief: Belief) -> Suspects | None:
    """The shortest range that holds the culprit, where the offsets of images hide which it is.

    None unless the images before and after it differ by more than offsets explain, or when it is
    no short range. It has two candidates at least: one alone would be a name without a proof.
    """
    where = np.flatnonzero(line.possible)
    if not line.question.noise.image or len(where) < 2:  # noqa: PLR2004 - as said
        return None
    sums = np.concatenate([[0.0], np.cumsum(chances[where])])
    start = np.arange(len(where) - 1)
    stop = np.searchsorted(sums, sums[start] + HELD - 1e-12, side="left")
    start, stop = start[stop < len(sums)], stop[stop < len(sums)]
    stop = np.maximum(stop, start + 2)
    if not len(start):
        return None
    # Of ranges as short as each other, the likeliest.
    best = int(np.lexsort((sums[start] - sums[stop], stop - start))[0])
    first, last = int(start[best]), int(stop[best])
    if last - first > _longest(line):
        return None
    positions = tuple(where[first:last].tolist())
    stretch = Stretch(positions, float(sums[last] - sums[first]), None, None)
    if not sides_differ(line, stretch):
        return None
    revisions = tuple(line.revisions[i] for i in positions)
    return Suspects(revisions, belief, "the offsets of their kernels hide which of them it is")


def _longest(line: Line) -> int:
    return max(3, len(line.revisions) // 8)


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
