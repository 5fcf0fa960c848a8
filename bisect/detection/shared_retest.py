"""Retest on several testbeds at once, with pairs of boots of one testbed.

The test of `retest`, with looks after 3, 6 and 9 complete pairs. Boots are compared within their
testbed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from netbisect.bisect.detection.retest import judge, not_comparable
from netbisect.bisect.model.detection_results import LOOKS
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.in_flight import InFlight, Wait
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    Move,
    NotConfirmed,
    Trial,
)
from netbisect.bisect.stats.effect import effects
from netbisect.bisect.stats.interleave import good_is_next


def next_move_on(job: CompareJob, evidence: Evidence, in_flight: InFlight) -> Move | Wait:
    """The next trial of an idle testbed, or the result."""
    good, bad = (
        [observation for observation in evidence.of(revision) if observation.fresh]
        for revision in (job.good, job.bad)
    )
    answer = not_comparable(job, evidence, good, bad)
    if answer is not None:
        return answer
    pairs = _pairs(job, evidence.observations)
    looks = [number for number in LOOKS if number <= len(pairs)]
    for number in looks:
        sides = [fast for fast, _ in pairs[:number]], [slow for _, slow in pairs[:number]]
        judged = judge(job, *sides)
        if judged is not None:
            confirmed, why = judged
            found = effects(*sides, job.lead, job.scenarios)
            return Confirmed(found) if confirmed else NotConfirmed(found, why)
    return _turn(job, (good, bad), LOOKS[len(looks)], in_flight)


def _pairs(
    job: CompareJob, observations: Sequence[Observation]
) -> list[tuple[Observation, Observation]]:
    """Pairs of one boot of each side on one testbed, in order of completion."""
    waiting: defaultdict[tuple[str, str], list[Observation]] = defaultdict(list)
    found = []
    for observation in observations:
        if not observation.fresh or job.lead not in observation.ln_pps:
            continue
        if observation.revision not in (job.good, job.bad):
            continue
        is_good = observation.revision == job.good
        others = waiting[observation.testbed, job.bad if is_good else job.good]
        if others:
            other = others.pop(0)
            found.append((observation, other) if is_good else (other, observation))
        else:
            waiting[observation.testbed, observation.revision].append(observation)
    return found


def _turn(
    job: CompareJob,
    sides: tuple[list[Observation], list[Observation]],
    look: int,
    in_flight: InFlight,
) -> Trial | Wait:
    """The next boot of the idle testbed, unless the running pairs are enough for a look."""
    counts = []
    for side, revision in zip(sides, (job.good, job.bad), strict=True):
        boots = Counter(r.testbed for r in side if job.lead in r.ln_pps)
        boots.update(v.testbed for v in in_flight.under_way if v.revision == revision)
        counts.append(boots)
    good, bad = (boots[in_flight.testbed] for boots in counts)
    testbeds = counts[0].keys() | counts[1].keys()
    begun = sum(max(boots[name] for boots in counts) for name in testbeds)
    complete = sum(min(boots[name] for boots in counts) for name in testbeds)
    if in_flight.under_way and (complete >= look or (good == bad and begun >= look)):
        return Wait.WAIT
    good_next = good_is_next(good, bad)
    name = "last good" if good_next else "suspected"
    revision = job.good if good_next else job.bad
    boot = (good if good_next else bad) + 1
    why = f"boot {boot} of the {name} revision on {in_flight.testbed}, interleaved"
    return Trial(revision, why, testbed=in_flight.testbed)
