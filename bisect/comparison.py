"""The retest: is the bad kernel really slower, measured in turns with the good one?

A group-sequential test. The boots are looked at when each side has 3, 6 and 9, and each look may
err with a third of 1 %, so that all of them together err with at most 1 % (Bonferroni). The
0.41 % that S. J. Pocock (Biometrika 64, 1977) gives for three looks would need a known variance.
Between the looks nothing is tested.
"""

from __future__ import annotations

import math

from netbisect.bisect import modes as two_modes
from netbisect.bisect.compare import difference, effects, sides, values
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Effect,
    Evidence,
    Move,
    NotConfirmed,
    Reading,
    Unfinished,
    Visit,
)
from netbisect.bisect.modes import Modes
from netbisect.bisect.turns import barren, good_is_next

LOOKS = (3, 6, 9)
"""Boots of each side at which the difference is judged."""
ALPHA = 0.01
"""Chance that two equal images are called different, over all looks."""


def next_move(question: Comparison, evidence: Evidence) -> Move:
    """Tells what to boot next, or whether `question.bad` is slower.

    Where a gain was suspected, whether it is faster.

    Only fresh readings count: what made the pair suspicious would favour a difference. It is
    confirmed when p is below a third of 1 % at a look, and the drop is at least `min_effect`.
    It is given up when the 95 % interval leaves no room for a drop of `min_effect`, or at the
    last look.
    """
    good, bad = (
        [reading for reading in evidence.of(revision) if reading.fresh]
        for revision in (question.good, question.bad)
    )
    if (ended := unfit(question, evidence, good, bad)) is not None:
        return ended
    sizes = tuple(len(values(boots, question.lead)) for boots in (good, bad))
    answer = judge(question, good, bad) if _is_look(*sizes) else None
    if answer is None:
        return _visit(question, evidence, *sizes)
    confirmed, why = answer
    found = _effects(question, good, bad)
    return Confirmed(found) if confirmed else NotConfirmed(found, why)


def unfit(
    question: Comparison, evidence: Evidence, good: list[Reading], bad: list[Reading]
) -> NotConfirmed | Unfinished | None:
    """Why the two cannot be compared, if so: not measurable, or the same kernel.

    Args:
        question: What is compared.
        evidence: All facts that bear on it.
        good: Fresh readings of the good revision.
        bad: Fresh readings of the bad one.
    """
    for revision in (question.good, question.bad):
        if revision in evidence.skipped:
            return Unfinished(f"{revision[:12]} cannot be measured: {evidence.skipped[revision]}")
    if _same_kernel(question, evidence):
        found = _effects(question, good, bad)
        return NotConfirmed(found, "both revisions build the same kernel")
    for revision, boots in ((question.good, good), (question.bad, bad)):
        if barren(boots, question.lead):
            return Unfinished(
                f"{len(boots)} boots of {revision[:12]} hardly gave a valid sample "
                f"of {question.lead}"
            )
    return None


def _effects(question: Comparison, good: list[Reading], bad: list[Reading]) -> tuple[Effect, ...]:
    modes = two_modes.of(question.noise) if question.noise else None
    return effects(good, bad, question.lead, question.scenarios, modes=modes)


def _is_look(good_boots: int, bad_boots: int) -> bool:
    """Only balanced states are looked at: each of them is passed once."""
    return min(good_boots, bad_boots) >= LOOKS[-1] or (
        good_boots == bad_boots and good_boots in LOOKS
    )


def judge(question: Comparison, good: list[Reading], bad: list[Reading]) -> tuple[bool, str] | None:
    """Looks at the boots: whether it is confirmed and why not; None when only more can tell."""
    modes = two_modes.of(question.noise) if question.noise else None
    fast, slow, strata = sides(good, bad, question.lead, modes)
    effect = difference(fast, slow, question.lead, strata=strata)
    sign, word = (1, "gain") if question.suspected > 0 else (-1, "drop")
    seen, room = sign * effect.ln_ratio, sign * (effect.high if sign > 0 else effect.low)
    last = min(effect.good_boots, effect.bad_boots) >= LOOKS[-1]
    sure = effect.p < ALPHA / len(LOOKS) and not _may_be_mode(effect, modes)
    least = f"{_percent(question.min_effect)} %"
    if sure and seen >= question.min_effect:
        return True, ""
    if room < question.min_effect:
        return False, f"{_counts(effect)} leave no room for a {word} of {least}"
    if last and sure:
        return False, f"{_counts(effect)} do not show a {word} of at least {least}"
    if last:
        return False, f"{_counts(effect)} do not tell the two kernels apart"
    return None


def _may_be_mode(effect: Effect, modes: Modes | None) -> bool:
    """Whether it is the distance of the modes, and one side may have come up slow every time."""
    if modes is None or abs(abs(effect.ln_ratio) - modes.gap) > modes.gap / 2:
        return False
    slow_boots = effect.bad_boots if effect.ln_ratio < 0 else effect.good_boots
    fast_boots = effect.good_boots if effect.ln_ratio < 0 else effect.bad_boots
    alike = modes.share**slow_boots * (1 - modes.share) ** fast_boots
    return alike >= (ALPHA / len(LOOKS)) ** 2


def _counts(effect: Effect) -> str:
    return f"{effect.good_boots} good and {effect.bad_boots} bad boots"


def _percent(min_effect: float) -> str:
    return f"{-100 * math.expm1(-min_effect):.3g}"


def _same_kernel(question: Comparison, evidence: Evidence) -> bool:
    kernels = [evidence.kernels.get(revision) for revision in (question.good, question.bad)]
    identities = {kernel.identity if kernel else "" for kernel in kernels}
    return len(identities) == 1 and "" not in identities


def _visit(question: Comparison, evidence: Evidence, good_boots: int, bad_boots: int) -> Visit:
    good_next = good_is_next(good_boots, bad_boots)
    if good_boots == bad_boots == 0 and question.good in evidence.kernels:
        # A kernel that is not built comes first: it may turn out to be the same, and then
        # nothing needs to boot. ABBA is as good the other way round.
        good_next = question.bad in evidence.kernels
    boots = good_boots if good_next else bad_boots
    side = "last good" if good_next else "suspected"
    return Visit(
        question.good if good_next else question.bad,
        f"boot {boots + 1} of the {side} revision, in turns with the other",
    )
