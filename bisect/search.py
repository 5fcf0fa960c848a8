"""The search for the culprit: the next boot worth its price, or the end.

Every move is computed anew from the question and the evidence. A boot is chosen by what it is
expected to teach per second of the lab, building included, so the search itself decides whether
to split the range, to measure an end again or to doubt a boot.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect.belief import Posterior, as_belief, infer
from netbisect.bisect.gain import information
from netbisect.bisect.line import Line, Place, lay_out
from netbisect.bisect.model import (
    Bisection,
    Evidence,
    Move,
    NotReproduced,
    Prices,
    Unfinished,
    Visit,
)
from netbisect.bisect.verify import MOST_BOOTS, SURE, Stretch, likeliest, prove

SURE_NONE = 0.95
"""Chance of "none" at which a search ends without a name."""
_VISITS, _VISITS_PER_BIT = 60, 4
"""Boots that a search may take: three times what a drop of 3 % takes with 0.9 % of boot noise and
0.5 % of image noise. What is not settled by then is hidden by noise."""
_LEAST_GAIN, _LEAST_SHARE = 0.002, 0.005
"""Bits, and of the bits that are missing: a boot that teaches less is not worth ordering. Only
the offsets of images make it so little, for no number of boots averages them out."""
_NO_GAIN = 1e-4
"""Bits, when hardly any are missing."""
_STRETCH = 5.0
"""Commits over which a failure to build or boot casts doubt on its neighbours."""


def next_move(question: Bisection, evidence: Evidence, prices: Prices) -> Move:
    """Tells what to boot next, or how the search ends.

    The same question and the same evidence, in any order, give the same move.
    """
    line = lay_out(question, evidence)
    posterior = infer(line)
    stretch = likeliest(line, posterior.chances)
    return _settle(line, posterior, stretch) or _explore(line, posterior, stretch, prices)


def _settle(line: Line, posterior: Posterior, stretch: Stretch | None) -> Move | None:
    """The ends of a search that is sure, and the proof on the way there."""
    belief = as_belief(line, posterior)
    used = sum(reading.fresh for reading in line.evidence.readings)
    allowed = _VISITS + _VISITS_PER_BIT * math.ceil(math.log2(len(line.revisions)))
    if posterior.none >= SURE_NONE:
        return NotReproduced(belief, _why_none(line))
    if stretch is not None and stretch.chance >= SURE:
        proof = prove(line, stretch, belief)
        if proof is not None and (not isinstance(proof, Visit) or used < allowed + 2 * MOST_BOOTS):
            return proof
    if used >= allowed:
        return Unfinished(f"{used} boots did not settle it", belief)
    if not line.places:
        return Unfinished("none of the revisions can be measured", belief)
    return None


def _explore(
    line: Line, posterior: Posterior, stretch: Stretch | None, prices: Prices
) -> Visit | Unfinished:
    """The visit that teaches most for its price, unless none teaches anything."""
    if not line.images:
        return _first_visit(line, posterior)
    bits = information(line, posterior)
    missing = _entropy(posterior)
    if bits.max() < max(_NO_GAIN, min(_LEAST_GAIN, _LEAST_SHARE * missing)):
        return Unfinished(_why_stuck(line, stretch), as_belief(line, posterior))
    return _visit(line, posterior, _best(line, posterior, bits, prices))


def _first_visit(line: Line, posterior: Posterior) -> Visit:
    """A level says nothing without another: the good end first, or else the bad end."""
    first, last = line.places[0], line.places[-1]
    return _visit(line, posterior, first if first.position == 0 else last)


def _entropy(posterior: Posterior) -> float:
    """What is not known yet, in bits."""
    chances = np.array([*posterior.chances, posterior.none])
    return float(special.entr(chances).sum()) / math.log(2)


def _best(line: Line, posterior: Posterior, bits: NDArray[np.float64], prices: Prices) -> Place:
    """The place that teaches most per second; among equals, the one next to the median."""
    runs = prices.boot + prices.run * len(line.question.scenarios)
    skipped = [i for i, name in enumerate(line.revisions) if name in line.evidence.skipped]
    seconds = np.array([runs + (0.0 if place.built else prices.build) for place in line.places])
    success = np.array([_success(place, skipped) for place in line.places])
    rate = bits * success / np.maximum(seconds, 1.0)
    # Beyond nine digits it is the order of additions that speaks.
    rate = np.round(rate / rate.max(), 9)
    below = np.cumsum(posterior.chances)
    median = int(np.searchsorted(below, below[-1] / 2))
    best = min(
        range(len(line.places)),
        key=lambda i: (-rate[i], abs(line.places[i].position - median), i),
    )
    return line.places[best]


def _success(place: Place, skipped: list[int]) -> float:
    """Chance that a place can be measured, by its distance from those that could not.

    Next to a failure it is a half, for breakage comes in stretches; what has been built and
    booted before is trusted.
    """
    if place.boots or place.built or not skipped:
        return 1.0
    distance = min(abs(place.position - position) for position in skipped)
    return 1 - 0.5 * math.exp(-(max(distance, 1) - 1) / _STRETCH)


def _visit(line: Line, posterior: Posterior, place: Place) -> Visit:
    return Visit(place.revision, _why(line, posterior, place), as_belief(line, posterior))


def _why(line: Line, posterior: Posterior, place: Place) -> str:
    if place is line.at[0]:
        return "measures the good end again" if place.boots else "measures the good end"
    if place.boots:
        end = place is line.at[-1]
        return f"measures {'the bad end' if end else place.revision[:12]} again"
    if place is line.at[-1]:
        return "measures the bad end"
    share = float(posterior.chances[: place.position + 1].sum() / posterior.chances.sum())
    if 0.4 <= share <= 0.6:  # noqa: PLR2004 - what people would call halves
        return "splits what is left in two halves"
    if not 0.02 < share < 0.98:  # noqa: PLR2004 - below that it is not to split the rest
        return f"measures one more kernel of the {'bad' if round(share) else 'good'} side"
    return f"splits what is left {round(100 * share)} to {100 - round(100 * share)}"


def _why_none(line: Line) -> str:
    if not line.possible.any():
        return "all candidates build the kernel of the good end"
    boots = sum(len(image.ln_pps) for image in line.images)
    return f"{boots} boots of {len(line.images)} kernels of the range show one level"


def _why_stuck(line: Line, stretch: Stretch | None) -> str:
    if stretch is not None and stretch.chance >= SURE:
        revision = line.revisions[stretch.positions[-1]]
        return f"boots of {revision[:12]} and of its parent do not differ as the search expects"
    return "the offsets of the kernels hide the rest: further boots would teach next to nothing"
