"""Retest of a suspicious pair of kernels, by interleaved boots.

A group-sequential test with looks after 3, 6 and 9 boots per side, at a third of 1 % each; overall
type I error at most 1 % (Bonferroni). The 0.41 % of S. J. Pocock (Biometrika 64, 1977) for three
looks would need a known variance.
"""

from __future__ import annotations

import math

from netbisect.bisect.model.detection_results import ALPHA, LOOKS, BootModes
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Effect,
    Move,
    NotConfirmed,
    Trial,
    Unfinished,
)
from netbisect.bisect.stats import boot_modes
from netbisect.bisect.stats.effect import difference, effects, sides, values
from netbisect.bisect.stats.interleave import good_is_next, yields_no_sample


def next_move(job: CompareJob, evidence: Evidence) -> Move:
    """The next trial, or the result.

    Only fresh observations count, because the earlier ones were selected for their difference.
    The change is confirmed if p is below a third of 1 % at a look and the change at least
    `min_effect`. It is not confirmed if the 95 % interval excludes `min_effect`, or at the last
    look.
    """
    good, bad = (
        [observation for observation in evidence.of(revision) if observation.fresh]
        for revision in (job.good, job.bad)
    )
    if (ended := not_comparable(job, evidence, good, bad)) is not None:
        return ended
    sizes = tuple(len(values(boots, job.lead)) for boots in (good, bad))
    answer = judge(job, good, bad) if _is_look(*sizes) else None
    if answer is None:
        return _trial(job, evidence, *sizes)
    confirmed, why = answer
    found = _effects(job, good, bad)
    return Confirmed(found) if confirmed else NotConfirmed(found, why)


def not_comparable(
    job: CompareJob, evidence: Evidence, good: list[Observation], bad: list[Observation]
) -> NotConfirmed | Unfinished | None:
    """The result if the two cannot be compared: not measurable, or the same kernel."""
    for revision in (job.good, job.bad):
        if revision in evidence.skipped:
            return Unfinished(f"{revision[:12]} cannot be measured: {evidence.skipped[revision]}")
    if _same_kernel(job, evidence):
        found = _effects(job, good, bad)
        return NotConfirmed(found, "both revisions build the same kernel")
    for revision, boots in ((job.good, good), (job.bad, bad)):
        if yields_no_sample(boots, job.lead):
            return Unfinished(
                f"{len(boots)} boots of {revision[:12]} hardly gave a valid sample of {job.lead}"
            )
    return None


def _effects(
    job: CompareJob, good: list[Observation], bad: list[Observation]
) -> tuple[Effect, ...]:
    modes = boot_modes.modes_of(job.noise) if job.noise else None
    return effects(good, bad, job.lead, job.scenarios, modes=modes)


def _is_look(good_boots: int, bad_boots: int) -> bool:
    """Looks take place at balanced boot counts only."""
    return min(good_boots, bad_boots) >= LOOKS[-1] or (
        good_boots == bad_boots and good_boots in LOOKS
    )


def judge(
    job: CompareJob, good: list[Observation], bad: list[Observation]
) -> tuple[bool, str] | None:
    """One look: whether confirmed, and why not; None if more boots are needed."""
    modes = boot_modes.modes_of(job.noise) if job.noise else None
    fast, slow, strata = sides(good, bad, job.lead, modes)
    effect = difference(fast, slow, job.lead, strata=strata)
    sign, word = (1, "gain") if job.suspected > 0 else (-1, "drop")
    seen, room = sign * effect.ln_ratio, sign * (effect.high if sign > 0 else effect.low)
    last = min(effect.good_boots, effect.bad_boots) >= LOOKS[-1]
    sure = effect.p < ALPHA / len(LOOKS) and not _may_be_mode(effect, modes)
    least = f"{_percent(job.min_effect)} %"
    if sure and seen >= job.min_effect:
        return True, ""
    if room < job.min_effect:
        return False, f"{_counts(effect)} leave no room for a {word} of {least}"
    if last and sure:
        return False, f"{_counts(effect)} do not show a {word} of at least {least}"
    if last:
        return False, f"{_counts(effect)} do not tell the two kernels apart"
    return None


def _may_be_mode(effect: Effect, modes: BootModes | None) -> bool:
    """Whether one side may have booted in the slow mode every time."""
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


def _same_kernel(job: CompareJob, evidence: Evidence) -> bool:
    kernels = [evidence.kernels.get(revision) for revision in (job.good, job.bad)]
    identities = {kernel.identity if kernel else "" for kernel in kernels}
    return len(identities) == 1 and "" not in identities


def _trial(job: CompareJob, evidence: Evidence, good_boots: int, bad_boots: int) -> Trial:
    good_next = good_is_next(good_boots, bad_boots)
    if good_boots == bad_boots == 0 and job.good in evidence.kernels:
        # An unbuilt kernel comes first: it may be identical. BAAB is as good as ABBA.
        good_next = job.bad in evidence.kernels
    boots = good_boots if good_next else bad_boots
    side = "last good" if good_next else "suspected"
    return Trial(
        job.good if good_next else job.bad,
        f"boot {boots + 1} of the {side} revision, interleaved",
    )
