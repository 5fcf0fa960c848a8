"""The sequential test of two kernels of a search, on the boots that were ordered for it.

Boots that the search chose for the value of others do not count. The noise of a boot is that of the
job, pooled with the scatter that the search has seen between boots of one kernel.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.evidence import Observation, Prices, kernel_name
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Posterior, Trial
from netbisect.bisect.search import link_order
from netbisect.bisect.search.search_space import SearchSpace, Target, testbed_of
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
    effects_between,
    next_side,
)

VERIFIES = "verifies "
"""Begins the reason of the trials of a verification."""
RUNS = (1, 2, 4, 8, 12)
"""Possible numbers of runs of a boot that the search chooses."""
_MOST_RUNS = 24
"""Maximum runs of a boot of a test."""
LEAST_SHARE, LEAST_PART = 0.5, 0.2
"""Minimum difference, as a share of the expected effect; the second value for two steps."""
_MOST_SHARE = 1.5
"""Maximum difference, as a share of the expected effect."""
_TIMES, _MOST_BOOTS = 4, 600
"""Maximum boots of a search: relative to the expected number, and in total."""
_MOST_WEIGHT = 16.0
"""Maximum degrees of freedom of the noise of a boot: it may change with time."""
_FAR = 3.0
"""Maximum deviation of a boot when the noise is learned, in standard deviations."""
_MARGIN = 1.5
"""Expected nats beyond the bound: luck, and the width of the mixture."""


@dataclass(frozen=True, slots=True)
class KernelComparison:
    """A comparison of two kernels by blocks of boots."""

    good: Target
    bad: Target
    why: str
    """The reason of its trials; its boots are found by it."""
    least: float
    """Smallest effect, positive ln ratio."""
    both_signs: bool = False
    """Whether effects of either sign are expected."""

    def result(self, space: SearchSpace) -> SequentialTest | None:
        """The test of all whole blocks; None if there is none."""
        effect = space.job.effect
        most = _MOST_SHARE * effect
        mixture = effects_between(math.copysign(self.least, effect), most)
        if self.both_signs:
            mixture = np.concatenate([mixture, -mixture])
        scale, weight = self._noise(space)
        blocks = self._blocks(space)
        tested = block_test(
            blocks,
            space.job.noise_of,
            lambda runs: scale * _boot_sd(space.job, runs),
            weight,
            mixture,
        )
        known = all(space.job.noise_of(testbed).is_known for testbed in blocks)
        if tested is None or known:
            return tested
        return replace(tested, log_ratio=tested.log_ratio - 2 * math.log(self._number(space)))

    def _number(self, space: SearchSpace) -> int:
        """Number of this comparison among the verifications of the search, from 1.

        The n-th one needs n**2 times the likelihood ratio: the levels of the search are then at
        most alpha * pi**2 / 6 together, however many candidates a posterior proposes that is misled
        by an unknown noise.
        """
        earlier = takewhile(lambda r: r.order != self.why, space.evidence.observations)
        return 1 + len(verifications(earlier))

    def next_trial(
        self, space: SearchSpace, posterior: Posterior, prices: Prices, in_flight: InFlight
    ) -> Trial | Wait:
        """The next boot."""
        blocks, job = self._blocks(space), space.job
        testbed = in_flight.testbed or job.testbed
        running = [v.testbed or job.testbed for v in in_flight.under_way if v.why == self.why]
        fast = next_side(blocks, self.why, testbed, running)
        if fast is None:
            return Wait.WAIT
        target = self.good if fast else self.bad
        runs = self._runs(space, prices)
        return Trial(target.revision, self.why, posterior, runs, in_flight.testbed, target.layout)

    def _blocks(self, space: SearchSpace) -> dict[str, Blocks]:
        """The blocks by testbed, from the order of the boots.

        Boots of the ends count whatever their reason: the search did not choose what to compare.
        Boots of other jobs are ignored: otherwise, searches that take turns never complete a block.
        """
        job, boots = space.job, list[BlockBoot]()
        fast = {id(r) for r in link_order.observations_of(space, self.good)}
        slow = {id(r) for r in link_order.observations_of(space, self.bad)}
        for r in (one for one in space.evidence.observations if one.fresh):
            is_good = id(r) in fast
            mine = self.why in (r.order, COMPARES_ENDS) and (is_good or id(r) in slow)
            value = r.ln_pps.get(job.lead)
            boots.append(BlockBoot(testbed_of(job, r), is_good if mine else None, value, r.runs))
        return blocks_of(boots)

    def _noise(self, space: SearchSpace) -> tuple[float, float]:
        """Noise of a boot, relative to that of the job, and its degrees of freedom.

        The noise of the job is pooled with the scatter of the boots that no test has ordered:
        around the median of their kernel; or of their side of the candidate, if image noise is
        small.
        """
        job, levels = space.job, defaultdict[tuple[str, str], list[tuple[float, float]]](list)
        one_step = self.why != COMPARES_ENDS and not self.both_signs
        alike = one_step and 2 * job.noise.image < job.noise.boot + job.noise.run
        late = set(space.revisions[self.bad.position :])
        for r in space.evidence.observations:
            if job.lead in r.ln_pps and not r.order.startswith((VERIFIES, COMPARES_ENDS)):
                variance = job.noise.variance_of_boot(r.runs) + alike * job.noise.image**2
                side = str(r.revision in late) if alike else kernel_name(r.revision, r.layout)
                boot = r.ln_pps[job.lead], max(variance, LEAST_BOOT_SD**2)
                levels[side, testbed_of(job, r)].append(boot)
        squares, weight = [PRIOR_WEIGHT], PRIOR_WEIGHT
        for boots in levels.values():
            level = float(np.median([x for x, _ in boots]))
            squares += [min((x - level) ** 2 / v, _FAR**2) for x, v in boots]
            weight += len(boots) - 1
        return math.sqrt(math.fsum(squares) / weight), min(weight, _MOST_WEIGHT)

    def _runs(self, space: SearchSpace, prices: Prices) -> int:
        """Runs per boot for which an effect of twice the least one is shown at the lowest price."""
        if not space.job.noise.run:
            return 1
        boot = prices.boot
        if len(space.evidence.kernels) <= 1:  # every second boot sets up the other kernel
            boot += prices.build / 2
        run = prices.run * len(space.job.scenarios)
        scale, weight = self._noise(space)

        def price(runs: int) -> float:
            boot_sd = scale * _boot_sd(space.job, runs)
            return _expected_pairs(boot_sd, weight, 2 * self.least) * (boot + run * runs)

        return min(range(1, _MOST_RUNS + 1), key=price)


def verifications(observations: Iterable[Observation]) -> set[str]:
    """The reasons of the trials that verify candidates, one for each candidate."""
    return {r.order for r in observations if r.fresh and r.order.startswith(VERIFIES)}


def max_boots(job: BisectJob, prices: Prices) -> int:
    """Maximum boots of a search, and of a test that belongs to it."""
    expected = boots_of_search(len(job.candidates), job.noise, job.effect, RUNS[-1])
    boot = prices.boot + prices.run * len(job.scenarios) + prices.build / 2
    return int(min(max(_TIMES * expected, LEAST_SECONDS / max(boot, 1e-9)), _MOST_BOOTS))


def _boot_sd(job: BisectJob, runs: int) -> float:
    return math.sqrt(job.noise.variance_of_boot(runs))


def _expected_pairs(boot_sd: float, weight: float, effect: float) -> int:
    """Pairs, in whole blocks, after which an effect is expected to be shown."""
    ratio = effect**2 / max(2 * boot_sd**2, LEAST_BOOT_SD**2)
    for pairs in range(BLOCK // 2, _MOST_BOOTS // 2, BLOCK // 2):
        weight += BLOCK // 2
        if weight / 2 * math.log1p(pairs * ratio / weight) >= _MARGIN - math.log(ALPHA):
            return pairs
    return _MOST_BOOTS // 2
