"""The sequential test of two kernels: blocks of interleaved boots, valid at all times.

A block is four boots, ABBA or BAAB, and gives two differences of neighbours in time. Levels that
wander more slowly than a block cancel in them. The statistic is the likelihood ratio of a mixture
of effects to no effect (mixture SPRT: H. Robbins, Annals of Mathematical Statistics 41, 1970).
Without an effect it is a martingale of mean 1: it exceeds 1 / alpha at any time with a probability
of at most alpha (J. Ville, 1939), however often it is evaluated. A group-sequential test needs the
number of evaluations in advance, and its bounds a known variance.

The variance is unknown: it is integrated over a scaled inverse chi-squared prior with the noise of
the job (moderated t, G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3,
2004), so that the bound holds on average over this prior. Two differences that disagree count as
noise: one outlier cannot decide. If they are far apart, the block may be disturbed and has
little influence (`stats.disturbance`): one outlier cannot prevent a verdict either.

While the noise is not known, its distribution is not either: the likelihood ratio is then averaged
with that of a test which assumes symmetry alone (`stats.symmetry`). The mean of two e-processes is
one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from scipy import special

from netbisect.bisect.model.detection_results import ALPHA
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.stats import symmetry
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.disturbance import BlockLikelihood
from netbisect.bisect.stats.log_space import log_sum
from netbisect.bisect.stats.robust import LEAST_BOOT_SD, estimate

BLOCK = 4
"""Boots of a block."""
PRIOR_WEIGHT = 4.0
"""Degrees of freedom of the noise of a job."""
COMPARES_ENDS = "compares the two ends, interleaved"
"""Reason of the trials that compare the ends of a range."""
LEAST_SECONDS = 600.0
"""Time that a search, and each of its tests, may always take."""
_LEAST_PAIRS = 4
"""Pairs from which the variance can show or refute an effect with an unknown noise: if boots have
two modes, one side is slow in all its boots and the other in none with a probability of at most
2**-8."""
_POINTS = 41
"""Effects of a mixture."""
_THINNED = slice(None, None, 12)
"""The effects that the test by symmetry bets on: its densities are wide."""
_MOST_EFFECT = 32.0
"""Largest effect of the dense part of a log-uniform mixture, relative to the least one."""
_TAIL_STEP, _TAIL = 1.25, 20
"""Ratio of neighbours among the larger effects, and their number. Without them, one pair of images
could not show a drop of 65 % or more: it is as far from 32 times the least effect as from none."""
_DENSE_WEIGHT = 3
"""Weight of an effect of the dense part, relative to one of the tail."""


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """State of the test."""

    mean: float
    """Mean difference, ln ratio."""
    low: float
    high: float
    """Ends of the confidence sequence, at 1 - alpha for all times together."""
    log_ratio: float
    """Log ratio of the likelihoods: effect over no effect, nats."""
    log_against: float
    """Evidence against every effect, nats."""
    pairs: int
    boot_sd: float
    """Standard deviation of a boot, ln pps: prior and differences, pooled."""
    interval: tuple[float, float] | None = None
    """Robust 95 % interval for this number of pairs, ln ratio; None if the noise is known and no
    block may be disturbed."""

    @property
    def is_precise(self) -> bool:
        """Whether the effect is known to about half its size."""
        return self.interval is None or self.interval[1] - self.interval[0] <= abs(self.mean)

    @property
    def shown(self) -> bool:
        """Whether there is an effect."""
        return self.log_ratio >= -math.log(ALPHA)

    @property
    def refuted(self) -> bool:
        """Whether the effect is not there."""
        return self.refuted_at(ALPHA)

    def refuted_at(self, level: float) -> bool:
        """Whether the effect is not there, with a probability of `level` to refute a true one."""
        return self.log_against >= -math.log(level)

    @property
    def p(self) -> float:
        """Valid at any time: the inverse of the likelihood ratio."""
        return min(1.0, math.exp(-self.log_ratio))

    def boots_to_decide(self, least: float) -> int:
        """Further boots until the interval is expected to exclude no effect, or the least one.

        Args:
            least: Ln ratio of the expected sign.
        """
        middle, width = (self.low + self.high) / 2, (self.high - self.low) / 2
        seen = math.copysign(middle, middle * least)
        more = self.pairs * ((width / max(seen, abs(least) - seen)) ** 2 - 1)
        return BLOCK * math.ceil(max(2 * more, 1) / BLOCK)


def good_begins(seed: str, block: int) -> bool:
    """Whether the good side boots first in a block: ABBA or BAAB, drawn at random.

    Args:
        seed: Seed of the comparison.
        block: Number of the block.
    """
    return bool(zlib.crc32(f"{seed} {block}".encode()) & 1)


@dataclass(frozen=True, slots=True)
class BlockBoot:
    """A boot, in the order of time."""

    testbed: str
    good: bool | None
    """Which side; None if it was not ordered for the comparison."""
    ln_pps: float | None
    """None without a valid sample."""
    runs: int = 1


@dataclass(slots=True)
class Blocks:
    """The blocks of one comparison on one testbed."""

    differences: list[float] = field(default_factory=list)
    """Bad minus good of each pair of the whole blocks, ln ratio."""
    begun: list[BlockBoot] = field(default_factory=list)
    """Boots of the block under way."""
    number: int = 0
    """Number of the block under way."""
    runs: int = 0
    """Fewest runs of a boot; 0 without boots."""

    @property
    def good_is_next(self) -> bool:
        """Whether the good side boots next in the block under way."""
        return bool(self.begun[0].good) == (len(self.begun) == BLOCK - 1)

    def add(self, boot: BlockBoot) -> None:
        """Adds the next boot with a sample; out of turn, it begins another block."""
        if self.begun and boot.good != self.good_is_next:
            self.end()
        self.runs = min(self.runs or boot.runs, boot.runs)
        self.begun.append(boot)
        if len(self.begun) == BLOCK:
            for pair in (self.begun[:2], self.begun[2:]):
                signed = (-(b.ln_pps or 0) if b.good else b.ln_pps or 0 for b in pair)
                self.differences.append(math.fsum(signed))
            self.end()

    def end(self) -> None:
        """Ends the block under way; without all its boots it does not count."""
        self.begun, self.number = [], self.number + 1


def blocks_of(boots: Iterable[BlockBoot]) -> dict[str, Blocks]:
    """The blocks of a comparison by testbed.

    Another boot of the testbed in between ends a block, for its boots no longer share their time.
    """
    found: dict[str, Blocks] = {}
    for boot in boots:
        own = found.setdefault(boot.testbed, Blocks())
        if boot.good is None:
            if own.begun:
                own.end()
        elif boot.ln_pps is not None:
            own.add(boot)
    return found


def next_side(
    blocks: Mapping[str, Blocks], seed: str, testbed: str, running: Iterable[str]
) -> bool | None:
    """Whether a testbed boots the good side next; None if a running block may be enough.

    Args:
        blocks: By testbed.
        seed: Seed of the comparison.
        testbed: The idle one.
        running: Testbeds with a running boot of the comparison.
    """
    own = blocks.get(testbed, Blocks())
    last = any(len(blocks[one].begun) == BLOCK - 1 for one in running if one in blocks)
    if last and not own.begun:
        return None
    return own.good_is_next if own.begun else good_begins(f"{seed} {testbed}", own.number)


def block_test(
    blocks: Mapping[str, Blocks],
    noise_of: Callable[[str], Noise],
    boot_sd: Callable[[int], float],
    weight: float,
    effects: Floats,
) -> SequentialTest | None:
    """Tests the whole blocks of all testbeds; None if there is none.

    Args:
        blocks: By testbed.
        noise_of: By testbed; unless all are known, the test by symmetry is used, too.
        boot_sd: Expected standard deviation of a boot, ln pps, by its number of runs.
        weight: Its degrees of freedom.
        effects: Equally likely effects, ln ratios.
    """
    whole = {testbed: own for testbed, own in blocks.items() if own.differences}
    if not whole:
        return None
    differences = [x for own in whole.values() for x in own.differences]
    sd = boot_sd(min(own.runs for own in whole.values()))
    pairs, alternatives = tuple(differences), tuple(effects.tolist())
    if all(noise_of(testbed).is_known for testbed in whole):
        return _by_variance(pairs, sd, weight, alternatives)
    # Whether a block may be disturbed depends on the noise.
    return _with_symmetry(sequential_test(differences, sd, weight, effects), pairs, alternatives)


@lru_cache(maxsize=16)
def _by_variance(
    pairs: tuple[float, ...], boot_sd: float, weight: float, alternatives: tuple[float, ...]
) -> SequentialTest:
    """Tests whole blocks; a disturbed block has little influence."""
    effects = np.array(alternatives)
    tested = sequential_test(pairs, boot_sd, weight, effects)
    likelihood = BlockLikelihood(np.array(pairs), boot_sd, weight)
    if not likelihood.may_be_disturbed:
        return tested
    ratio, reach = _ratio_and_reach(likelihood.log, effects)
    of = likelihood.estimate(reach)
    return SequentialTest(
        of.mean, of.low, of.high, ratio, -ratio, tested.pairs, of.boot_sd, of.interval
    )


@lru_cache(maxsize=16)
def _with_symmetry(
    tested: SequentialTest, pairs: tuple[float, ...], alternatives: tuple[float, ...]
) -> SequentialTest:
    """The mean of a test by the variance and of one by symmetry, and what neither excludes.

    Cached, because three of four boots complete no block.
    """
    differences, effects = np.array(pairs), np.array(alternatives)[_THINNED]
    none = -math.inf
    least = float(np.abs(effects).min())
    middle, first, last = estimate(differences)
    low, high = symmetry.interval(differences, middle, least, ALPHA)
    by_variance, against = none, none
    if tested.pairs >= _LEAST_PAIRS:
        by_variance, against = tested.log_ratio, tested.log_against
        if max(low, tested.low) < min(high, tested.high):
            low, high = max(low, tested.low), min(high, tested.high)
    by_symmetry = symmetry.log_evidence(differences, 0.0, effects)
    mean = min(max(middle, low), high)
    return replace(
        tested,
        mean=mean,
        low=low,
        high=high,
        log_ratio=float(np.logaddexp(by_variance, by_symmetry)) - math.log(2),
        log_against=float(
            np.logaddexp(against, symmetry.log_evidence_against(differences, effects))
        )
        - math.log(2),
        interval=(min(first, mean), max(last, mean)),
    )


def sequential_test(
    differences: Sequence[float],
    boot_sd: float,
    weight: float,
    effects: Floats,
) -> SequentialTest:
    """Tests the differences of the pairs so far.

    Args:
        differences: Bad minus good, ln ratio; at least one.
        boot_sd: Expected standard deviation of a boot, ln pps.
        weight: Its degrees of freedom.
        effects: Equally likely effects, ln ratios.
    """
    y = np.asarray(differences, dtype=np.float64)
    power = (weight + len(y)) / 2
    prior = weight * max(math.sqrt(2) * boot_sd, LEAST_BOOT_SD) ** 2

    def log_likelihood(shifts: Floats) -> Floats:
        squares = ((y - shifts[:, None]) ** 2).sum(axis=1)
        found: Floats = -power * np.log(prior + squares)
        return found

    ratio, reach = _ratio_and_reach(log_likelihood, effects)
    mean, scatter = float(y.mean()), float(((y - y.mean()) ** 2).sum())
    width = math.sqrt(max(math.exp(-reach / power) - prior - scatter, 0.0) / len(y))
    boot_sd = math.sqrt((prior + scatter) / (weight + len(y) - 1) / 2)
    return SequentialTest(mean, mean - width, mean + width, ratio, -ratio, len(y), boot_sd)


def _ratio_and_reach(
    log_likelihood: Callable[[Floats], Floats],
    effects: Floats,
) -> tuple[float, float]:
    """Log of the likelihood ratio, and the log likelihood from which on an effect is not excluded.

    An effect is excluded by those of either sign, and by small ones.
    """
    small = normal_effects(float(np.abs(effects).min()))
    parts = [_log_mean(log_likelihood(part)) for part in (effects, -effects, small)]
    ratio = parts[0] - float(log_likelihood(np.zeros(1))[0])
    return ratio, _log_mean(np.array(parts)) + math.log(ALPHA)


def _log_mean(logs: Floats) -> float:
    return float(log_sum(logs)) - math.log(len(logs))


def effects_between(least: float, most: float) -> Floats:
    """A uniform mixture of effects."""
    return np.linspace(least, most, _POINTS)


def log_uniform_effects(least: float) -> Floats:
    """A log-uniform mixture of 1 to 32 times the least effect, and a tail to 2800 times it."""
    most = _MOST_EFFECT * least
    tail = most * _TAIL_STEP ** np.arange(1, _TAIL + 1)
    dense = np.repeat(np.geomspace(least, most, _POINTS), _DENSE_WEIGHT)
    return np.concatenate([dense, tail])


def normal_effects(sd: float) -> Floats:
    """A normal mixture of effects of both signs: its quantiles."""
    shares = (np.arange(_POINTS) + 0.5) / _POINTS
    return sd * special.ndtri(shares)
