"""Verification: fresh, interleaved boots of the candidate and its parent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Observation
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import (
    Culprit,
    Effect,
    Posterior,
    Suspects,
    Trial,
    Unfinished,
)
from netbisect.bisect.search import link_order
from netbisect.bisect.search.likelihood import LEAST_BOOT_SD
from netbisect.bisect.search.search_space import SearchSpace, Target, testbed_of
from netbisect.bisect.stats.effect import SpreadPrior, difference, effects, sides
from netbisect.bisect.stats.interleave import good_is_next

NAMING_THRESHOLD = 0.99
"""Probability at which a verified candidate, or group of candidates, is named."""
RANGE_MASS = 0.95
"""Probability of a range of suspects within which image noise hides the culprit."""
PROOF_THRESHOLD = 0.8
"""Probability at which verification begins: its boots are as informative as others."""
LEAST_BOOTS = 3
"""Minimum fresh boots of each side."""
ALPHA = 0.01
RUNS = (1, 2, 4, 8, 12)
"""Possible numbers of runs per boot."""
_MOST_BOOTS = 10
"""Boots of each side at which an undecided verification fails: enough for a drop of three standard
deviations of a boot, with one outlier on each side."""
_LEAST_SHARE, _LEAST_PART = 0.5, 0.2
"""Minimum difference, as a share of the expected effect; the second value for two steps."""
_KNOWN_WEIGHT = 4.0
"""Degrees of freedom of the noise of the job, on each side."""
_CLEAR = 4.0
"""Ratio of the effect to the standard deviation of the mean of a boot's runs."""


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Candidates without a measurable kernel between them; mostly a single one."""

    positions: tuple[int, ...]
    probability: float
    good: Target | None
    """Last measurable kernel before them."""
    bad: Target | None
    """First measurable kernel from the last of them on."""


def candidate_groups(
    space: SearchSpace, probabilities: NDArray[np.float64], count: int
) -> list[CandidateGroup]:
    """The groups with the highest probabilities, highest first."""
    measurable = np.flatnonzero([target is not None for target in space.target_at])
    candidates = np.flatnonzero(space.possible)
    if len(candidates) == 0:
        return []
    # Candidates with the same measurable neighbours form one group.
    after = np.searchsorted(measurable, candidates)
    sums = np.bincount(after, probabilities[candidates])
    found = []
    for best in np.argsort(-sums, kind="stable")[:count].tolist():
        positions = candidates[after == best]
        if len(positions):
            found.append(
                CandidateGroup(
                    tuple(positions.tolist()),
                    float(probabilities[positions].sum()),
                    space.target_at[measurable[best - 1]] if best > 0 else None,
                    space.target_at[measurable[best]] if best < len(measurable) else None,
                )
            )
    return found


def max_boots(job: BisectJob) -> int:
    """Maximum fresh boots of each side, by the ratio of noise to effect."""
    ratio = job.noise.variance_of_boot(RUNS[-1]) / job.effect**2
    return max(_MOST_BOOTS, math.ceil(min(40 * ratio, 120)))


def runs_per_boot(noise: Noise, effect: float, clear: float = _CLEAR) -> int:
    """Smallest number of runs that makes run noise small compared with the effect."""
    if not noise.run:
        return 1
    wanted = max(abs(effect) / clear, noise.boot)
    return next((runs for runs in RUNS if noise.run / math.sqrt(runs) <= wanted), RUNS[-1])


def verify(
    space: SearchSpace,
    group: CandidateGroup,
    posterior: Posterior,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
    other: CandidateGroup | None = None,
) -> Trial | Culprit | Suspects | Unfinished | Wait | None:
    """Next step of the verification that the culprit is in `group`.

    Verification uses all fresh boots of the two kernels: at least three of each, interleaved, up
    to ten of each. They must differ with p below 1 % and by at least half the expected effect.
    With image noise, the images on both sides must differ too; if the lab can link other layouts,
    culprit and parent are compared by their means over layouts instead. Boots are compared within
    their testbed.

    Args:
        space: The job and its evidence.
        group: The suspected candidates.
        posterior: Of the search.
        in_flight: Running builds and trials.
        other: Another step; only images on this side of it are compared.

    Returns:
        A result if verified, or if a side cannot be measured; `Wait` if the running boots may be
        enough; None if verification failed and the search continues.
    """
    if group.good is None or group.bad is None:
        end, revision = (
            ("good", space.revisions[0]) if group.good is None else ("bad", space.revisions[-1])
        )
        return Unfinished(
            f"the {end} end cannot be measured: {_skip_reason(space, revision)}", posterior
        )
    job = space.job
    good, bad = (
        [r for r in link_order.observations_of(space, target) if r.fresh]
        for target in (group.good, group.bad)
    )
    fast, slow, strata = sides(good, bad, job.lead)
    boots = min(len(fast), len(slow))
    if boots >= LEAST_BOOTS:
        known = _known(job.noise, (*good, *bad))
        effect = difference(fast, slow, job.lead, known=known, strata=strata)
        images = link_order.difference(space, group.good, group.bad)
        if link_order.can_average(job) and images is not None:
            beyond_luck, effect_seen = _significant(job, images, posterior), images
        else:
            beyond_luck, effect_seen = sides_differ(space, group, other), effect
        if _significant(job, effect, posterior) and beyond_luck:
            return _name(space, group, posterior, good, bad)
        if _refuted(job, effect_seen, posterior) or boots >= max_boots(job):
            return None
    turns = _Interleaving.of(space, (group.good, group.bad), in_flight)
    if boots < LEAST_BOOTS <= turns.planned():
        return Wait.WAIT
    target = group.good if turns.good_is_next(in_flight.testbed or job.testbed) else group.bad
    if link_order.can_average(job):
        target = _layout(space, target, boots, 2 * _smallest_effect(job, posterior), in_flight)
    runs = runs_per_boot(job.noise, 2 * _smallest_effect(job, posterior))
    why = _why(space, group)
    return Trial(target.revision, why, posterior, runs, in_flight.testbed, target.layout)


def _layout(
    space: SearchSpace, target: Target, boots: int, effect: float, in_flight: InFlight
) -> Target:
    """The next layout of this side; further ones if the boots are not conclusive."""
    wanted = link_order.layouts_needed(space, effect)
    if boots >= LEAST_BOOTS:
        wanted = max(wanted, space.job.layouts + 1)
    return link_order.next_layout(space, target, wanted, in_flight)


@dataclass(frozen=True, slots=True)
class _Interleaving:
    """Fresh boots of the two sides by testbed, including running ones."""

    counts: dict[str, tuple[int, int]]
    waits: bool
    """Whether any of them is running."""

    @classmethod
    def of(
        cls, space: SearchSpace, targets: tuple[Target, Target], in_flight: InFlight
    ) -> _Interleaving:
        job = space.job
        boots = [
            Counter(
                testbed_of(job, r)
                for r in link_order.observations_of(space, target)
                if r.fresh and job.lead in r.ln_pps
            )
            for target in targets
        ]
        ahead = [
            Counter(
                trial.testbed or job.testbed
                for trial in in_flight.under_way
                if space.target_at[space.revisions.index(trial.revision)] is target
            )
            for target in targets
        ]
        fast, slow = (own + more for own, more in zip(boots, ahead, strict=True))
        counts = {name: (fast[name], slow[name]) for name in fast.keys() | slow.keys()}
        return cls(counts, any(ahead))

    def planned(self) -> int:
        """Comparable boots of each side once all trials end; 0 if none is running."""
        both = [pair for pair in self.counts.values() if min(pair) > 0]
        return min(sum(column) for column in zip(*both, strict=True)) if both and self.waits else 0

    def good_is_next(self, testbed: str) -> bool:
        """Whether this testbed boots the good side next: interleaved, and balanced overall."""
        own = self.counts.get(testbed, (0, 0))
        good, bad = (sum(pair[i] for pair in self.counts.values()) for i in (0, 1))
        if own[0] == own[1] and good != bad:
            return good < bad
        return good_is_next(*own)


def _smallest_effect(job: BisectJob, posterior: Posterior) -> float:
    share = _LEAST_PART if posterior.two > 0.5 else _LEAST_SHARE  # noqa: PLR2004 - more likely than not
    return share * abs(job.effect)


def _significant(job: BisectJob, effect: Effect, posterior: Posterior) -> bool:
    sign = 1 if job.effect > 0 else -1
    shift = sign * effect.ln_ratio
    if posterior.two > 0.5:  # noqa: PLR2004 - one of two may have the other sign
        shift = abs(shift)
    return effect.p < ALPHA and shift >= _smallest_effect(job, posterior)


def _refuted(job: BisectJob, effect: Effect, posterior: Posterior) -> bool:
    sign = 1 if job.effect > 0 else -1
    most = max(sign * effect.low, sign * effect.high)
    if posterior.two > 0.5:  # noqa: PLR2004 - as above
        most = max(abs(effect.low), abs(effect.high))
    return most < _smallest_effect(job, posterior)


def _known(noise: Noise, boots: Sequence[Observation]) -> SpreadPrior:
    runs = min((observation.runs for observation in boots), default=1)
    return SpreadPrior(max(math.sqrt(noise.variance_of_boot(runs)), LEAST_BOOT_SD), _KNOWN_WEIGHT)


def good_end_shift(space: SearchSpace) -> Effect | None:
    """Significant change of the good end since its earlier boots, or None.

    It must have the sign of the searched effect and at least half its size.
    """
    target, job = space.target_at[0], space.job
    if target is None:
        return None
    before, today, strata = sides(
        [r for r in target.observations if not r.fresh],
        [r for r in target.observations if r.fresh],
        job.lead,
    )
    if min(len(before), len(today)) < 2:  # noqa: PLR2004 - a spread takes two values
        return None
    known = _known(job.noise, target.observations)
    effect = difference(before, today, job.lead, known=known, strata=strata)
    share = effect.ln_ratio / job.effect
    return effect if effect.p < ALPHA and share >= _LEAST_SHARE else None


def sides_differ(
    space: SearchSpace, group: CandidateGroup, other: CandidateGroup | None = None
) -> bool:
    """Whether the images before and after a group differ by more than image noise.

    Always true without image noise. With another step, only the images on this side of it count,
    and a part of the effect of either sign is enough.
    """
    noise, effect = space.job.noise, space.job.effect
    if not noise.image:
        return True
    first, last = group.positions[0], group.positions[-1]
    low, high = 0, len(space.revisions)
    if other is not None and other.positions[0] < first:
        low = other.positions[-1]
    elif other is not None:
        high = other.positions[0]
    images = space.images
    before = link_order.level_of(space, [one for one in images if low <= one.position < first])
    after = link_order.level_of(space, [one for one in images if last <= one.position < high])
    if before is None or after is None:
        return False
    shift = after.mean - before.mean
    variance = before.variance + after.variance + link_order.offset_variance(space, before, after)
    p = 2 * float(special.ndtr(-abs(shift) / math.sqrt(variance)))
    if other is not None:
        return p < ALPHA and abs(shift / effect) >= _LEAST_PART
    return p < ALPHA and shift / effect >= _LEAST_SHARE


def _name(
    space: SearchSpace,
    group: CandidateGroup,
    posterior: Posterior,
    good: list[Observation],
    bad: list[Observation],
) -> Culprit | Suspects:
    job, revisions = space.job, space.revisions
    if len(group.positions) == 1:
        (culprit,) = group.positions
        known = _known(job.noise, (*good, *bad))
        found = link_order.effects(job, good, bad) if link_order.can_average(job) else ()
        found = found or effects(good, bad, job.lead, job.scenarios, known)
        return Culprit(
            revisions[culprit],
            revisions[culprit - 1],
            posterior,
            found,
            min(1.0, group.probability),
        )
    suspects = tuple(revisions[position] for position in group.positions)
    blocked = [name for name in suspects if space.target_at[revisions.index(name)] is None]
    return Suspects(
        suspects,
        posterior,
        f"{len(blocked)} of them cannot be measured; "
        f"{blocked[0][:12]}: {_skip_reason(space, blocked[0])}",
    )


def credible_range(
    space: SearchSpace, probabilities: NDArray[np.float64], posterior: Posterior
) -> Suspects | None:
    """The shortest range that contains the culprit with probability `RANGE_MASS`.

    None without image noise, if the range is long, or if the images before and after it do not
    differ by more than image noise. At least two candidates: one alone would need verification.
    """
    where = np.flatnonzero(space.possible)
    if not space.job.noise.image or len(where) < 2:  # noqa: PLR2004 - as said
        return None
    sums = np.concatenate([[0.0], np.cumsum(probabilities[where])])
    start = np.arange(len(where) - 1)
    stop = np.searchsorted(sums, sums[start] + RANGE_MASS - 1e-12, side="left")
    start, stop = start[stop < len(sums)], stop[stop < len(sums)]
    stop = np.maximum(stop, start + 2)
    if not len(start):
        return None
    # Among ranges of equal length, the most likely.
    best = int(np.lexsort((sums[start] - sums[stop], stop - start))[0])
    first, last = int(start[best]), int(stop[best])
    if last - first > _longest(space):
        return None
    positions = tuple(where[first:last].tolist())
    group = CandidateGroup(positions, float(sums[last] - sums[first]), None, None)
    if not sides_differ(space, group):
        return None
    revisions = tuple(space.revisions[i] for i in positions)
    return Suspects(revisions, posterior, "the offsets of their kernels hide which of them it is")


def _longest(space: SearchSpace) -> int:
    return max(3, len(space.revisions) // 8)


def _why(space: SearchSpace, group: CandidateGroup) -> str:
    first, last = group.positions[0], group.positions[-1]
    culprit, parent = space.revisions[last][:12], space.revisions[first - 1][:12]
    if first == last:
        return f"verifies {culprit} against its parent {parent}"
    return f"verifies that the change lies among {len(group.positions)} neighbours up to {culprit}"


def _skip_reason(space: SearchSpace, revision: str) -> str:
    return space.evidence.skipped.get(revision, "its boots give no valid sample")
