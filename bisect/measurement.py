"""Interleaved measurement of several kernels, compared with the first one.

The number of boots is fixed, so the intervals are exact. A drop counts as a change of the code only
if it exceeds image noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from netbisect.bisect.model.detection_results import DifferenceVerdict, LevelDifference
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import MeasureJob
from netbisect.bisect.model.metric import metric_of, split_settings
from netbisect.bisect.model.results import (
    Effect,
    MeasureResult,
    Move,
    RevisionComparison,
    SettingEffect,
    Trial,
    Unfinished,
)
from netbisect.bisect.model.revision_key import short
from netbisect.bisect.stats import boot_modes
from netbisect.bisect.stats.effect import code_interval, difference, paired, values

SPARE = 3
"""Maximum extra boots to replace boots without a sample."""
_LEAST = 2
"""Minimum boots of a side."""


def next_move(job: MeasureJob, evidence: Evidence) -> Move:
    """The next trial, or the result.

    All kernels are built before the first boot, so failed and identical kernels cost no boots.
    """
    first = job.revisions[0]
    if first in evidence.skipped:
        return _unfinished(first, evidence)
    able = [one for one in job.revisions if one not in evidence.skipped]
    if len(able) == 1 < len(job.revisions):
        return _unfinished(job.revisions[1], evidence)
    for revision in able:
        if revision not in evidence.kernels and not _is_done(job, evidence, revision):
            return Trial(revision, "its kernel is needed before the boots begin")
    wanted = [
        revision
        for revision in able
        if same_kernel_as(job, evidence, revision) is None and not _is_done(job, evidence, revision)
    ]
    alike = [same_kernel_as(job, evidence, revision) is not None for revision in able[1:]]
    if alike and all(alike):
        wanted = []  # identical kernels
    if not wanted:
        return MeasureResult(
            tuple(_compare(job, evidence, revision) for revision in job.revisions[1:]),
            tuple(_settings(job, evidence)),
        )
    return _trial(job, evidence, wanted)


def _unfinished(revision: str, evidence: Evidence) -> Unfinished:
    return Unfinished(f"{short(revision)} cannot be measured: {evidence.skipped[revision]}")


def counted_observations(job: MeasureJob, evidence: Evidence, revision: str) -> list[Observation]:
    """The boots of a revision that count: fresh ones, then the newest shared ones."""
    found = evidence.of(revision)
    complete = [one for one in found if set(job.scenarios) <= set(one.ln_pps)]
    own = [one for one in complete if one.fresh]
    others = [one for one in complete if not one.fresh][::-1]
    counted = [*own, *others][: job.boots]
    if len(counted) < job.boots:
        counted += [one for one in found if one not in complete and one.ln_pps]
    return counted


def counted_numbers(job: MeasureJob, evidence: Evidence, series: str) -> dict[str, list[float]]:
    """Numbers of the boots that count, by revision with at least one."""
    number = metric_of(series).number
    found = {
        revision: [
            number(one.ln_pps[series])
            for one in counted_observations(job, evidence, revision)
            if series in one.ln_pps
        ]
        for revision in job.revisions
    }
    return {revision: numbers for revision, numbers in found.items() if numbers}


def _counts(job: MeasureJob, evidence: Evidence, revision: str) -> int:
    """Boots with a sample of every scenario."""
    found = counted_observations(job, evidence, revision)
    return sum(set(job.scenarios) <= set(one.ln_pps) for one in found)


def _is_done(job: MeasureJob, evidence: Evidence, revision: str) -> bool:
    """Whether there are enough boots, or too many without samples."""
    complete = _counts(job, evidence, revision)
    partial = sum(one.fresh for one in evidence.of(revision))
    return complete >= job.boots or partial >= job.boots + SPARE


def counted_boots(job: MeasureJob, evidence: Evidence) -> int:
    """Boots of all revisions that count."""
    return sum(_counts(job, evidence, revision) for revision in job.revisions)


def remaining_boots(job: MeasureJob, evidence: Evidence) -> int:
    """Expected remaining boots."""
    return sum(
        job.boots - _counts(job, evidence, revision)
        for revision in job.revisions
        if revision not in evidence.skipped
        and same_kernel_as(job, evidence, revision) is None
        and not _is_done(job, evidence, revision)
    )


def same_kernel_as(job: MeasureJob, evidence: Evidence, revision: str) -> str | None:
    """An earlier revision with the same kernel, or None."""
    own = evidence.kernels.get(revision)
    if own is None or not own.identity:
        return None
    for earlier in job.revisions[: job.revisions.index(revision)]:
        kernel = evidence.kernels.get(earlier)
        if kernel is not None and kernel.identity == own.identity:
            return earlier
    return None


def _trial(job: MeasureJob, evidence: Evidence, wanted: Sequence[str]) -> Trial:
    """The revision with the fewest boots, in the order ABBA."""
    counts = {one: _counts(job, evidence, one) for one in wanted}
    fewest = min(counts.values())
    turn = [one for one in wanted if counts[one] == fewest]
    chosen = turn[0] if fewest % 2 == 0 else turn[-1]
    return Trial(chosen, f"boot {fewest + 1} of {job.boots}, interleaved")


def _compare(job: MeasureJob, evidence: Evidence, revision: str) -> RevisionComparison:
    if revision in evidence.skipped:
        return RevisionComparison(
            revision, (), f"it cannot be measured: {evidence.skipped[revision]}"
        )
    identical = same_kernel_as(job, evidence, revision)
    first = job.revisions[0]
    if identical == first:
        return RevisionComparison(
            revision, (), "it builds the same kernel as the first one", same=True
        )
    sides = [counted_observations(job, evidence, one) for one in (first, identical or revision)]
    found = []
    for scenario in job.scenarios:
        good, bad = (_ln_pps(job, side, scenario) for side in sides)
        if min(len(good), len(bad)) >= _LEAST:
            found.append(difference(good, bad, scenario))
    return RevisionComparison(
        revision, tuple(found), "" if found else "there are too few samples of it"
    )


def _settings(job: MeasureJob, evidence: Evidence) -> Iterator[SettingEffect]:
    """Effects of the settings on each kernel, paired by trial."""
    for revision in job.revisions:
        trials = [one.ln_pps for one in counted_observations(job, evidence, revision)]
        for series in job.scenarios:
            plain, settings = split_settings(series)
            ratios = [one[series] - one[plain] for one in trials if {series, plain} <= one.keys()]
            if settings and len(ratios) >= _LEAST:
                yield SettingEffect(revision, paired(ratios, series))


def _ln_pps(job: MeasureJob, side: Sequence[Observation], scenario: str) -> list[float]:
    """Boots of a side, as ln pps."""
    noise = job.noise.get(scenario)
    return values(side, scenario, boot_modes.modes_of(noise) if noise else None)


def narrowing(job: MeasureJob, evidence: Evidence, revision: str, scenario: str) -> list[Effect]:
    """The difference to the first revision after two boots of each, three boots, and so on."""
    good, bad = (
        [one for one in counted_observations(job, evidence, name) if scenario in one.ln_pps]
        for name in (job.revisions[0], revision)
    )
    return [
        difference(_ln_pps(job, good[:n], scenario), _ln_pps(job, bad[:n], scenario), scenario)
        for n in range(_LEAST, min(len(good), len(bad)) + 1)
    ]


# ----------------------------------------------------------------------------------- verdicts


def classify(effect: Effect, noise: Noise | None, min_effect: float) -> DifferenceVerdict:
    """Verdict of a difference.

    "No regression" refers to the two kernels: image noise may hide a change of the code.

    Args:
        effect: Effect of the other over the first.
        noise: Noise of the series.
        min_effect: Smallest relevant |ln ratio|.
    """
    low, high = code_interval(effect, noise)
    if high < 0 and effect.ln_ratio <= -min_effect:
        return DifferenceVerdict.SLOWER
    if low > 0 and effect.ln_ratio >= min_effect:
        return DifferenceVerdict.FASTER
    return DifferenceVerdict.SAME if effect.low > -min_effect else DifferenceVerdict.OPEN


def classify_all(job: MeasureJob, held: RevisionComparison) -> dict[str, DifferenceVerdict]:
    """Verdicts of a revision by scenario."""
    return {
        effect.scenario: classify(effect, job.noise.get(effect.scenario), job.min_effect)
        for effect in held.effects
    }


def worst_verdict(job: MeasureJob, measured: MeasureResult) -> DifferenceVerdict:
    """The worst verdict over all revisions and scenarios."""
    found: set[DifferenceVerdict] = set()
    for held in measured.held:
        own = classify_all(job, held)
        found.update(own.values())
        unmeasured = set(job.scenarios) - set(own)
        if unmeasured and not held.same:
            found.add(DifferenceVerdict.OPEN)
    for worst in (DifferenceVerdict.SLOWER, DifferenceVerdict.OPEN):
        if worst in found:
            return worst
    return (
        DifferenceVerdict.FASTER if found == {DifferenceVerdict.FASTER} else DifferenceVerdict.SAME
    )


def compare_repeats(
    first: Sequence[Effect], second: Sequence[Effect]
) -> dict[str, LevelDifference]:
    """Compares the two runs of a repeated measurement: second minus first, by scenario."""
    later = {effect.scenario: effect for effect in second}
    found = {}
    for one in first:
        other = later.get(one.scenario)
        if other is not None:
            change = other.ln_ratio - one.ln_ratio
            reach = math.hypot(*((effect.high - effect.low) / 2 for effect in (one, other)))
            found[one.scenario] = LevelDifference(change, change - reach, change + reach)
    return found
