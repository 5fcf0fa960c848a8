"""Prefetch of kernels, and forecast of the remaining cost of a search."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from netbisect.bisect.model.detection_results import ALPHA, SearchForecast
from netbisect.bisect.model.evidence import Evidence, Prices
from netbisect.bisect.model.in_flight import Wait
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.results import Move, Trial
from netbisect.bisect.search import engine
from netbisect.bisect.search.posterior import infer
from netbisect.bisect.search.search_space import build_search_space
from netbisect.bisect.stats.information import bits_of_boot
from netbisect.bisect.stats.sequential import BLOCK

_LEAST_PIECE = 0.13
"""Minimum mass that a prefetched kernel splits off. An eighth is the share of the third build;
below that it is better to wait for the running trial."""


def revisions_to_prefetch(
    job: BisectJob,
    evidence: Evidence,
    prices: Prices,
    builders: int,
    building: Collection[str] = (),
) -> tuple[str, ...]:
    """Revisions worth building while the testbed measures.

    Kernels that exist or are being built cut the posterior into pieces; the heaviest piece is
    halved, repeatedly. With nothing built, one builder takes the median and three the quartiles.
    """
    if prices.build <= 0:
        return ()
    space = build_search_space(job, evidence)
    steps = infer(space).any_step
    found: list[str] = []
    cuts = {target.position for target in space.targets if target.built or target.boots}
    cuts |= {space.revisions.index(name) for name in building if name in space.revisions}
    free = {
        target.position: target.revision for target in space.targets if target.position not in cuts
    }
    sums = np.cumsum(steps)
    while len(found) < builders and free:
        position = _halving(sums, sorted(cuts), np.array(sorted(free)))
        if position is None:
            break
        found.append(free.pop(position))
        cuts.add(position)
    return tuple(found)


def _halving(sums: np.ndarray, cuts: list[int], free: np.ndarray) -> int | None:
    """The position that best halves a piece, or None if no cut is worth a build.

    A kernel at p separates culprits up to p from culprits above.
    """
    edges = np.array([-1, *cuts, len(sums) - 1])
    total = np.concatenate([[0.0], sums])
    piece = np.searchsorted(cuts, free, side="left")
    low, high = total[edges[piece] + 1], total[edges[piece + 1] + 1]
    at = total[free + 1]
    saved = np.minimum(at - low, high - at)
    best = int(np.argmax(saved))
    return int(free[best]) if saved[best] > _LEAST_PIECE else None


def forecast(
    job: BisectJob, evidence: Evidence, prices: Prices, trial: Trial | None = None
) -> SearchForecast:
    """Posterior, next move and estimated remaining cost of a search.

    Each missing bit takes one build and 1 / `bits_of_boot` boots; a block of the verification is
    added. `trial` is the next move with its posterior, if known.
    """
    space = build_search_space(job, evidence)
    move: Move | Wait | None = trial
    posterior = trial.posterior if trial else None
    if posterior is None:
        joint = infer(space)
        posterior, move = joint.posterior, engine.decide(space, joint, prices)
    assert not isinstance(move, Wait | None), "no trial to wait for"
    if not isinstance(move, Trial):
        return SearchForecast(posterior, move, 0.0, 0.0, 0.0)
    per_boot = bits_of_boot(job.noise, job.effect, move.runs)
    builds = min(posterior.bits, float(sum(not target.built for target in space.targets)))
    boots = posterior.bits / per_boot + max(BLOCK, -math.log2(ALPHA) / per_boot)
    run = prices.run * len(job.scenarios) * move.runs
    seconds = builds * prices.build + boots * (prices.boot + run)
    return SearchForecast(posterior, move, builds, boots, seconds / 3600)
