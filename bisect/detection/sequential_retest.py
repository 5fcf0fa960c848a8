"""Retest of the ends of a range, until it is decided or as dear as the search.

By the test of `stats.sequential`. It ends if a change of the least effect is confirmed, if the
confidence sequence excludes it, or if its price, with half of what it seems to need further,
exceeds `_PRICE` times the expected price of the search that it may prevent.
"""

from __future__ import annotations

import math

from netbisect.bisect.detection.retest import not_comparable
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import NOTHING_IN_FLIGHT, InFlight, Wait
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, Effect, Move, NotConfirmed, Trial
from netbisect.bisect.stats.effect import effects
from netbisect.bisect.stats.information import bits_of_boot
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

_PRICE = 2.0
"""Maximum price of a retest, relative to the expected price of the search."""
_LEAST_BLOCKS, _MOST_BLOCKS = 4, 25
"""Blocks that a retest may always take, and its most."""
_MOST_EFFECT = 8.0
"""Largest effect of the mixture, relative to the least effect; larger ones are as clear."""
_WHY = "compares the two ends, interleaved"


def next_move(
    job: CompareJob,
    evidence: Evidence,
    prices: Prices,
    in_flight: InFlight = NOTHING_IN_FLIGHT,
) -> Move | Wait:
    """The next trial, or the result. Only fresh boots count."""
    good, bad = (
        [observation for observation in evidence.of(revision) if observation.fresh]
        for revision in (job.good, job.bad)
    )
    if (ended := not_comparable(job, evidence, good, bad)) is not None:
        return ended
    boots = [
        BlockBoot(r.testbed or job.testbed, r.revision == job.good, r.ln_pps.get(job.lead), r.runs)
        for r in evidence.observations
        if r.fresh and r.revision in (job.good, job.bad) and not r.layout
    ]
    blocks = blocks_of(boots, _WHY)
    tested = _tested(job, blocks)
    if tested is not None:
        pairs = tested.pairs
        lead = Effect(job.lead, tested.mean, tested.low, tested.high, tested.p, pairs, pairs)
        others = effects(good, bad, job.lead, job.scenarios)
        found = (lead, *(one for one in others if one.scenario != job.lead))
        why = _reason_to_end(job, tested, prices)
        if why is not None:
            return NotConfirmed(found, why) if why else Confirmed(found)
    testbed = in_flight.testbed or job.testbed
    running = [trial.testbed or job.testbed for trial in in_flight.under_way]
    fast = next_side(blocks, _WHY, testbed, running)
    if fast is None:
        return Wait.WAIT
    side = job.good if fast else job.bad
    return Trial(side, _WHY, testbed=in_flight.testbed)


def _tested(job: CompareJob, blocks: dict[str, Blocks]) -> SequentialTest | None:
    differences, runs = differences_of(blocks)
    if not differences:
        return None
    sign = math.copysign(1.0, job.suspected)
    mixture = sign * effects_between(0.0, math.log(_MOST_EFFECT))
    mixture = sign * job.min_effect * math.e ** abs(mixture)  # a log-uniform mixture
    noise = job.noise or Noise()
    return sequential_test(differences, math.sqrt(noise.variance_of_boot(runs)), mixture)


def _reason_to_end(job: CompareJob, tested: SequentialTest, prices: Prices) -> str | None:
    """Why the change is not confirmed; "" if it is, None if more boots are needed."""
    sign = math.copysign(1.0, job.suspected)
    seen, room = sign * tested.mean, sign * (tested.high if sign > 0 else tested.low)
    least = f"{-100 * math.expm1(-job.min_effect):.3g}"
    word = "gain" if sign > 0 else "drop"
    counts = f"{tested.pairs} good and {tested.pairs} bad boots"
    if tested.shown and seen >= job.min_effect:
        return ""
    opposite = seen <= -job.min_effect and room > 0  # perhaps the ends are swapped
    if room < job.min_effect and not opposite:
        return f"{counts} leave no room for a {word} of {least} %"
    boots, further = 2 * tested.pairs, _boots_to_decide(job, tested, seen)
    if boots >= BLOCK * _LEAST_BLOCKS and boots + further / 2 > _most_boots(job, tested, prices):
        return f"{counts} do not decide it; about {further} further boots would"
    return None


def _most_boots(job: CompareJob, tested: SequentialTest, prices: Prices) -> float:
    """Boots that cost `_PRICE` times the expected price of the search.

    A search takes one build per bit and, by the information of a boot, several boots.
    """
    bits = math.log2(job.commits + 1)
    effect = max(job.min_effect, abs(tested.mean))
    boot = prices.boot + prices.run * len(job.scenarios)
    per_boot = bits_of_boot(Noise(tested.boot_sd), effect)
    price = bits * (prices.build + boot / per_boot) + BLOCK * boot
    # Without a device that keeps both, every second boot of the ends takes a set-up.
    affordable = _PRICE * price / max(boot + prices.build / 2, 1e-9)
    return min(affordable, float(BLOCK * _MOST_BLOCKS))


def _boots_to_decide(job: CompareJob, tested: SequentialTest, seen: float) -> int:
    """Further boots until the interval excludes no effect, or the least one."""
    width = (tested.high - tested.low) / 2
    wanted = max(seen, job.min_effect - seen)
    more = tested.pairs * ((width / wanted) ** 2 - 1)
    return BLOCK * math.ceil(max(2 * more, 1) / BLOCK)
