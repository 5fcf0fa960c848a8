"""Kernels side by side: each is booted as often as asked, in turns, and held against the first.

Nothing is tested on the way: the number of boots is fixed beforehand, so that the intervals are
what they say. Two kernels that differ need not differ by their code, for every image has an offset
of its own; so a drop is only called one of the code where it is larger than such offsets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import special

from netbisect.bisect import modes as two_modes
from netbisect.bisect.compare import difference, values
from netbisect.bisect.model import (
    Effect,
    Evidence,
    Held,
    Measured,
    Measurement,
    Move,
    Noise,
    Reading,
    Unfinished,
    Visit,
)
from netbisect.bisect.subject import short

SPARE = 3
"""Boots beyond those asked for that are made where a scenario gave no sample in some."""
_LEAST = 2
"""Boots of a side: a spread takes two values."""
_BOTH_SIDES = 0.975
"""Quantile of a 95 % interval."""


class Word(StrEnum):
    """What a difference allows to say."""

    SLOWER = "slower"
    """A drop that matters, larger than the offsets of images."""
    FASTER = "faster"
    """A gain that matters, likewise."""
    SAME = "no regression"
    """A drop that matters can be excluded between these two kernels."""
    OPEN = "inconclusive"


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same difference measured twice with boots of their own; ln ratios."""

    scenario: str
    ln_ratio: float
    """Of the second run, less that of the first."""
    low: float
    high: float
    """Of its 95 % interval, from the scatter of boots: the images are the same."""

    @property
    def consistent(self) -> bool:
        """Whether the two runs may have seen the same difference."""
        return self.low <= 0 <= self.high


def next_move(question: Measurement, evidence: Evidence) -> Move:
    """Tells what to boot next, or how the others lie to the first.

    All kernels are built before the first boot: one that cannot be built, or turns out to be the
    same as an earlier one, costs no boots then.
    """
    first = question.revisions[0]
    if first in evidence.skipped:
        return _unfinished(first, evidence)
    able = [one for one in question.revisions if one not in evidence.skipped]
    if len(able) == 1:
        return _unfinished(question.revisions[1], evidence)
    for revision in able:
        if revision not in evidence.kernels and not _is_done(question, evidence, revision):
            return Visit(revision, "its kernel is needed before the boots begin")
    wanted = [
        revision
        for revision in able
        if same_as(question, evidence, revision) is None
        and not _is_done(question, evidence, revision)
    ]
    if len(able) == _LEAST and same_as(question, evidence, able[1]) is not None:
        wanted = []  # nothing to tell apart
    if not wanted:
        return Measured(
            tuple(_held(question, evidence, revision) for revision in question.revisions[1:])
        )
    return _visit(question, evidence, wanted)


def _unfinished(revision: str, evidence: Evidence) -> Unfinished:
    return Unfinished(f"{short(revision)} cannot be measured: {evidence.skipped[revision]}")


def readings_of(question: Measurement, evidence: Evidence, revision: str) -> list[Reading]:
    """The boots of a revision that count: as many as asked, its own before those of others.

    Of those that others have made, the newest; which ones does not depend on what they said.
    """
    found = evidence.of(revision)
    complete = [one for one in found if set(question.scenarios) <= set(one.ln_pps)]
    own = [one for one in complete if one.fresh]
    others = [one for one in complete if not one.fresh][::-1]
    counted = [*own, *others][: question.boots]
    if len(counted) < question.boots:
        counted += [one for one in found if one not in complete and one.ln_pps]
    return counted


def _counts(question: Measurement, evidence: Evidence, revision: str) -> int:
    """Boots that gave a sample of every scenario."""
    found = readings_of(question, evidence, revision)
    return sum(set(question.scenarios) <= set(one.ln_pps) for one in found)


def _is_done(question: Measurement, evidence: Evidence, revision: str) -> bool:
    """As often as asked, or often enough to see that a scenario gives no samples."""
    complete = _counts(question, evidence, revision)
    partial = sum(one.fresh for one in evidence.of(revision))
    return complete >= question.boots or partial >= question.boots + SPARE


def remaining(question: Measurement, evidence: Evidence) -> int:
    """Boots that are still to be made, if all goes well."""
    return sum(
        question.boots - _counts(question, evidence, revision)
        for revision in question.revisions
        if revision not in evidence.skipped
        and same_as(question, evidence, revision) is None
        and not _is_done(question, evidence, revision)
    )


def same_as(question: Measurement, evidence: Evidence, revision: str) -> str | None:
    """The earlier revision that builds the same kernel; None where there is none."""
    own = evidence.kernels.get(revision)
    if own is None or not own.identity:
        return None
    for earlier in question.revisions[: question.revisions.index(revision)]:
        kernel = evidence.kernels.get(earlier)
        if kernel is not None and kernel.identity == own.identity:
            return earlier
    return None


def _visit(question: Measurement, evidence: Evidence, wanted: Sequence[str]) -> Visit:
    """Whoever has the fewest boots; of those, forth and back again, as ABBA for two."""
    counts = {one: _counts(question, evidence, one) for one in wanted}
    fewest = min(counts.values())
    turn = [one for one in wanted if counts[one] == fewest]
    chosen = turn[0] if fewest % 2 == 0 else turn[-1]
    return Visit(chosen, f"boot {fewest + 1} of {question.boots}, in turns with the others")


def _held(question: Measurement, evidence: Evidence, revision: str) -> Held:
    if revision in evidence.skipped:
        return Held(revision, (), f"it cannot be measured: {evidence.skipped[revision]}")
    twin = same_as(question, evidence, revision)
    first = question.revisions[0]
    if twin == first:
        return Held(revision, (), "it builds the same kernel as the first one", same=True)
    sides = [readings_of(question, evidence, one) for one in (first, twin or revision)]
    found = []
    for scenario in question.scenarios:
        noise = question.noise.get(scenario)
        modes = two_modes.of(noise) if noise else None
        good, bad = (values(side, scenario, modes) for side in sides)
        if min(len(good), len(bad)) >= _LEAST:
            found.append(difference(good, bad, scenario))
    return Held(revision, tuple(found), "" if found else "there are too few samples of it")


# ---------------------------------------------------------------------------------- the words


def of_code(effect: Effect, noise: Noise | None) -> tuple[float, float]:
    """The 95 % interval of a difference when the offsets of the two images count, ln ratio.

    Args:
        effect: From boots of one image of each.
        noise: Of the series; None: nothing is known of it, and the interval is that of the boots.
    """
    if noise is None or noise.image <= 0:
        return effect.low, effect.high
    images = float(special.stdtrit(noise.image_weight, _BOTH_SIDES)) * math.sqrt(2) * noise.image
    low = math.hypot(effect.ln_ratio - effect.low, images)
    high = math.hypot(effect.high - effect.ln_ratio, images)
    return effect.ln_ratio - low, effect.ln_ratio + high


def word(effect: Effect, noise: Noise | None, min_effect: float) -> Word:
    """What a difference allows to say.

    That there is no regression is said of the two kernels: the offset of an image may hide a
    change of the code as well as feign one.

    Args:
        effect: Of the other over the first.
        noise: Of the series.
        min_effect: |ln ratio| of a drop that matters.
    """
    low, high = of_code(effect, noise)
    if high < 0 and effect.ln_ratio <= -min_effect:
        return Word.SLOWER
    if low > 0 and effect.ln_ratio >= min_effect:
        return Word.FASTER
    return Word.SAME if effect.low > -min_effect else Word.OPEN


def words_of(question: Measurement, held: Held) -> dict[str, Word]:
    """By scenario: what is said of a revision; empty where nothing was measured."""
    return {
        effect.scenario: word(effect, question.noise.get(effect.scenario), question.min_effect)
        for effect in held.effects
    }


def together(question: Measurement, measured: Measured) -> Word:
    """What all revisions and scenarios together say: the worst of them."""
    found: set[Word] = set()
    for held in measured.held:
        own = words_of(question, held)
        found.update(own.values())
        unmeasured = set(question.scenarios) - set(own)
        if unmeasured and not held.same:
            found.add(Word.OPEN)
    for worst in (Word.SLOWER, Word.OPEN):
        if worst in found:
            return worst
    return Word.FASTER if found == {Word.FASTER} else Word.SAME


def repeated(first: Sequence[Effect], second: Sequence[Effect]) -> list[Repeated]:
    """Holds the two runs of a repeated measurement against each other.

    Args:
        first: Effects of the first run, a scenario each.
        second: Those of the second.
    """
    later = {effect.scenario: effect for effect in second}
    found = []
    for one in first:
        other = later.get(one.scenario)
        if other is not None:
            apart = other.ln_ratio - one.ln_ratio
            reach = math.hypot(*((effect.high - effect.low) / 2 for effect in (one, other)))
            found.append(Repeated(one.scenario, apart, apart - reach, apart + reach))
    return found
