"""What no search can do without, when both levels and all noise are known to it.

Builds: all that is measured of a revision depends on the culprit through one bit, whether it is
in it; so by Fano's inequality at least H - d log2 n - H2(d) revisions are visited by a search
that is right with a chance of 1 - d (H: entropy of the prior, log2 n if uniform).

Runs: a run tells at most the capacity of the channel from that bit to its value, and the last
doubt goes no faster than the divergences of the two sides (M. V. Burnashev, Problems of
Information Transmission 12, 1976): (1 - d) H / C + ln(1/d) (1 / D01 + 1 / D10).

Every visit is a build and a boot; so hours = builds (build + boot) + runs run.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import optimize, special, stats

from benchmarks.cases import BAD, CASES, COMMITS, GOOD
from benchmarks.lab import PRICES

WRONG = 0.01
"""d, the share of wrong answers that is allowed."""

Normal = tuple[float, float]
"""Mean and standard deviation, pps."""


def binary_entropy(chance: float) -> float:
    """Bits of a coin."""
    return float(special.entr([chance, 1 - chance]).sum()) / math.log(2)


def least_builds(bits: float, commits: int = COMMITS, wrong: float = WRONG) -> float:
    """Revisions that have to be visited to learn `bits` of a culprit among `commits`."""
    return bits - wrong * math.log2(commits) - binary_entropy(wrong)


def least_runs(bits: float, good: Normal = GOOD, bad: Normal = BAD, wrong: float = WRONG) -> float:
    """Runs that it takes, however they are spread over revisions."""
    last = math.log(1 / wrong) * (1 / divergence(good, bad) + 1 / divergence(bad, good))
    return (1 - wrong) * bits / capacity(good, bad) + last


def divergence(one: Normal, other: Normal) -> float:
    """Kullback-Leibler divergence of two normal laws, nats."""
    ratio = (one[1] / other[1]) ** 2
    return ((one[0] - other[0]) ** 2 / other[1] ** 2 + ratio - 1 - math.log(ratio)) / 2


def capacity(good: Normal, bad: Normal) -> float:
    """Bits that one run can tell of a side: the greatest Jensen-Shannon divergence."""
    low = min(m - 9 * s for m, s in (good, bad))
    high = max(m + 9 * s for m, s in (good, bad))
    x = np.linspace(low, high, 4001)
    step = x[1] - x[0]
    densities = [stats.norm.pdf(x, *side) for side in (good, bad)]
    entropies = [math.log(s * math.sqrt(2 * math.pi * math.e)) for _, s in (good, bad)]

    def told(share: float) -> float:
        mixed = share * densities[0] + (1 - share) * densities[1]
        known = share * entropies[0] + (1 - share) * entropies[1]
        return (float(special.entr(mixed).sum() * step) - known) / math.log(2)

    best = optimize.minimize_scalar(lambda w: -told(w), bounds=(0.01, 0.99), method="bounded")
    return -float(best.fun)


def hours(builds: float, runs: float) -> float:
    """Of the lab, one thing after the other."""
    return (builds * (PRICES.build + PRICES.boot) + max(builds, runs) * PRICES.run) / 3600


def sharpest(distance: float) -> float:
    """Chance to name the very commit of a step when every image was measured without end.

    Images have offsets, and the culprit shows in its own image first: the likelihood of a
    neighbour is a random walk, and the best guess is right if neither walk ever gets above 0.
    By Spitzer's identity that is exp(-2 sum Phi(-distance sqrt(k) / 2) / k), far from the ends
    (D. V. Hinkley, Biometrika 57, 1970).

    Args:
        distance: Height of the step in standard deviations of an image.
    """
    k = np.arange(1, 2000)
    return math.exp(-2 * float((special.ndtr(-distance * np.sqrt(k) / 2) / k).sum()))


def certain(distance: float, sure: float = 1 - WRONG, trials: int = 2000) -> float:
    """Share of searches that can come to be sure when every image was measured without end.

    By simulation, of a uniform prior far from the ends; what lies 30 images off is never in doubt.

    Args:
        distance: Height of the step in standard deviations of an image.
        sure: The posterior that counts as such.
        trials: Searches that are simulated, always the same ones.
    """
    side = 30
    noise = np.random.default_rng(1).standard_normal((trials, 2 * side))
    seen = noise + distance * (np.arange(2 * side) >= side)
    log_odds = np.cumsum((distance * seen - distance**2 / 2)[:, ::-1], axis=1)
    return float(np.mean(special.softmax(log_odds, axis=1).max(axis=1) >= sure))


def ceilings(case: str, worlds: int = 300) -> tuple[float, float]:
    """Means of `sharpest` and `certain` over the worlds of a case."""
    best, named = [], []
    for number in range(worlds):
        world = CASES[case].draw(np.random.default_rng(number))
        distance = abs(world.suspected) / world.image_sd if world.image_sd else math.inf
        best.append(1.0 if distance == math.inf else sharpest(distance))
        named.append(1.0 if distance == math.inf else _certain(round(distance, 1)))
    return float(np.mean(best)), float(np.mean(named))


@cache
def _certain(distance: float) -> float:
    return certain(distance)


def _paths_bits() -> float:
    """Entropy of the culprit when a genie tells which commits build the same kernel."""
    touching = COMMITS // 10
    others = (COMMITS - touching) / 2
    share = 20 * touching / (20 * touching + others)
    rest = math.log2(others)
    return binary_entropy(share) + share * math.log2(touching) + (1 - share) * rest


def floor_hours(case: str) -> float | None:
    """Hours of the lab that a case takes at least; None where no such bound is known here.

    `bimodal` gets the bound of a lab where each boot tells its mode. `skips` and `paths` get that
    of a lab where it is known which revisions build, and which build the same kernel.
    """
    whole = math.log2(COMMITS)
    match case:
        case "ideal" | "history" | "bimodal":
            return hours(least_builds(whole), least_runs(whole))
        case "small":
            bad = (GOOD[0] * 0.99, BAD[1])
            return hours(least_builds(whole), least_runs(whole, GOOD, bad))
        case "skips":
            bits = math.log2(COMMITS * 0.7**2)
            return hours(least_builds(bits), least_runs(bits))
        case "paths":
            bits = _paths_bits()
            return hours(least_builds(bits), least_runs(bits))
        case "parallel":
            # The first kernel has to be waited for; the one machine visits what has to be visited.
            visits, runs = least_builds(whole), least_runs(whole)
            return (PRICES.build + visits * PRICES.boot + runs * PRICES.run) / 3600
        case _:
            return None
