"""Benchmark cases; each trial draws a new world."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import corpus
from benchmarks.lab import PRICES, BootNoise, World
from netbisect.bisect.model.evidence import Prices

COMMITS = 256
GOOD = (1_584_773.0, 20_518.0)
"""Mean and standard deviation of a run of the good side, pps."""
BAD = (1_534_220.0, 13_967.0)
LAYOUTS = 40
"""Further layouts of a revision, if supported."""
_RELINK = 60.0
"""Seconds for a further layout; 37 s were measured (docs/benchmarks.md, Building FreeBSD)."""
WANDER_SD = (0.01, 0.02, 0.03, 0.04)
WANDER_HOURS = (0.5, 2.0, 6.0)
_RUN_SD = 0.0013
"""Run noise within a boot: the median of the corpus."""

Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark case."""

    draw: Callable[[Random], World]
    missing: Callable[[], str] = str
    """Reason why it cannot run here; empty if it can."""
    same_as: str = ""
    """Another case with the same worlds and random numbers, or empty."""


def _world(culprit: int, bad: tuple[float, float] = BAD, *, commits: int = COMMITS) -> World:
    slow = np.arange(commits + 1) >= culprit
    return World(
        levels=np.where(slow, bad[0], GOOD[0]),
        run_sd=np.where(slow, bad[1], GOOD[1]),
        culprits=(culprit,) if culprit <= commits else (),
        suspected=math.log(bad[0] / GOOD[0]),
        image=np.arange(commits + 1),
        weights=np.ones(commits),
    )


def _any(random: Random) -> int:
    return int(random.integers(1, COMMITS + 1))


def ideal(random: Random) -> World:
    """Independent normal runs on each side."""
    return _world(_any(random))


def history(random: Random) -> World:
    """Twelve boots of each end are known."""
    return replace(ideal(random), known=12)


def bimodal(random: Random) -> World:
    """30 % of the boots are 2 % slower, with all their runs."""
    return replace(ideal(random), boot=BootNoise(low_share=0.3, low_gap=0.02))


def small(random: Random) -> World:
    """A drop of 1 %, less than the noise of a run."""
    return _world(_any(random), (GOOD[0] * 0.99, BAD[1]))


def none(random: Random) -> World:
    """No change, with the drop of `ideal` suspected."""
    del random
    return _world(COMMITS + 1)


def two(random: Random) -> World:
    """Drops of 2 % and of 1.2 %, in either order."""
    first, second = sorted(random.choice(np.arange(1, COMMITS + 1), 2, replace=False).tolist())
    drops = (0.02, 0.012) if random.random() < 1 / 2 else (0.012, 0.02)
    steps = (np.arange(COMMITS + 1) >= first).astype(int) + (np.arange(COMMITS + 1) >= second)
    ratios = np.array([1.0, 1 - drops[0], (1 - drops[0]) * (1 - drops[1])])
    sds = np.array([GOOD[1], (GOOD[1] + BAD[1]) / 2, BAD[1]])
    return replace(
        _world(first),
        levels=GOOD[0] * ratios[steps],
        run_sd=sds[steps],
        culprits=(first, second),
        suspected=math.log(ratios[-1]),
    )


def drift(random: Random) -> World:
    """The level falls by 3.2 % in equal steps."""
    del random
    progress = np.linspace(0, 1, COMMITS + 1)
    return replace(
        _world(COMMITS + 1),
        levels=GOOD[0] * (1 - 0.032 * progress),
        run_sd=GOOD[1] + (BAD[1] - GOOD[1]) * progress,
        suspected=math.log(1 - 0.032),
        drifts=True,
    )


def skips(random: Random) -> World:
    """30 % of the revisions do not build; the ends, the culprit and its parent do."""
    culprit = _any(random)
    inner = np.setdiff1d(np.arange(1, COMMITS), [culprit, culprit - 1])
    broken = inner[random.random(len(inner)) < 0.3]
    return replace(_world(culprit), broken=frozenset(broken.tolist()))


def paths(random: Random) -> World:
    """10 % of the commits have 20 times the prior weight and probability of being the culprit.

    Half of the others build the kernel of their parent, and cannot be the culprit.
    """
    weights = np.ones(COMMITS)
    weights[random.choice(COMMITS, COMMITS // 10, replace=False)] = 20
    unchanged = (weights == 1) & (random.random(COMMITS) < 1 / 2)
    prior = np.where(unchanged, 0, weights)
    culprit = 1 + int(random.choice(COMMITS, p=prior / prior.sum()))
    image = np.maximum.accumulate(np.where(np.append(False, unchanged), 0, np.arange(COMMITS + 1)))
    return replace(_world(culprit), weights=weights, image=image)


def parallel(random: Random) -> World:
    """Three builders and one device."""
    return replace(ideal(random), builders=3)


def duts(random: Random, *, machines: int, builders: int) -> World:
    """Like `ideal`, with several machines under test that differ by 3 %."""
    world = replace(ideal(random), builders=builders)
    return replace(world, offsets=(0.0, *random.normal(0, 0.03, machines - 1).tolist()))


def image(random: Random, *, layouts: int) -> World:
    """A drop of 5 %, with 1.6 % image noise and 0.9 % boot noise."""
    world = _world(_any(random), (GOOD[0] * 0.95, BAD[1]))
    noise = BootNoise(sd=0.009)
    return replace(
        world,
        run_sd=_RUN_SD * world.levels,
        image_sd=0.016,
        boot=noise,
        layouts=layouts,
        prices=replace(PRICES, relink=_RELINK),
    )


def measured(random: Random, *, layouts: int) -> World:
    """Noise of a random real router, and a drop of 2 to 12 %.

    A search follows a confirmed retest: noise and drop are drawn again until the drop exceeds three
    standard errors of ten boots per side.
    """
    while True:
        noise, drop = corpus.draw(random), float(random.uniform(0.02, 0.12))
        if drop > 3 * noise.boot.whole_sd * math.sqrt(2 / 10):
            break
    bad = noise.level * (1 - drop)
    slow: NDArray[np.bool_] = np.arange(COMMITS + 1) >= (culprit := _any(random))
    levels = np.where(slow, bad, noise.level)
    return replace(
        _world(culprit),
        levels=levels,
        run_sd=noise.run_sd * levels,
        suspected=math.log(bad / noise.level),
        image_sd=noise.image_sd,
        boot=noise.boot,
        layouts=layouts,
        prices=replace(PRICES, relink=_RELINK),
    )


def wander(random: Random, *, sd: float, hours: float) -> World:
    """128 commits, a drop of 5 %, and a level with AR(1) noise in time; begins with a retest.

    Args:
        random: Draws the culprit.
        sd: Standard deviation of the level, ratio.
        hours: Correlation time.
    """
    commits = 128
    culprit = int(random.integers(1, commits + 1))
    world = _world(culprit, (GOOD[0] * 0.95, BAD[1]), commits=commits)
    run_sd = _RUN_SD * world.levels
    return replace(world, run_sd=run_sd, wander=(sd, 3600 * hours), retest=True)


def wander_any(random: Random) -> World:
    """`wander` with a random standard deviation and correlation time."""
    sd, hours = random.choice(WANDER_SD), random.choice(WANDER_HOURS)
    return wander(random, sd=float(sd), hours=float(hours))


def cheap(random: Random) -> World:
    """128 commits of a program: runs of 1 s scatter by 5 %, a drop of 3 to 10 %, and a retest."""
    culprit, drop = int(random.integers(1, 129)), float(random.uniform(0.03, 0.1))
    world = _world(culprit, (GOOD[0] * (1 - drop), BAD[1]), commits=128)
    prices = Prices(build=2.0, boot=0.0, run=1.0)
    boot = BootNoise(sd=0.05)
    return replace(world, run_sd=0 * world.levels, boot=boot, prices=prices, retest=True)


def large(random: Random) -> World:
    """A drop of 20 to 99 %, and the noise of `image`; begins with a retest."""
    ratio = math.exp(random.uniform(math.log(0.01), math.log(0.8)))
    world = _world(_any(random), (GOOD[0] * ratio, BAD[1]))
    noisy = image(random, layouts=0)
    run_sd = _RUN_SD * world.levels
    return replace(world, run_sd=run_sd, boot=noisy.boot, image_sd=noisy.image_sd, retest=True)


CASES = {
    "ideal": Case(ideal),
    "history": Case(history),
    "bimodal": Case(bimodal),
    "small": Case(small),
    "none": Case(none),
    "two": Case(two),
    "drift": Case(drift),
    "skips": Case(skips),
    "paths": Case(paths),
    "parallel": Case(parallel),
    "duts-2": Case(partial(duts, machines=2, builders=1)),
    "duts-3": Case(partial(duts, machines=3, builders=1)),
    "duts-2-3": Case(partial(duts, machines=2, builders=3)),
    "duts-3-3": Case(partial(duts, machines=3, builders=3)),
    "image": Case(partial(image, layouts=LAYOUTS)),
    "image-one-layout": Case(partial(image, layouts=0), same_as="image"),
    "corpus": Case(partial(measured, layouts=LAYOUTS), corpus.missing),
    "wander": Case(wander_any),
    "cheap": Case(cheap),
    "large": Case(large),
    "corpus-one-layout": Case(partial(measured, layouts=0), corpus.missing, same_as="corpus"),
}
"""By name."""
