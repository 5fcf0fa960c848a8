"""Verification: fresh, interleaved boots of the candidate and its parent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from netbisect.bisect.search.search_space import SearchSpace, Target, testbed_of
from netbisect.bisect.stats.effect import SpreadPrior, difference, effects, sides
from netbisect.bisect.stats.robust import LEAST_BOOT_SD
from netbisect.bisect.stats.sequential import (
    BLOCK,
    BlockBoot,
    Blocks,
    SequentialTest,
    blocks_of,
    differences_of,
    effects_between,
    next_side,
    sequential_test,
)

NAMING_THRESHOLD = 0.99
"""Probability at which a verified candidate, or group of candidates, is named."""
RANGE_MASS = 0.95
"""Probability of a range of suspects within which image noise hides the culprit."""
PROOF_THRESHOLD = 0.8
"""Probability at which verification begins: its boots are as informative as others."""
ALPHA = 0.01
RUNS = (1, 2, 4, 8, 12)
"""Possible numbers of runs per boot."""
_MOST_BOOTS = 10
"""Boots of each side at which an undecided verification fails, at least."""
_LEAST_SHARE, _LEAST_PART = 0.5, 0.2
"""Minimum difference, as a share of the expected effect; the second value for two steps."""
_KNOWN_WEIGHT = 4.0
"""Degrees of freedom of the noise of the job, on each side."""
CLEAR = 5.5
"""Ratio of the effect to the standard deviation of the mean of a boot's runs, at an end and in a
verification."""
_MOST_SHARE = 1.5
"""Maximum effect, as a share of the expected effect."""
_VERIFIES = "verifies "
"""Begins the reason of the trials of a verification."""


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


def runs_per_boot(noise: Noise, effect: float, clear: float) -> int:
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

    Only boots that were ordered for it count, in whole blocks of one testbed (`stats.sequential`):
    a boot that the search chose was chosen for the value of others. With image noise, the images
    on both sides must differ too; if the lab can link other layouts, culprit and parent are
    compared by their means over layouts instead.

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
    job, why = space.job, _why(space, group)
    blocks = proof_blocks(space, group.good, group.bad, why)
    two = posterior.two > 0.5  # noqa: PLR2004 - one of two may have the other sign
    tested = _tested(job, blocks, _smallest_effect(job, posterior), both_signs=two)
    if tested is not None:
        images = link_order.difference(space, group.good, group.bad)
        if link_order.can_average(job) and images is not None:
            shown = _significant(job, images, posterior)
            refuted = _refuted(job, images, posterior)
        else:
            shown = tested.shown and sides_differ(space, group, other)
            refuted = tested.refuted
        if shown:
            return _name(space, group, posterior, tested)
        if refuted or tested.pairs >= max_boots(job):
            return None
    testbed = in_flight.testbed or job.testbed
    running = [v.testbed or job.testbed for v in in_flight.under_way if v.why == why]
    fast = next_side(blocks, why, testbed, running)
    if fast is None:
        return Wait.WAIT
    target = group.good if fast else group.bad
    if link_order.can_average(job):
        boots = tested.pairs if tested is not None else 0
        target = _layout(space, target, boots, 2 * _smallest_effect(job, posterior), in_flight)
    runs = runs_per_boot(job.noise, 2 * _smallest_effect(job, posterior), CLEAR)
    return Trial(target.revision, why, posterior, runs, in_flight.testbed, target.layout)


def proof_blocks(space: SearchSpace, good: Target, bad: Target, why: str) -> dict[str, Blocks]:
    """The blocks of a verification by testbed, from the order of the boots.

    Args:
        space: The job and its evidence.
        good: Last kernel before the candidates.
        bad: First kernel from the candidates on.
        why: The reason of its trials.
    """
    job, boots = space.job, list[BlockBoot]()
    fast = {id(r) for r in link_order.observations_of(space, good)}
    slow = {id(r) for r in link_order.observations_of(space, bad)}
    for r in space.evidence.observations:
        is_good = id(r) in fast
        mine = r.order == why and r.fresh and (is_good or id(r) in slow)
        value = r.ln_pps.get(job.lead)
        boots.append(BlockBoot(testbed_of(job, r), is_good if mine else None, value, r.runs))
    return blocks_of(boots, why)


def _tested(
    job: BisectJob, blocks: dict[str, Blocks], least: float, *, both_signs: bool
) -> SequentialTest | None:
    """The test of all whole blocks for an effect from `least` on; None if there is none."""
    differences, runs = differences_of(blocks)
    if not differences:
        return None
    most = _MOST_SHARE * job.effect
    mixture = effects_between(math.copysign(least, most), most)
    if both_signs:
        mixture = np.concatenate([mixture, -mixture])
    return sequential_test(differences, math.sqrt(job.noise.variance_of_boot(runs)), mixture)


def without_refuted(space: SearchSpace) -> SearchSpace:
    """The space without the candidates whose verification refuted them; unless these are all."""
    reasons = {r.order for r in space.evidence.observations if r.order.startswith(_VERIFIES)}
    if not reasons:
        return space
    possible = space.possible.copy()
    for position in np.flatnonzero(space.possible).tolist():
        good, bad = space.target_at[position - 1], space.target_at[position]
        if good is None or bad is None or link_order.can_average(space.job):
            continue
        why = _why(space, CandidateGroup((position,), 1.0, good, bad))
        if why in reasons:
            blocks, least = (
                proof_blocks(space, good, bad, why),
                _LEAST_SHARE * abs(space.job.effect),
            )
            tested = _tested(space.job, blocks, least, both_signs=True)
            possible[position] = tested is None or not tested.refuted
    return replace(space, possible=possible) if possible.any() else space


def _layout(
    space: SearchSpace, target: Target, boots: int, effect: float, in_flight: InFlight
) -> Target:
    """The next layout of this side; further ones if the boots are not conclusive."""
    wanted = link_order.layouts_needed(space, effect)
    if boots > BLOCK // 2:
        wanted = max(wanted, space.job.layouts + 1)
    return link_order.next_layout(space, target, wanted, in_flight)


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
    space: SearchSpace, group: CandidateGroup, posterior: Posterior, tested: SequentialTest
) -> Culprit | Suspects:
    revisions = space.revisions
    if len(group.positions) == 1:
        (culprit,) = group.positions
        return Culprit(
            revisions[culprit],
            revisions[culprit - 1],
            posterior,
            _effects(space, group, tested),
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


def _effects(
    space: SearchSpace, group: CandidateGroup, tested: SequentialTest
) -> tuple[Effect, ...]:
    """The effects of a culprit: the lead by its proof, the others by all fresh boots."""
    job, why = space.job, _why(space, group)
    assert group.good is not None
    assert group.bad is not None
    good, bad = (
        [r for r in link_order.observations_of(space, target) if r.fresh]
        for target in (group.good, group.bad)
    )
    if link_order.can_average(job) and (found := link_order.effects(job, good, bad)):
        return found
    fast, slow = ([r for r in side if r.order == why] for side in (good, bad))
    (lead,) = effects(fast, slow, job.lead, (), _known(job.noise, (*fast, *slow)))
    others = effects(good, bad, job.lead, job.scenarios)[1:]
    return (replace(lead, p=tested.p), *others)


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
        return f"{_VERIFIES}{culprit} against its parent {parent}"
    return (
        f"{_VERIFIES}that the change lies among {len(group.positions)} neighbours up to {culprit}"
    )


def _skip_reason(space: SearchSpace, revision: str) -> str:
    return space.evidence.skipped.get(revision, "its boots give no valid sample")
