"""What a search will want next: kernels to build ahead, and what is left to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy import special

from netbisect.bisect import search
from netbisect.bisect.belief import Posterior, as_belief, infer
from netbisect.bisect.line import Line, lay_out
from netbisect.bisect.meanwhile import Wait
from netbisect.bisect.model import Belief, Bisection, Evidence, Move, Prices, Visit
from netbisect.bisect.verify import LEAST_BOOTS, SURE, stretches

_LEAST_PIECE = 0.13
"""Mass that a build parts from the rest at least: less is better ordered when the visit under way
has told which side is left. An eighth is what the third build of a search would part."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a search stands, and what it is expected to take to its end."""

    belief: Belief
    move: Move
    """The next boot, or the answer."""
    builds_left: float
    boots_left: float
    hours_left: float
    """Of one builder and one testbed, one after the other."""


def builds_ahead(
    question: Bisection,
    evidence: Evidence,
    prices: Prices,
    builders: int,
    building: Collection[str] = (),
) -> tuple[str, ...]:
    """Names the revisions worth building while the testbed measures.

    What is built already, or will be, cuts the posterior into pieces; the heaviest piece is cut
    in half, then the heaviest of what is left, and so on: with nothing built, one builder takes
    the median and three take the quartiles.

    Args:
        question: Which of these commits?
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
        builders: How many revisions to name, at most.
        building: What is being built at this moment.
    """
    if prices.build <= 0:
        return ()
    line = lay_out(question, evidence)
    steps = infer(line).steps
    found: list[str] = []
    cuts = {place.position for place in line.places if place.built or place.boots}
    cuts |= {line.revisions.index(name) for name in building if name in line.revisions}
    free = {place.position: place.revision for place in line.places if place.position not in cuts}
    sums = np.cumsum(steps)
    while len(found) < builders and free:
        position = _halving(sums, sorted(cuts), np.array(sorted(free)))
        if position is None:
            break
        found.append(free.pop(position))
        cuts.add(position)
    return tuple(found)


def _halving(sums: np.ndarray, cuts: list[int], free: np.ndarray) -> int | None:
    """The position that leaves least of the heaviest piece, if one is worth it.

    A culprit at k is told from one at k + 1 by a kernel at k: a cut at p parts those up to p from
    those above.
    """
    edges = np.array([-1, *cuts, len(sums) - 1])
    total = np.concatenate([[0.0], sums])
    piece = np.searchsorted(cuts, free, side="left")
    low, high = total[edges[piece] + 1], total[edges[piece + 1] + 1]
    at = total[free + 1]
    saved = np.minimum(at - low, high - at)
    best = int(np.argmax(saved))
    return int(free[best]) if saved[best] > _LEAST_PIECE else None


def outlook(question: Bisection, evidence: Evidence, prices: Prices) -> Outlook:
    """Tells what is believed, what comes next, and what the search will still take.

    An estimate: each bit that is missing takes a kernel, and a kernel as many boots as a boot
    falls short of one bit; then comes what is missing of the proof.
    """
    line = lay_out(question, evidence)
    posterior = infer(line)
    move = search.decide(line, posterior, prices)
    assert not isinstance(move, Wait), "nothing is under way that could be waited for"
    belief = as_belief(line, posterior)
    if not isinstance(move, Visit):
        return Outlook(belief, move, 0.0, 0.0, 0.0)
    bits = _bits(posterior)
    per_boot = search.capacity(question, move.runs)
    builds = min(bits, float(sum(not place.built for place in line.places)))
    boots = bits / per_boot + _proof_left(line, posterior)
    run = prices.run * len(question.scenarios) * move.runs
    seconds = builds * prices.build + boots * (prices.boot + run)
    return Outlook(belief, move, builds, boots, seconds / 3600)


def _bits(posterior: Posterior) -> float:
    chances = np.append(posterior.chances, [posterior.none, posterior.two, posterior.drift])
    return float(special.entr(chances).sum()) / math.log(2)


def _proof_left(line: Line, posterior: Posterior) -> float:
    found = stretches(line, posterior.steps, 1)
    if not found or found[0].chance < 1 - SURE:
        return 2.0 * LEAST_BOOTS
    lead = line.question.lead
    sides = [place for place in (found[0].good, found[0].bad) if place is not None]
    made = sum(
        min(LEAST_BOOTS, sum(r.fresh and lead in r.ln_pps for r in place.readings))
        for place in sides
    )
    return max(0.0, 2.0 * LEAST_BOOTS - made)
