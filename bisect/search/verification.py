"""Verification: fresh, interleaved boots of the candidate and its parent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.evidence import Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Culprit, Effect, Posterior, Suspects, Trial, Unfinished
from netbisect.bisect.search import link_order
from netbisect.bisect.search.kernel_comparison import (
    LEAST_PART,
    LEAST_SHARE,
    VERIFIES,
    KernelComparison,
    max_boots,
    verifications,
)
from netbisect.bisect.search.search_space import SearchSpace, Target, spread_of_boots
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.effect import code_interval, effects
from netbisect.bisect.stats.sequential import BLOCK, COMPARES_ENDS, SequentialTest

NAMING_THRESHOLD = 0.99
"""Probability at which a verified candidate, or group of candidates, is named."""
RANGE_MASS = 0.95
"""Probability of a range of suspects within which image noise hides the culprit."""
PROOF_THRESHOLD = 0.8
"""Probability at which verification begins: its boots are as informative as others."""
_MOST_VERIFICATIONS = 5
"""Maximum candidates that a search with an unknown noise may have begun to verify before it reports
a range: more show that the posterior errs."""
_INTERVAL = 3.92
"""Width of a 95 % interval in standard errors."""
_CLEAR_OF_IMAGES = 6.0
"""Minimum ratio of the effect to the image noise at which boots of the two ends alone can tell
whether anything changed."""


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Candidates without a measurable kernel between them; mostly a single one."""

    positions: tuple[int, ...]
    probability: float
    good: Target | None
    """Last measurable kernel before them."""
    bad: Target | None
    """First measurable kernel from the last of them on."""


def candidate_groups(space: SearchSpace, probabilities: Floats, count: int) -> list[CandidateGroup]:
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


def verify(
    space: SearchSpace,
    group: CandidateGroup,
    posterior: Posterior,
    prices: Prices,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
    other: CandidateGroup | None = None,
) -> Trial | Culprit | Suspects | Unfinished | Wait | None:
    """Next step of the verification that the culprit is in `group`.

    Only boots that were ordered for it count, in whole blocks (`KernelComparison`). With image
    noise, the images on both sides must differ too; if the lab can link other layouts, culprit and
    parent are compared by their means over layouts instead.

    Args:
        space: The job and its evidence.
        group: The suspected candidates.
        posterior: Posterior of the search.
        prices: Prices of its trials.
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
    if (
        1 < len(group.positions) == len(space.revisions) - 1
        and _ends_differ(space)
        and not link_order.can_average(job)
        and sides_differ(space, group, other)
    ):
        return _suspects(space, group, posterior)
    two = posterior.two > 0.5  # noqa: PLR2004 - likelier than not; either may have the other sign
    least = (LEAST_PART if two else LEAST_SHARE) * abs(job.effect)
    test = KernelComparison(group.good, group.bad, _why(space, group), least, two)
    tested = test.result(space)
    if tested is not None:
        over = 2 * tested.pairs >= max_boots(job, prices)
        images = link_order.difference(space, group.good, group.bad)
        if link_order.can_average(job) and images is not None:
            shown, refuted = _judge(job, images, least, both_signs=two)
        else:
            clear = tested.shown and (tested.is_precise or over)
            shown = clear and (
                _exceeds_images(job, tested, least) or sides_differ(space, group, other)
            )
            refuted = tested.refuted or (clear and not shown)
        if shown:
            return _name(space, group, posterior, tested)
        if refuted or over:
            return None
    ordered = test.next_trial(space, posterior, prices, in_flight)
    if isinstance(ordered, Wait) or not link_order.can_average(job):
        return ordered
    boots = tested.pairs if tested is not None else 0
    side = group.good if ordered.revision == group.good.revision else group.bad
    target = _layout(space, side, boots, 2 * least, in_flight)
    return replace(ordered, revision=target.revision, layout=target.layout)


def comparison_of_ends(space: SearchSpace) -> KernelComparison | None:
    """The test whether the ends differ; None if one of them cannot be measured."""
    good, bad = space.target_at[0], space.target_at[-1]
    if good is None or bad is None or good is bad:
        return None
    return KernelComparison(good, bad, COMPARES_ENDS, LEAST_SHARE * abs(space.job.effect))


def _ends_differ(space: SearchSpace) -> bool:
    """Whether the comparison of the ends has shown a change."""
    if not any(r.order == COMPARES_ENDS for r in space.evidence.observations):
        return False
    test = comparison_of_ends(space)
    tested = test.result(space) if test is not None else None
    return tested is not None and tested.shown and not is_blurred(space.job)


def is_blurred(job: BisectJob) -> bool:
    """Whether two images without a change may differ by as much as the effect."""
    return abs(job.effect) < _CLEAR_OF_IMAGES * job.noise.image


def without_refuted(space: SearchSpace) -> SearchSpace:
    """The space without the hypotheses that a test has refuted.

    These are candidates, unless all of them are refuted, and that nothing changed.
    """
    space = replace(space, changed=_ends_differ(space))
    if link_order.can_average(space.job):
        return space
    possible = space.possible.copy()
    for position in np.flatnonzero(space.possible).tolist():
        possible[position] = not _is_refuted(space, position, both_signs=True)
    return replace(space, possible=possible) if possible.any() else space


def _is_refuted(space: SearchSpace, position: int, *, both_signs: bool = False) -> bool:
    """Whether its verification has refuted a candidate as a step of the search, or of any sign."""
    good, bad = space.target_at[position - 1], space.target_at[position]
    if good is None or bad is None or not (good.boots and bad.boots):
        return False
    why = _why(space, CandidateGroup((position,), 1.0, good, bad))
    if not any(r.order == why for r in space.evidence.observations):
        return False
    least = LEAST_SHARE * abs(space.job.effect)
    tested = KernelComparison(good, bad, why, least, both_signs).result(space)
    return tested is not None and tested.refuted


def _layout(
    space: SearchSpace, target: Target, boots: int, effect: float, in_flight: InFlight
) -> Target:
    """The next layout of this side; further ones if the boots are not conclusive."""
    wanted = link_order.layouts_needed(space, effect)
    if boots > BLOCK // 2:
        wanted = max(wanted, space.job.layouts + 1)
    return link_order.next_layout(space, target, wanted, in_flight)


def _judge(job: BisectJob, found: Effect, least: float, *, both_signs: bool) -> tuple[bool, bool]:
    """Whether the means over layouts show an effect, and whether they refute it."""
    sign = math.copysign(1.0, job.effect)
    shift, most = sign * found.ln_ratio, max(sign * found.low, sign * found.high)
    if both_signs:
        shift, most = abs(shift), max(abs(found.low), abs(found.high))
    return found.p < ALPHA and shift >= least, most < least


def _exceeds_images(job: BisectJob, tested: SequentialTest, least: float) -> bool:
    """Whether a test with a robust interval shows more than the offsets of two images.

    Levels of images, as in `sides_differ`, do not tell two modes apart.
    """
    if tested.interval is None or abs(tested.mean) < least:
        return False
    low, high = tested.interval
    error = math.hypot((high - low) / _INTERVAL, math.sqrt(2) * job.noise.image)
    return 2 * float(special.ndtr(-abs(tested.mean) / error)) < ALPHA


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
        return p < ALPHA and abs(shift / effect) >= LEAST_PART
    return p < ALPHA and shift / effect >= LEAST_SHARE


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
    return _suspects(space, group, posterior)


def _suspects(space: SearchSpace, group: CandidateGroup, posterior: Posterior) -> Suspects:
    suspects = tuple(space.revisions[position] for position in group.positions)
    blocked = [name for name in suspects if space.target_at[space.revisions.index(name)] is None]
    return Suspects(
        suspects,
        posterior,
        f"{len(blocked)} of them cannot be measured; "
        f"{blocked[0][:12]}: {_skip_reason(space, blocked[0])}",
    )


def _effects(
    space: SearchSpace, group: CandidateGroup, tested: SequentialTest
) -> tuple[Effect, ...]:
    """The effects of a culprit: the lead by its proof, the others by all fresh boots.

    The intervals are those of the commit: they include image noise, which `p` of the two kernels
    does not.
    """
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
    (lead,) = effects(fast, slow, job.lead, (), spread_of_boots(job.noise, (*fast, *slow)))
    others = effects(good, bad, job.lead, job.scenarios)[1:]
    lead = replace(lead, p=tested.p)
    if tested.interval is not None:
        low, high = tested.interval
        lead = replace(lead, ln_ratio=tested.mean, low=low, high=high)
    measured = [(one, *code_interval(one, job.noise)) for one in (lead, *others)]
    return tuple(replace(one, low=low, high=high) for one, low, high in measured)


def credible_range(
    space: SearchSpace, probabilities: Floats, posterior: Posterior
) -> Suspects | None:
    """The shortest range that contains the culprit with probability `RANGE_MASS`.

    None without image noise, if the range is long, if the images before and after it do not differ
    by more than image noise, or if its verification has refuted the only likely candidate. With an
    unknown noise, also if many candidates were to be verified: the noise misleads the posterior. At
    least two candidates: one alone would need verification.
    """
    where, noise = np.flatnonzero(space.possible), space.job.noise
    if not noise.image or len(where) < 2:  # noqa: PLR2004 - see above
        return None
    tried = len(verifications(space.evidence.observations))
    if not noise.is_known and tried > _MOST_VERIFICATIONS:
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
    likeliest = max(positions, key=lambda position: probabilities[position])
    alone = probabilities[likeliest] >= RANGE_MASS
    if not sides_differ(space, group) or (alone and _is_refuted(space, likeliest)):
        return None
    revisions = tuple(space.revisions[i] for i in positions)
    return Suspects(
        revisions, posterior, "boots and builds differ by chance, which hides the culprit"
    )


def _longest(space: SearchSpace) -> int:
    return max(3, len(space.revisions) // 8)


def _why(space: SearchSpace, group: CandidateGroup) -> str:
    first, last = group.positions[0], group.positions[-1]
    culprit, parent = space.revisions[last][:12], space.revisions[first - 1][:12]
    if first == last:
        return f"{VERIFIES}{culprit} against its parent {parent}"
    return f"{VERIFIES}that the change lies among {len(group.positions)} neighbours up to {culprit}"


def _skip_reason(space: SearchSpace, revision: str) -> str:
    return space.evidence.skipped.get(revision, "its boots give no valid sample")
