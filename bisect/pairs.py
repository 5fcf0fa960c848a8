"""The retest on several testbeds at once: pairs of boots, each of one testbed.

The test is that of `comparison`, with pairs for boots: a look is due when so many pairs are
complete, and it rests on the first so many of them, whatever has been measured since. Each boot is
held only against those of its own testbed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from netbisect.bisect.compare import effects
from netbisect.bisect.comparison import LOOKS, judge, unfit
from netbisect.bisect.meanwhile import Meanwhile, Wait
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Evidence,
    Move,
    NotConfirmed,
    Reading,
    Visit,
)
from netbisect.bisect.turns import good_is_next


def next_together(question: Comparison, evidence: Evidence, meanwhile: Meanwhile) -> Move | Wait:
    """Tells what an idle testbed boots next, or whether `question.bad` is slower.

    Args:
        question: Is it?
        evidence: All facts that bear on it, in the order in which they were measured.
        meanwhile: Which testbed is idle, and what the others measure.
    """
    good, bad = (
        [reading for reading in evidence.of(revision) if reading.fresh]
        for revision in (question.good, question.bad)
    )
    answer = unfit(question, evidence, good, bad)
    if answer is not None:
        return answer
    pairs = _pairs(question, evidence.readings)
    looks = [number for number in LOOKS if number <= len(pairs)]
    for number in looks:
        sides = [fast for fast, _ in pairs[:number]], [slow for _, slow in pairs[:number]]
        judged = judge(question, *sides)
        if judged is not None:
            confirmed, why = judged
            found = effects(*sides, question.lead, question.scenarios)
            return Confirmed(found) if confirmed else NotConfirmed(found, why)
    return _turn(question, (good, bad), LOOKS[len(looks)], meanwhile)


def _pairs(question: Comparison, readings: Sequence[Reading]) -> list[tuple[Reading, Reading]]:
    """One boot of either side on one testbed, in the order in which the pairs were complete."""
    waiting: defaultdict[tuple[str, str], list[Reading]] = defaultdict(list)
    found = []
    for reading in readings:
        if not reading.fresh or question.lead not in reading.ln_pps:
            continue
        if reading.revision not in (question.good, question.bad):
            continue
        is_good = reading.revision == question.good
        others = waiting[reading.testbed, question.bad if is_good else question.good]
        if others:
            other = others.pop(0)
            found.append((reading, other) if is_good else (other, reading))
        else:
            waiting[reading.testbed, reading.revision].append(reading)
    return found


def _turn(
    question: Comparison,
    sides: tuple[list[Reading], list[Reading]],
    look: int,
    meanwhile: Meanwhile,
) -> Visit | Wait:
    """The next boot of the idle testbed, as long as the pairs under way are too few for a look."""
    counts = []
    for side, revision in zip(sides, (question.good, question.bad), strict=True):
        boots = Counter(r.testbed for r in side if question.lead in r.ln_pps)
        boots.update(v.testbed for v in meanwhile.under_way if v.revision == revision)
        counts.append(boots)
    good, bad = (boots[meanwhile.testbed] for boots in counts)
    testbeds = counts[0].keys() | counts[1].keys()
    begun = sum(max(boots[name] for boots in counts) for name in testbeds)
    complete = sum(min(boots[name] for boots in counts) for name in testbeds)
    if meanwhile.under_way and (complete >= look or (good == bad and begun >= look)):
        return Wait.WAIT
    good_next = good_is_next(good, bad)
    name = "last good" if good_next else "suspected"
    revision = question.good if good_next else question.bad
    boot = (good if good_next else bad) + 1
    why = f"boot {boot} of the {name} revision on {meanwhile.testbed}, in turns with the other"
    return Visit(revision, why, testbed=meanwhile.testbed)
