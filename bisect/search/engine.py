"""Search for the culprit: the next trial, or the result.

Every move is computed from the job and the evidence alone. The next boot has the highest expected
information gain per second of the lab, builds included, so the search itself decides whether to
split the range, to measure an end again or to repeat a doubtful boot.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from netbisect.bisect.model.evidence import Evidence, Prices, kernel_name
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    Move,
    NotReproduced,
    Posterior,
    SeveralCulprits,
    Suspects,
    Trial,
    Unfinished,
)
from netbisect.bisect.search import link_order
from netbisect.bisect.search.information_gain import information_gain
from netbisect.bisect.search.kernel_comparison import RUNS, VERIFIES, max_boots
from netbisect.bisect.search.posterior import JointPosterior, infer
from netbisect.bisect.search.search_space import SearchSpace, Target, build_search_space
from netbisect.bisect.search.verification import (
    NAMING_THRESHOLD,
    PROOF_THRESHOLD,
    candidate_groups,
    comparison_of_ends,
    credible_range,
    is_blurred,
    verify,
)
from netbisect.bisect.stats.arrays import Floats

_CLEAR = 5.5
"""Ratio of the effect to the standard deviation of the mean of the runs, at the first boot of an
end."""

NONE_THRESHOLD = 0.95
"""Probability of no change at which a search ends."""
_COMPARE_ENDS = 0.5
"""Probability of no change from which the next boots are those of a test of the ends."""
_NOTHING = 0.05
"""Level at which the test of the ends refutes a change."""
_ANOTHER, _ANOTHER_CHEAP = 0.07, 0.015
"""Probability of a second step at which a search continues after its first verified culprit, if
the next trial needs a build. It falls in proportion to the cost of the trial, down to the second
value. With image noise, which hides small second steps, it is always the first."""
_ANOTHER_BOOTS = 8
"""Boots after a verification in which a second step has to become likelier than not. Without the
limit, levels that wander keep a search at a second step that is never found."""
_LEAST_GAIN, _LEAST_SHARE = 0.002, 0.005
"""Minimum gain of a boot: bits, and share of the missing bits. Only image noise makes the gain so
small, because boots do not average it out."""
_LITTLE_SHARE = 0.006
"""Share of the missing bits: less is not worth a boot if the only open point is which of a few
neighbours it is. A share, for a search that is nearly sure gets there by small steps, and one that
wavers between two kernels which are measured well does not by large ones."""
_LITTLE_OF_LAYOUTS = 0.001
"""The same if the lab can link further layouts, which do average image noise out."""
_NO_GAIN = 1e-4
"""Minimum gain in bits, without image noise."""
_HALVINGS = 2
"""How many times a search goes on for half the effect."""
_BIT_VALUE = 1.3
"""Value of a bit in seconds, relative to its cost at the chosen target with one run."""
_FAILURE_REACH = 5.0
"""Distance in commits over which a failure makes failures of neighbours likely."""

_WAITING_SHARE = 0.1
"""Share of the best information rate without running trials; a testbed below it waits."""


def next_move(
    job: BisectJob, evidence: Evidence, prices: Prices, in_flight: InFlight = NOTHING_IN_FLIGHT
) -> Move | Wait:
    """The next trial of a testbed, or the result; computed from its arguments alone."""
    space = build_search_space(job, evidence)
    return decide(space, infer(space, in_flight.testbed), prices, in_flight)


def decide(
    space: SearchSpace,
    joint: JointPosterior,
    prices: Prices,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
) -> Move | Wait:
    """As `next_move`, with the posterior given.

    A search that its boots do not settle goes on for half the effect: a retest ends as soon as it
    shows a change, and may overestimate it. With an unknown noise, so does one that finds no
    change: if boots have two modes, a retest may have taken their distance for the effect.
    """
    unknown = not space.job.noise.is_known
    move = _decide(space, joint, prices, in_flight)
    for _ in range(_HALVINGS):
        used = _fresh_boots(space) >= max_boots(space.job, prices)
        unsettled = isinstance(move, Unfinished) and used
        if not unsettled and not (unknown and isinstance(move, NotReproduced)):
            break
        space = replace(space, job=replace(space.job, effect=space.job.effect / 2))
        move = _decide(space, infer(space, in_flight.testbed), prices, in_flight)
    return move


def _decide(
    space: SearchSpace, joint: JointPosterior, prices: Prices, in_flight: InFlight
) -> Move | Wait:
    space = replace(space, offsets=joint.offsets)
    spent = _spent(space, prices) >= space.job.budget_seconds
    ended = _end_without_culprit(space, joint, prices, in_flight)
    if ended is not None and not (spent and isinstance(ended, Trial | Wait)):
        return ended
    move, proved = _proof(space, joint, prices, in_flight)
    if move is not None and not (spent and isinstance(move, Trial | Wait)):
        return move
    limit = _limit(space, prices)
    if limit:
        return _give_up(space, joint, proved, limit)
    if not space.targets:
        return Unfinished("none of the revisions can be measured", joint.posterior)
    found = _most_informative(space, joint, prices, in_flight, proved)
    if proved and not _seek_second_step(space, joint, found, prices):
        return proved[0]
    # A running trial, or a builder that becomes free, may still change this.
    waits = in_flight.under_way or not in_flight.may_build
    return Wait.WAIT if waits and isinstance(found, Suspects | Unfinished) else found


def _proof(
    space: SearchSpace, joint: JointPosterior, prices: Prices, in_flight: InFlight
) -> tuple[Move | Wait | None, list[Culprit]]:
    """The next move of the verification, if any, and the verified culprits."""
    posterior = joint.posterior
    proved: list[Culprit] = []
    open_proof: Trial | Wait | None = None
    unproved: Suspects | Unfinished | None = None
    found = [
        one
        for one in candidate_groups(space, joint.any_step, 2)
        if one.probability >= PROOF_THRESHOLD
    ]
    for group in found:
        both = posterior.two > 0.5 and len(found) > 1  # noqa: PLR2004 - likelier than not
        other = next((one for one in found if one is not group), None) if both else None
        proof = verify(space, group, posterior, prices, in_flight, other)
        if isinstance(proof, Trial | Wait):
            # A waiting verification leaves this testbed to the next one.
            open_proof = proof if not isinstance(open_proof, Trial) else open_proof
        elif group.probability >= NAMING_THRESHOLD and isinstance(proof, Culprit):
            proved.append(proof)
        elif group.probability >= NAMING_THRESHOLD and isinstance(proof, Suspects | Unfinished):
            unproved = unproved or proof
    if len(proved) > 1:
        ranked = sorted(proved, key=lambda one: -abs(one.effects[0].ln_ratio))
        return SeveralCulprits(tuple(ranked), posterior), proved
    if _fresh_boots(space) >= 2 * max_boots(space.job, prices):
        open_proof = None
    if unproved is not None and open_proof is None and not proved:
        return unproved, []
    least = _ANOTHER if space.job.noise.image else _ANOTHER_CHEAP
    if open_proof is None and proved and posterior.two < least:
        return proved[0], proved
    return open_proof, proved


def _seek_second_step(
    space: SearchSpace, joint: JointPosterior, move: Move | Wait, prices: Prices
) -> bool:
    """Whether to look for a second step after the first verified culprit."""
    if not isinstance(move, Trial):
        return isinstance(move, Wait)
    orders = [r.order for r in space.evidence.observations if r.fresh][-_ANOTHER_BOOTS:]
    likely = joint.posterior.two > 0.5  # noqa: PLR2004 - likelier than not
    if not likely and not any(why.startswith(VERIFIES) for why in orders):
        return False
    share = 1.0
    if not space.job.noise.image:
        name = kernel_name(move.revision, move.layout)
        make = 0.0 if name in space.evidence.kernels else prices.of_kernel(move.layout)
        boot = prices.boot + move.runs * prices.run * len(space.job.scenarios)
        highest = prices.build + boot
        share = (make + boot) / highest if highest else 1.0
    return joint.posterior.two >= max(_ANOTHER_CHEAP, _ANOTHER * share)


def _limit(space: SearchSpace, prices: Prices) -> str:
    """Why a search has to end; "" if it may continue."""
    used = _fresh_boots(space)
    if used >= max_boots(space.job, prices):
        return f"{used} boots did not settle it"
    spent = _spent(space, prices)
    if spent >= space.job.budget_seconds:
        return f"the budget is spent after {spent / 3600:.1f} hours"
    return ""


def _fresh_boots(space: SearchSpace) -> int:
    return sum(observation.fresh for observation in space.evidence.observations)


def _end_without_culprit(
    space: SearchSpace, joint: JointPosterior, prices: Prices, in_flight: InFlight
) -> Move | Wait | None:
    """The result without a culprit, or the boot that it still needs; None if neither."""
    posterior = joint.posterior
    if posterior.none >= _COMPARE_ENDS:
        sure = posterior.none >= NONE_THRESHOLD
        unchanged = NotReproduced(posterior, _why_none(space)) if sure else None
        ended = _without_change(space, posterior, prices, in_flight, unchanged)
        if ended is not None:
            return ended
    if posterior.drift >= NAMING_THRESHOLD:
        return Drift(posterior, f"{len(space.images)} kernels of the range lie along a slope")
    return None


def _without_change(
    space: SearchSpace,
    posterior: Posterior,
    prices: Prices,
    in_flight: InFlight,
    unchanged: NotReproduced | None,
) -> Move | Wait | None:
    """The result that nothing changed, once the test of the ends agrees.

    The posterior ignores the time of boots; the test does not.

    Args:
        space: The job and its evidence.
        posterior: Posterior of the search.
        prices: Prices of the boots of the test.
        in_flight: Running builds and trials.
        unchanged: The result; None if the posterior does not allow it yet.
    """
    test = comparison_of_ends(space) if space.possible.any() else None
    if test is None:
        return unchanged
    tested = test.result(space)
    blurred = is_blurred(space.job)
    if tested is not None and (blurred or tested.refuted_at(_NOTHING)):
        return unchanged
    if tested is not None and tested.shown:
        return None
    if tested is not None and 2 * tested.pairs >= max_boots(space.job, prices):
        metric = metric_of(space.job.lead)
        low, high = map(metric.percent, metric.ends(tested.low, tested.high))
        further = tested.boots_to_decide(math.copysign(test.least, space.job.effect))
        return Unfinished(
            f"{tested.pairs} boots of each end leave a change of {low:.1f} to {high:.1f} % open; "
            f"about {further} further boots would decide it",
            posterior,
        )
    return test.next_trial(space, posterior, prices, in_flight)


def _spent(space: SearchSpace, prices: Prices) -> float:
    """Seconds of the lab for the fresh boots and their kernels."""
    job, fresh = space.job, [r for r in space.evidence.observations if r.fresh]
    ends = {space.revisions[0], space.revisions[-1]}
    runs = sum(observation.runs for observation in fresh) * len(job.scenarios)
    built = len({r.revision for r in fresh if not r.layout} - ends)
    relinked = len({(r.revision, r.layout) for r in fresh if r.layout})
    made = built * prices.build + relinked * prices.of_kernel(1)
    return len(fresh) * prices.boot + runs * prices.run + made


def _give_up(space: SearchSpace, joint: JointPosterior, proved: list[Culprit], why: str) -> Move:
    """Result of a search that cannot continue: a verified culprit, a range, or none."""
    if proved:
        return proved[0]
    found = credible_range(space, joint.any_step, joint.posterior)
    return found or Unfinished(why, joint.posterior)


def _most_informative(
    space: SearchSpace,
    joint: JointPosterior,
    prices: Prices,
    in_flight: InFlight,
    proved: list[Culprit],
) -> Move | Wait:
    """The trial with the highest information gain per second, or the end if none gains anything."""
    end = _measure_end(space, joint, in_flight)
    if end is not None:
        return end
    further = link_order.further_layouts(space, in_flight)
    space = replace(space, targets=(*space.targets, *further))
    options = RUNS if space.job.noise.run else RUNS[:1]
    ahead = in_flight.under_way
    bits = np.array([information_gain(space, joint, runs, ahead) for runs in options])
    if not in_flight.may_build:
        bits *= [target.built or _name(target) in in_flight.building for target in space.targets]
    open_, more = joint.posterior.bits, not all(target.boots for target in further)
    least = min(_LEAST_GAIN, (_LITTLE_OF_LAYOUTS if more else _LEAST_SHARE) * open_)
    if bits.max() < (max(_NO_GAIN, least) if space.job.noise.image else _NO_GAIN):
        return _give_up(space, joint, proved, _why_stuck(space, joint))
    if bits.max() < (_LITTLE_OF_LAYOUTS if more else _LITTLE_SHARE) * open_:
        found = credible_range(space, joint.any_step, joint.posterior)
        if found is not None:
            return found
    if ahead:
        alone = np.array([information_gain(space, joint, runs) for runs in options])
        most = _rates(space, alone, prices, in_flight)[0].max()
        if _rates(space, bits, prices, in_flight)[0].max() < _WAITING_SHARE * most:
            return Wait.WAIT
    target, runs = _best_target(space, joint, bits, prices, in_flight)
    return _trial(space, joint, target, runs, in_flight)


def _measure_end(space: SearchSpace, joint: JointPosterior, in_flight: InFlight) -> Trial | None:
    """The first boots: the good end, then the bad end, with more runs than later boots.

    A further testbed starts with the good end too, as its reference.
    """
    first, last = space.targets[0], space.targets[-1]
    runs = _runs_at_end(space.job)
    if not space.images or (in_flight.testbed and in_flight.testbed not in space.testbeds):
        target = first if first.position == 0 else last
        return _trial(space, joint, target, runs, in_flight)
    ahead = any(trial.revision != space.revisions[0] for trial in in_flight.under_way)
    if last.built and not ahead and not any(target.boots for target in space.targets[1:]):
        return _trial(space, joint, last, runs, in_flight)
    return None


def _runs_at_end(job: BisectJob) -> int:
    """The fewest runs that make run noise small compared with the effect."""
    wanted = max(abs(job.effect) / _CLEAR, job.noise.boot)
    return next((runs for runs in RUNS if job.noise.run / math.sqrt(runs) <= wanted), RUNS[-1])


def _best_target(
    space: SearchSpace,
    joint: JointPosterior,
    bits: Floats,
    prices: Prices,
    in_flight: InFlight,
) -> tuple[Target, int]:
    """Target and runs with the best information rate; among equals, next to the median."""
    rate, seconds = _rates(space, bits, prices, in_flight)
    # Nine digits: beyond that, the order of additions decides.
    rate = np.round(rate / rate.max(), 9)
    below = np.cumsum(joint.any_step)
    median = int(np.searchsorted(below, below[-1] / 2))
    away = np.array([abs(target.position - median) for target in space.targets])
    i = int(np.lexsort((np.arange(len(away)), away, -rate.max(axis=0)))[0])
    # Missing bits cost another boot, so a bit is worth more than its present cost.
    worth = _BIT_VALUE * seconds[:, i].min() / max(bits[np.argmin(seconds[:, i]), i], 1e-9)
    k = int(np.argmax(np.round(bits[:, i] * worth - seconds[:, i], 6)))
    return space.targets[i], RUNS[k]


def _rates(
    space: SearchSpace, bits: Floats, prices: Prices, in_flight: InFlight
) -> tuple[Floats, Floats]:
    """Expected bits per second of a trial, and its seconds, by number of runs and target."""
    # What a user excludes says nothing about its neighbours.
    broken = space.evidence.skipped.keys() - space.evidence.marks.keys()
    skipped = [i for i, name in enumerate(space.revisions) if name in broken]
    run = prices.run * len(space.job.scenarios)
    ready = np.array([_seconds_to_build(target, prices, in_flight) for target in space.targets])
    seconds = np.array([ready + prices.boot + run * runs for runs in RUNS[: len(bits)]])
    success = np.array([_success(target, skipped) for target in space.targets])
    return bits * success / np.maximum(seconds, 1.0), seconds


def _seconds_to_build(target: Target, prices: Prices, in_flight: InFlight) -> float:
    if target.built:
        return 0.0
    return in_flight.building.get(_name(target), prices.of_kernel(target.layout))


def _name(target: Target) -> str:
    return kernel_name(target.revision, target.layout)


def _success(target: Target, skipped: list[int]) -> float:
    """Probability that a target can be measured, by its distance from failed ones.

    One half next to a failure, because breakage spans several commits; one for kernels that are
    built or booted.
    """
    if target.boots or target.built or not skipped:
        return 1.0
    distance = min(abs(target.position - position) for position in skipped)
    return 1 - 0.5 * math.exp(-(max(distance, 1) - 1) / _FAILURE_REACH)


def _trial(
    space: SearchSpace, joint: JointPosterior, target: Target, runs: int, in_flight: InFlight
) -> Trial:
    if target.layout:
        again = " again" if target.boots else ""
        why = f"measures layout {target.layout} of {target.revision[:12]}{again}"
    else:
        why = _why(space, joint, target, in_flight.testbed)
    return Trial(target.revision, why, joint.posterior, runs, in_flight.testbed, target.layout)


def _why(space: SearchSpace, joint: JointPosterior, target: Target, testbed: str) -> str:
    if target is space.target_at[0]:
        first = not target.boots or (testbed and not space.on(target, testbed))
        there = f" on {testbed}" if first and testbed else ""
        return f"measures the good end{there}" if first else "measures the good end again"
    if target.boots:
        end = target is space.target_at[-1]
        return f"measures {'the bad end' if end else target.revision[:12]} again"
    if target is space.target_at[-1]:
        return "measures the bad end"
    share = float(joint.any_step[: target.position + 1].sum() / joint.any_step.sum())
    if 0.4 <= share <= 0.6:  # noqa: PLR2004 - about halves
        return "splits what is left in two halves"
    if not 0.02 < share < 0.98:  # noqa: PLR2004 - else no split
        return f"measures one more kernel of the {'bad' if round(share) else 'good'} side"
    return f"splits what is left {round(100 * share)} to {100 - round(100 * share)}"


def _why_none(space: SearchSpace) -> str:
    if not space.possible.any():
        return "both ends build the same kernel"
    if space.shift is not None:
        return (
            f"the good end itself changed by {space.shift.percent:+.1f} % since it was called "
            "good: it is the testbed or its surroundings, not a commit"
        )
    boots = sum(len(image.ln_pps) for image in space.images)
    return f"{boots} boots of {len(space.images)} kernels of the range show one level"


def _why_stuck(space: SearchSpace, joint: JointPosterior) -> str:
    found = candidate_groups(space, joint.any_step, 1)
    if found and found[0].probability >= NAMING_THRESHOLD:
        revision = space.revisions[found[0].positions[-1]]
        return f"boots of {revision[:12]} and of its parent do not differ as the search expects"
    return "builds differ in speed by chance, and further boots would add little"
