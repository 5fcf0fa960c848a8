"""The search for the culprit: the next boot worth its price, or the end.

Every move is computed anew from the question and the evidence. A boot is chosen by what it is
expected to teach per second of the lab, building included, so the search itself decides whether
to split the range, to measure an end again or to doubt a boot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from netbisect.bisect import layouts
from netbisect.bisect.belief import Posterior, as_belief, infer
from netbisect.bisect.gain import information
from netbisect.bisect.line import Line, Place, lay_out
from netbisect.bisect.meanwhile import QUIET, Meanwhile, Wait
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Culprit,
    Drift,
    Evidence,
    Move,
    NotReproduced,
    Prices,
    Several,
    Suspects,
    Unfinished,
    Visit,
    kernel_name,
)
from netbisect.bisect.verify import (
    RUNS,
    SURE,
    SUSPECTED,
    hidden,
    most_boots,
    moved,
    prove,
    runs_of_proof,
    stretches,
)

SURE_NONE = 0.95
"""Chance of "none" at which a search ends without a name."""
SURE_DRIFT = 0.9
"""Chance of a drift at which a search ends without a name."""
_ANOTHER, _ANOTHER_CHEAP = 0.07, 0.015
"""Chance of a second step at which a search goes on after its first name is proved, when its next
visit takes a build; it is lower, in proportion, where the next visit costs less, down to the other
value. Where images have offsets, small second steps hide in them, and it is always the first."""
_VISITS, _VISITS_PER_BIT = 60, 4
"""Boots that a search may take: three times what a drop of 3 % takes with 0.9 % of boot noise and
0.5 % of image noise. What is not settled by then is hidden by noise."""
_HARDEST = 6.0
"""Times as many, at most, where the boots scatter more than half the effect."""
_HARDEST_IMAGES = 1.5
"""The same where boots and images together do, and further layouts average the offsets out."""
_LEAST_GAIN, _LEAST_SHARE = 0.002, 0.005
"""Bits, and of the bits that are missing: a boot that teaches less is not worth ordering. Only
the offsets of images make it so little, for no number of boots averages them out."""
_LITTLE_SHARE = 0.006
"""Of the bits that are missing: less is not worth a boot where all that is open is which of a few
neighbours it is. A share, for a search that is nearly sure gets there by small steps, and one that
wavers between two kernels which are measured well does not by large ones."""
_LITTLE_OF_LAYOUTS = 0.001
"""The same where the lab can link further layouts: then further boots do average offsets out, and
most of the bits that are missing may be of a second step that no boot tells of."""
_NO_GAIN = 1e-4
"""Bits, when hardly any are missing."""
_FORESIGHT = 1.3
"""Seconds that a bit is worth, over what it costs at the place that is chosen, with one run."""
_CLEAR_END = 5.5
"""Standard deviations of the mean of the runs at an end that the effect should be."""
_STRETCH = 5.0
"""Commits over which a failure to build or boot casts doubt on its neighbours."""

_ENOUGH = 0.1
"""Of the bits per second that the best visit promises were nothing under way: a testbed that can
earn less waits for what the others find."""


def next_move(
    question: Bisection,
    evidence: Evidence,
    prices: Prices,
    building: Mapping[str, float] | None = None,
    *,
    verify: bool = True,
) -> Move:
    """Tells what to boot next, or how the search ends.

    The same question and the same evidence, in any order, give the same move.

    Args:
        question: Which of these commits?
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
        building: What is being built at this moment, if anything: seconds until it is.
        verify: Whether a commit is verified before it is named. Without that, the search ends
            with `Suspects` as soon as commits hold 0.99 each, and names nobody.
    """
    line = lay_out(question, evidence)
    move = decide(line, infer(line), prices, Meanwhile(building or {}), verify=verify)
    assert not isinstance(move, Wait), "nothing is under way that could be waited for"
    return move


def next_together(
    question: Bisection, evidence: Evidence, prices: Prices, meanwhile: Meanwhile
) -> Move | Wait:
    """As `next_move`, for one of several testbeds while the others measure.

    Args:
        question: Which of these commits?
        evidence: All facts that bear on it.
        prices: What actions cost, in seconds of the lab.
        meanwhile: Which testbed is idle, and what goes on elsewhere.
    """
    line = lay_out(question, evidence)
    return decide(line, infer(line, meanwhile.testbed), prices, meanwhile)


def decide(
    line: Line,
    posterior: Posterior,
    prices: Prices,
    meanwhile: Meanwhile = QUIET,
    *,
    verify: bool = True,
) -> Move | Wait:
    """As `next_together`, when the posterior is known."""
    line = replace(line, offsets=posterior.offsets)
    belief = as_belief(line, posterior)
    ended = _nobody(line, posterior, belief, meanwhile)
    if ended is not None:
        return ended
    move: Move | Wait | None
    if verify:
        move, proved = _proof(line, posterior, belief, meanwhile)
    else:
        move, proved = _unproved(line, posterior, belief), []
    spent = _spent(line, prices) >= line.question.budget_seconds
    if move is not None and not (spent and isinstance(move, Visit | Wait)):
        return move
    limit = _limit(line, prices)
    if limit:
        return _stuck(line, posterior, proved, limit)
    if not line.places:
        return Unfinished("none of the revisions can be measured", belief)
    found = _explore(line, posterior, prices, meanwhile, proved)
    if proved and not _worth_another(line, posterior, found, prices):
        return proved[0]
    # What is under way may yet tell what is missing, or a builder that is free again.
    waits = meanwhile.under_way or not meanwhile.may_build
    return Wait.WAIT if waits and isinstance(found, Suspects | Unfinished) else found


def _proof(
    line: Line, posterior: Posterior, belief: Belief, meanwhile: Meanwhile
) -> tuple[Move | Wait | None, list[Culprit]]:
    """What the proofs ask for or come to, if anything, and the culprits that are proved."""
    proved: list[Culprit] = []
    open_proof: Visit | Wait | None = None
    found = [one for one in stretches(line, posterior.steps, 2) if one.chance >= SUSPECTED]
    for stretch in found:
        both = belief.two > 0.5 and len(found) > 1  # noqa: PLR2004 - likelier than not
        other = next((one for one in found if one is not stretch), None) if both else None
        proof = prove(line, stretch, belief, meanwhile, other)
        if isinstance(proof, Visit | Wait):
            # What waits leaves this testbed to the next one.
            open_proof = proof if not isinstance(open_proof, Visit) else open_proof
        elif stretch.chance >= SURE and isinstance(proof, Culprit):
            proved.append(proof)
        elif stretch.chance >= SURE and proof is not None and not proved:
            return proof, []
    if len(proved) > 1:
        ranked = sorted(proved, key=lambda one: -abs(one.effects[0].ln_ratio))
        return Several(tuple(ranked), belief), proved
    used = sum(reading.fresh for reading in line.evidence.readings)
    if used >= _allowed(line.question) + 2 * most_boots(line.question):
        open_proof = None
    least = _ANOTHER if line.question.noise.image else _ANOTHER_CHEAP
    if open_proof is None and proved and posterior.two < least:
        return proved[0], proved
    return open_proof, proved


def _unproved(line: Line, posterior: Posterior, belief: Belief) -> Suspects | None:
    """The commits that are sure without a proof: one, or both where two made a change."""
    both = belief.two > 0.5  # noqa: PLR2004 - likelier than not
    found = stretches(line, posterior.steps, 2 if both else 1)
    if not found or min(one.chance for one in found) < SURE:
        return None
    names = tuple(line.revisions[i] for one in found for i in one.positions)
    return Suspects(names, belief, "they hold 0.99 each, and none was verified")


def _worth_another(line: Line, posterior: Posterior, move: Move | Wait, prices: Prices) -> bool:
    """Whether a search goes on after its first name is proved, for a second step."""
    if not isinstance(move, Visit):
        return isinstance(move, Wait)
    share = 1.0
    if not line.question.noise.image:
        name = kernel_name(move.revision, move.layout)
        make = 0.0 if name in line.evidence.kernels else prices.of_kernel(move.layout)
        boot = prices.boot + move.runs * prices.run * len(line.question.scenarios)
        dearest = prices.build + boot
        share = (make + boot) / dearest if dearest else 1.0
    return posterior.two >= max(_ANOTHER_CHEAP, _ANOTHER * share)


def _limit(line: Line, prices: Prices) -> str:
    """Why a search may not go on; empty if it may."""
    used = sum(reading.fresh for reading in line.evidence.readings)
    if used >= _allowed(line.question):
        return f"{used} boots did not settle it"
    spent = _spent(line, prices)
    if spent >= line.question.budget_seconds:
        return f"the budget is spent after {spent / 3600:.1f} hours"
    return ""


def _nobody(
    line: Line, posterior: Posterior, belief: Belief, meanwhile: Meanwhile
) -> Move | Wait | None:
    """The ends without a name, or the boot that such an end still takes."""
    if posterior.none >= SURE_NONE:
        if (end := _single_boot(line)) is not None:
            if any(line.at[line.revisions.index(v.revision)] is end for v in meanwhile.under_way):
                return Wait.WAIT
            return _visit(line, posterior, end, 1, meanwhile)
        return NotReproduced(belief, _why_none(line))
    if (shift := moved(line)) is not None:
        return NotReproduced(
            belief,
            f"the good end itself changed by {shift.percent:+.1f} % since it was called good: "
            "it is the testbed or its surroundings, not a commit",
        )
    if posterior.drift >= SURE_DRIFT:
        return Drift(belief, f"{len(line.images)} kernels of the range lie along a slope")
    return None


def _single_boot(line: Line) -> Place | None:
    """An end that was booted once only, where boots scatter: one astray makes the ends alike."""
    if not line.question.noise.boot:
        return None
    ends = (line.at[0], line.at[-1])
    return next((place for place in ends if place is not None and place.boots == 1), None)


def _allowed(question: Bisection) -> int:
    """Boots that a search may take."""
    bits = math.ceil(math.log2(len(question.candidates) + 1))
    scatter, half = question.noise.variance_of_boot(RUNS[-1]), question.effect / 2
    times = min(max(1.0, scatter / half**2), _HARDEST)
    if layouts.averages(question):
        times = max(times, min((scatter + question.noise.image**2) / half**2, _HARDEST_IMAGES))
    return int((_VISITS + _VISITS_PER_BIT * bits) * times)


def _spent(line: Line, prices: Prices) -> float:
    """Seconds of the lab that the fresh boots took, with the kernels that were built for them."""
    question, fresh = line.question, [r for r in line.evidence.readings if r.fresh]
    ends = {line.revisions[0], line.revisions[-1]}
    runs = sum(reading.runs for reading in fresh) * len(question.scenarios)
    built = len({r.revision for r in fresh if not r.layout} - ends)
    relinked = len({(r.revision, r.layout) for r in fresh if r.layout})
    made = built * prices.build + relinked * prices.of_kernel(1)
    return len(fresh) * prices.boot + runs * prices.run + made


def _stuck(line: Line, posterior: Posterior, proved: list[Culprit], why: str) -> Move:
    """How a search ends that cannot go on: with what is proved, or a range, or no name."""
    belief = as_belief(line, posterior)
    if proved:
        return proved[0]
    return hidden(line, posterior.steps, belief) or Unfinished(why, belief)


def _explore(
    line: Line, posterior: Posterior, prices: Prices, meanwhile: Meanwhile, proved: list[Culprit]
) -> Move | Wait:
    """The visit that teaches most for its price, unless none teaches anything."""
    end = _measure_end(line, posterior, meanwhile)
    if end is not None:
        return end
    further = layouts.further(line, meanwhile)
    line = replace(line, places=(*line.places, *further))
    options = RUNS if line.question.noise.run else RUNS[:1]
    ahead = meanwhile.under_way
    bits = np.array([information(line, posterior, runs, ahead) for runs in options])
    if not meanwhile.may_build:
        bits *= [place.built or _name(place) in meanwhile.building for place in line.places]
    open_, more = _entropy(posterior), not all(place.boots for place in further)
    least = min(_LEAST_GAIN, (_LITTLE_OF_LAYOUTS if more else _LEAST_SHARE) * open_)
    if bits.max() < (max(_NO_GAIN, least) if line.question.noise.image else _NO_GAIN):
        return _stuck(line, posterior, proved, _why_stuck(line, posterior))
    if bits.max() < (_LITTLE_OF_LAYOUTS if more else _LITTLE_SHARE) * open_:
        found = hidden(line, posterior.steps, as_belief(line, posterior))
        if found is not None:
            return found
    if ahead:
        alone = np.array([information(line, posterior, runs) for runs in options])
        most = _rates(line, alone, prices, meanwhile)[0].max()
        if _rates(line, bits, prices, meanwhile)[0].max() < _ENOUGH * most:
            return Wait.WAIT
    place, runs = _best(line, posterior, bits, prices, meanwhile)
    return _visit(line, posterior, place, runs, meanwhile)


def _measure_end(line: Line, posterior: Posterior, meanwhile: Meanwhile) -> Visit | None:
    """A level says nothing without another: the good end first, then the bad end.

    They come with more runs than others, for every later boot is held against them. A further
    testbed begins with the good end too: without a kernel that others have measured, nobody knows
    what its level is to be held against.
    """
    first, last = line.places[0], line.places[-1]
    runs = runs_of_proof(line.question.noise, line.question.effect, _CLEAR_END)
    if not line.images or (meanwhile.testbed and meanwhile.testbed not in line.testbeds):
        place = first if first.position == 0 else last
        return _visit(line, posterior, place, runs, meanwhile)
    ahead = any(visit.revision != line.revisions[0] for visit in meanwhile.under_way)
    if last.built and not ahead and not any(place.boots for place in line.places[1:]):
        return _visit(line, posterior, last, runs, meanwhile)
    return None


def _entropy(posterior: Posterior) -> float:
    """What is not known yet, in bits."""
    rest = [posterior.none, posterior.two, posterior.drift]
    return float(special.entr(np.array([*posterior.chances, *rest])).sum()) / math.log(2)


def _best(
    line: Line,
    posterior: Posterior,
    bits: NDArray[np.float64],
    prices: Prices,
    meanwhile: Meanwhile,
) -> tuple[Place, int]:
    """The place that teaches most per second, and runs; among equals, next to the median."""
    rate, seconds = _rates(line, bits, prices, meanwhile)
    # Beyond nine digits it is the order of additions that speaks.
    rate = np.round(rate / rate.max(), 9)
    below = np.cumsum(posterior.steps)
    median = int(np.searchsorted(below, below[-1] / 2))
    away = np.array([abs(place.position - median) for place in line.places])
    i = int(np.lexsort((np.arange(len(away)), away, -rate.max(axis=0)))[0])
    # What a boot leaves open costs another boot: a bit is worth more than it costs just now.
    worth = _FORESIGHT * seconds[:, i].min() / max(bits[np.argmin(seconds[:, i]), i], 1e-9)
    k = int(np.argmax(np.round(bits[:, i] * worth - seconds[:, i], 6)))
    return line.places[i], RUNS[k]


def _rates(
    line: Line, bits: NDArray[np.float64], prices: Prices, meanwhile: Meanwhile
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bits per second that a visit promises, and its seconds; by number of runs and place."""
    skipped = [i for i, name in enumerate(line.revisions) if name in line.evidence.skipped]
    run = prices.run * len(line.question.scenarios)
    ready = np.array([_seconds_to_build(place, prices, meanwhile) for place in line.places])
    seconds = np.array([ready + prices.boot + run * runs for runs in RUNS[: len(bits)]])
    success = np.array([_success(place, skipped) for place in line.places])
    return bits * success / np.maximum(seconds, 1.0), seconds


def _seconds_to_build(place: Place, prices: Prices, meanwhile: Meanwhile) -> float:
    if place.built:
        return 0.0
    return meanwhile.building.get(_name(place), prices.of_kernel(place.layout))


def _name(place: Place) -> str:
    return kernel_name(place.revision, place.layout)


def _success(place: Place, skipped: list[int]) -> float:
    """Chance that a place can be measured, by its distance from those that could not.

    Next to a failure it is a half, for breakage comes in stretches; what has been built and
    booted before is trusted.
    """
    if place.boots or place.built or not skipped:
        return 1.0
    distance = min(abs(place.position - position) for position in skipped)
    return 1 - 0.5 * math.exp(-(max(distance, 1) - 1) / _STRETCH)


def _visit(
    line: Line, posterior: Posterior, place: Place, runs: int, meanwhile: Meanwhile
) -> Visit:
    if place.layout:
        again = " again" if place.boots else ""
        why = f"measures layout {place.layout} of {place.revision[:12]}{again}"
    else:
        why = _why(line, posterior, place, meanwhile.testbed)
    belief = as_belief(line, posterior)
    return Visit(place.revision, why, belief, runs, meanwhile.testbed, place.layout)


def _why(line: Line, posterior: Posterior, place: Place, testbed: str) -> str:
    if place is line.at[0]:
        first = not place.boots or (testbed and not line.on(place, testbed))
        there = f" on {testbed}" if first and testbed else ""
        return f"measures the good end{there}" if first else "measures the good end again"
    if place.boots:
        end = place is line.at[-1]
        return f"measures {'the bad end' if end else place.revision[:12]} again"
    if place is line.at[-1]:
        return "measures the bad end"
    share = float(posterior.steps[: place.position + 1].sum() / posterior.steps.sum())
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


def _why_stuck(line: Line, posterior: Posterior) -> str:
    found = stretches(line, posterior.steps, 1)
    if found and found[0].chance >= SURE:
        revision = line.revisions[found[0].positions[-1]]
        return f"boots of {revision[:12]} and of its parent do not differ as the search expects"
    return "the offsets of the kernels hide the rest: further boots would teach next to nothing"


def capacity(question: Bisection, runs: int) -> float:
    """Bits that one boot tells of whether a kernel is fast or slow, both levels known."""
    noise = question.noise
    variance = max(noise.variance_of_boot(runs) + noise.image**2, 1e-12)
    distance = abs(question.effect) / math.sqrt(variance)
    y = np.linspace(-8, 8 + distance, 801)
    sides = np.exp(-((y - np.array([[0.0], [distance]])) ** 2) / 2)
    sides /= sides.sum(axis=1, keepdims=True)
    nats = special.entr(sides.mean(axis=0)).sum() - special.entr(sides).sum(axis=1).mean()
    return max(float(nats) / math.log(2), 1e-3)
