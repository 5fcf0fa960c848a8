"""Retest of two revisions by interleaved boots, until it is decided or too expensive.

By the test of `stats.sequential`. It ends if a change of the least effect is confirmed, if the
confidence sequence excludes it, or if its price exceeds `_PRICE` times the expected price of the
search that it may prevent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from netbisect.bisect.model.detection_results import ALPHA, BootModes
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Confirmed, Effect, Move, NotConfirmed, Trial, Unfinished
from netbisect.bisect.stats.boot_modes import modes_of, to_fast_mode
from netbisect.bisect.stats.effect import effects, yields_no_sample
from netbisect.bisect.stats.information import boots_of_search
from netbisect.bisect.stats.robust import LEAST_BOOT_SD
from netbisect.bisect.stats.sequential import (
    BLOCK,
    COMPARES_ENDS,
    LEAST_SECONDS,
    PRIOR_WEIGHT,
    BlockBoot,
    Blocks,
    SequentialTest,
    block_test,
    blocks_of,
    log_uniform_effects,
    next_side,
)

_PRICE = 2.0
"""Maximum price of a retest, relative to the expected price of the search."""
_RUNS_SHARE, _MOST_RUNS = 0.5, 12
"""Runs of a boot: share of their optimal number, and maximum. The optimum is that of long retests;
a quiet program is decided by the fewest boots, whatever their runs."""
_LEAST_BLOCKS, _MOST_BLOCKS = 4, 100
"""Blocks that a retest may always take, and its most."""


def next_move(
    job: CompareJob,
    evidence: Evidence,
    prices: Prices,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
) -> Move | Wait:
    """The next trial, or the result.

    Only fresh boots count, because the earlier ones were selected for their difference.
    """
    boots = _fresh(job, evidence)
    good, bad = ([one for one in boots if one.revision == end] for end in (job.good, job.bad))
    if (ended := _not_comparable(job, evidence, good, bad)) is not None:
        return ended
    modes, blocks, tested = _test(job, boots)
    seed = f"{job.good} {job.bad}"
    runs = _runs(job, evidence, prices)
    if tested is not None:
        lead = _lead(job, tested)
        others = effects(good, bad, job.lead, job.scenarios)
        found = (lead, *(one for one in others if one.scenario != job.lead))
        why = _reason_to_end(job, tested, prices, modes, runs)
        if why is not None:
            return NotConfirmed(found, why) if why else Confirmed(found)
    testbed = in_flight.testbed or job.testbed
    running = [trial.testbed or job.testbed for trial in in_flight.under_way]
    fast = next_side(blocks, seed, testbed, running)
    if fast is None:
        return Wait.WAIT
    side = job.good if fast else job.bad
    return Trial(side, COMPARES_ENDS, runs=runs, testbed=in_flight.testbed)


def so_far(job: CompareJob, evidence: Evidence, prices: Prices) -> tuple[Effect, int] | None:
    """The effect in the leading scenario, and the most boots; None before the first block."""
    _, _, tested = _test(job, _fresh(job, evidence))
    if tested is None:
        return None
    most = _most_boots(job, tested, prices, _runs(job, evidence, prices))
    return _lead(job, tested), math.ceil(most)


def _fresh(job: CompareJob, evidence: Evidence) -> list[Observation]:
    ends = (job.good, job.bad)
    return [o for o in evidence.observations if o.fresh and o.revision in ends and not o.layout]


def _test(
    job: CompareJob, boots: list[Observation]
) -> tuple[BootModes | None, dict[str, Blocks], SequentialTest | None]:
    """The modes of the boots, their blocks by testbed, and the test of the blocks."""
    modes = modes_of(job.noise) if job.noise else None
    blocks = blocks_of(_in_fast_mode(job, boots, modes))
    return modes, blocks, _tested(job, blocks, modes)


def _lead(job: CompareJob, tested: SequentialTest) -> Effect:
    pairs = tested.pairs
    return Effect(job.lead, tested.mean, tested.low, tested.high, tested.p, pairs, pairs)


def _not_comparable(
    job: CompareJob, evidence: Evidence, good: list[Observation], bad: list[Observation]
) -> NotConfirmed | Unfinished | None:
    """The result if the two cannot be compared: not measurable, or the same kernel."""
    for revision in (job.good, job.bad):
        if revision in evidence.skipped:
            return Unfinished(f"{revision[:12]} cannot be measured: {evidence.skipped[revision]}")
    kernels = [evidence.kernels.get(revision) for revision in (job.good, job.bad)]
    identities = {kernel.identity if kernel else "" for kernel in kernels}
    if len(identities) == 1 and "" not in identities:
        found = effects(good, bad, job.lead, job.scenarios)
        return NotConfirmed(found, "both revisions build the same kernel")
    for revision, boots in ((job.good, good), (job.bad, bad)):
        if yields_no_sample(boots, job.lead):
            return Unfinished(
                f"few of {len(boots)} boots of {revision[:12]} gave a valid sample of {job.lead}"
            )
    return None


def _in_fast_mode(
    job: CompareJob, boots: Sequence[Observation], modes: BootModes | None
) -> list[BlockBoot]:
    """The boots in their order, slow ones shifted to the fast mode of their kernel."""
    sides = defaultdict(list)
    for one in boots:
        if job.lead in one.ln_pps:
            sides[one.testbed, one.revision].append(one.ln_pps[job.lead])
    shifted = {side: iter(to_fast_mode(values, modes)) for side, values in sides.items()}
    return [
        BlockBoot(
            one.testbed or job.testbed,
            one.revision == job.good,
            next(shifted[one.testbed, one.revision]) if job.lead in one.ln_pps else None,
            one.runs,
        )
        for one in boots
    ]


def _tested(
    job: CompareJob, blocks: dict[str, Blocks], modes: BootModes | None
) -> SequentialTest | None:
    sign = math.copysign(1.0, job.suspected)
    noise = job.noise or Noise(boot_weight=0)

    def boot_sd(runs: int) -> float:
        return modes.boot if modes else math.sqrt(noise.variance_of_boot(runs))

    mixture = sign * log_uniform_effects(job.min_effect)
    return block_test(blocks, lambda _: noise, boot_sd, PRIOR_WEIGHT, mixture)


def _runs(job: CompareJob, evidence: Evidence, prices: Prices) -> int:
    """Runs of a boot: `_RUNS_SHARE` of the optimal allocation (Cochran 1977, section 10.6)."""
    if job.noise is None or not job.noise.run:
        return 1
    boot = prices.boot
    if len(evidence.kernels) <= 1:  # every second boot sets up the other kernel
        boot += prices.build / 2
    ratio = boot / max(prices.run * len(job.scenarios), 1e-9)
    best = job.noise.run / max(job.noise.boot, LEAST_BOOT_SD) * math.sqrt(ratio)
    return min(max(round(_RUNS_SHARE * best), 1), _MOST_RUNS)


def _reason_to_end(
    job: CompareJob, tested: SequentialTest, prices: Prices, modes: BootModes | None, runs: int
) -> str | None:
    """Why the change is not confirmed; "" if it is, None if more boots are needed."""
    sign = math.copysign(1.0, job.suspected)
    seen, room = sign * tested.mean, sign * (tested.high if sign > 0 else tested.low)
    metric = metric_of(job.lead)
    least = f"{abs(metric.percent(-job.min_effect)):.3g}"
    word = "gain" if sign > 0 else "rise" if metric.lower else "drop"
    counts = f"{tested.pairs} good and {tested.pairs} bad boots"
    over = 2 * tested.pairs >= _most_boots(job, tested, prices, runs)
    shown = tested.shown and seen >= job.min_effect and not _may_be_mode(tested, modes)
    # A search assumes that its effect is at least half the confirmed one.
    if shown and (tested.is_precise or over):
        return ""
    opposite = seen <= -job.min_effect and room > 0  # perhaps the ends are swapped
    if room < job.min_effect and not opposite:
        return f"{counts} leave no room for a {word} of {least} %"
    if over:
        further = tested.boots_to_decide(sign * job.min_effect)
        return f"{counts} do not decide it; about {further} further boots would"
    return None


def _may_be_mode(tested: SequentialTest, modes: BootModes | None) -> bool:
    """Whether one side may have booted in the slow mode every time."""
    if modes is None or abs(abs(tested.mean) - modes.gap) > modes.gap / 2:
        return False
    return bool((modes.share * (1 - modes.share)) ** tested.pairs >= ALPHA**2)


def _most_boots(job: CompareJob, tested: SequentialTest, prices: Prices, runs: int) -> float:
    """Boots that cost `_PRICE` times the expected price of the search, with a build per bit.

    A search verifies effects from half the suspected one on.
    """
    effect = max(job.min_effect, abs(tested.mean), abs(job.suspected) / 2)
    boot = prices.boot + prices.run * len(job.scenarios) * runs
    boots = boots_of_search(job.commits, Noise(tested.boot_sd), effect)
    price = math.log2(job.commits + 1) * prices.build + boots * boot
    # Without a device that keeps both, every second boot of the ends takes a set-up.
    affordable = max(_PRICE * price, LEAST_SECONDS) / max(boot + prices.build / 2, 1e-9)
    return BLOCK * min(max(affordable / BLOCK, _LEAST_BLOCKS), _MOST_BLOCKS)
