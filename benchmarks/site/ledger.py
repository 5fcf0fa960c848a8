"""A synthetic ledger of several years: nights, drops, retests and searches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Boot, Commit, Conditions, Fact, Kernel, Noise, Sample
from netbisect.bisect.model.jobs import BisectJob, Candidate, CompareJob, NightlyJob
from netbisect.bisect.model.results import Confirmed, Culprit, Effect, NightlyResult, Posterior
from netbisect.store.db.database import open_database
from netbisect.store.db.records import ActionStage, Outcome
from netbisect.store.db.schema import migrate
from netbisect.store.ledger import Ledger

BRANCH = "main"
DAY = 86400.0
FIRST = 1_700_000_000 // DAY * DAY
_COMMITS = 24
"""Commits per day."""
_LEARNT = 8
"""Nights before the first drop."""
_LASTING = 12
"""Duration of a drop in nights; the last two drops are open."""
_MOVED = 5
"""One of this number of scenarios shows a drop."""
_BUILT_IN_SEARCH = 6
_OFFERED = 14_880_000.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The dimensions of the ledger."""

    testbeds: int = 12
    scenarios: int = 25
    nights: int = 1095
    boots: int = 5
    drops: int = 36
    seed: int = 1

    def drop(self, number: int) -> tuple[int, int]:
        """Testbed and first night of a drop; the last two are open."""
        if number >= self.drops - 2:
            return number % self.testbeds, self.nights - 3 - number % 2
        room = max(self.nights - _LEARNT - _LASTING - 4, 1)
        return number % self.testbeds, _LEARNT + number * room // max(self.drops, 1)

    def moves(self, drop: int, path: int) -> bool:
        """Whether a scenario shows a drop: one in five."""
        kinds = min(_MOVED, self.scenarios)
        return path % kinds == drop % kinds


def revision(number: int) -> str:
    """The hash of a commit."""
    return hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()


def head(night: int) -> int:
    """The number of the commit of a night."""
    return 300_000 + night * _COMMITS


def fill(url: str, plan: Plan) -> Ledger:
    """Creates and fills the database; the clock of the ledger is the last night."""
    engine = open_database(url)
    migrate(engine)
    now = [FIRST]
    ledger = Ledger(engine, clock=lambda: now[0])
    for night in range(plan.nights):
        if night % 30 == 0:
            numbers = range(head(night) - _COMMITS, head(min(night + 30, plan.nights)))
            ledger.commits.learn([_commit(number) for number in numbers], BRANCH)
    for testbed in range(plan.testbeds):
        ledger.facts.record_all(
            _facts(plan, testbed, range(plan.nights)), "a lab of this benchmark"
        )
    for drop in range(plan.drops):
        _case(ledger, plan, drop, now)
    now[0] = FIRST + plan.nights * DAY
    return ledger


def night(ledger: Ledger, plan: Plan, number: int, testbeds: int) -> None:
    """Adds a nightly job."""
    ledger.commits.learn(
        [_commit(one) for one in range(head(number - 1) + 1, head(number) + 1)], BRANCH
    )
    names = tuple(map(scenario, range(plan.scenarios)))
    for testbed in range(testbeds):
        name = bed(testbed)
        job = NightlyJob(BRANCH, name, revision(head(number)), names, plan.boots)
        record = ledger.jobs.add(job, key=f"night:{name}:{number}")
        ledger.facts.record_all(_facts(plan, testbed, range(number, number + 1)), "a night")
        with ledger.jobs.closing(record, NightlyResult(plan.boots)):
            pass


def bed(number: int) -> str:
    """The name of a testbed."""
    return f"testbed-{number:02}"


def scenario(number: int) -> str:
    """The name of a scenario."""
    return f"inet{4 + 2 * (number % 2)}-path-{number:02}"


def _commit(number: int) -> Commit:
    return Commit(
        revision=revision(number),
        number=number,
        subject=f"sys: separate the counters of path {number % 25}",
        body="",
        author="A Committer",
        email="committer@example.org",
        at=FIRST + (number - 300_000) / _COMMITS * DAY,
        paths=("sys/netinet/ip_output.c",),
        lines=12,
    )


def _facts(plan: Plan, testbed: int, nights: range) -> Iterator[Fact]:
    """All kernels, boots and samples of a testbed."""
    name = bed(testbed)
    for number in nights:
        rng = np.random.default_rng([plan.seed, testbed, number])
        one = revision(head(number))
        at = FIRST + number * DAY + 3600.0
        key = f"{one[:20]}{testbed:04}"
        yield Kernel(
            one, "GENERIC-NODEBUG", "amd64", key, key, f"n{head(number)}", 30_000_000, at, 500.0
        )
        images = rng.normal(0, 0.006, plan.scenarios)
        scatter = rng.normal(0, 0.009, (plan.boots, plan.scenarios))
        for boot in range(plan.boots):
            start = at + 600.0 + boot * 900.0
            identifier = f"{name}-{number}-{boot}"
            yield Boot(identifier, name, key, one, start, 170.0)
            for path in range(plan.scenarios):
                ln = _level(plan, testbed, path, number) + images[path] + scatter[boot, path]
                yield _sample(name, identifier, path, ln, number, start + 30.0 * path)
    for path in range(plan.scenarios):
        for number in {0, plan.nights // 2}:
            yield _conditions(name, path, number)


def _sample(name: str, boot: str, path: int, ln: float, night: int, at: float) -> Sample:
    return Sample(
        id=f"{boot}-{path}",
        boot=boot,
        testbed=name,
        scenario=scenario(path),
        pps=math.exp(ln),
        offered_pps=_OFFERED,
        received=(),
        offered=(),
        problems=(),
        conditions=_conditions(name, path, night).digest,
        at=at,
        seconds=30.0,
    )


def _conditions(name: str, path: int, number: int) -> Conditions:
    """Every fifth scenario has other conditions in its first year."""
    old = path % 5 == 0 and number < 365
    values = {"flows": "2000", "packet": "60 bytes", "nic firmware": "1.61" if old else "1.63"}
    return Conditions.of(name, scenario(path), values)


def _level(plan: Plan, testbed: int, path: int, number: int) -> float:
    ln = math.log(600_000 * (1 + testbed % 5) * (1 + path % 7 / 4))
    for drop in range(testbed, plan.drops, plan.testbeds):
        _, first = plan.drop(drop)
        if first <= number < first + _LASTING and plan.moves(drop, path):
            ln -= 0.04
    return ln


def _case(ledger: Ledger, plan: Plan, drop: int, now: list[float]) -> None:
    """Adds a retest, an alert, a search with its boots, and the recovery of old drops."""
    testbed, first = plan.drop(drop)
    name = bed(testbed)
    good, bad = head(first - 1), head(first)
    now[0] = FIRST + first * DAY + 20_000.0
    paths = [path for path in range(plan.scenarios) if plan.moves(drop, path)][:_MOVED]
    moved = list(map(scenario, paths))
    effects = tuple(Effect(one, -0.04, -0.05, -0.03, 1e-8, 12, 12) for one in moved)
    lead = moved[0]
    job = CompareJob(
        BRANCH, name, revision(good), revision(bad), tuple(moved), lead, -0.04, commits=30
    )
    record = ledger.jobs.add(job, key=f"compare:{drop}")
    with ledger.jobs.closing(record, Confirmed(effects)) as closing:
        alert = closing.open_alert(effects, what="confirmed by interleaved boots of one pair")
        search = closing.ask(
            BisectJob(
                BRANCH,
                name,
                revision(good),
                tuple(Candidate(revision(one)) for one in range(good + 1, bad + 1)),
                tuple(moved),
                lead,
                -0.04,
                Noise(),
            ),
            key=f"bisect:{drop}",
        )
        closing.change_alert(
            alert.id, what="the search begins", bisection=search.id, state=AlertState.BISECTING
        )
    low, high = good + 1, bad
    culprit = (good + bad) // 2 + 1
    for step in range(_BUILT_IN_SEARCH):
        revision_number = max((low + high) // 2, low)
        inside = range(low, high + 1)
        chances = {revision(one): 0.0001 for one in range(good + 1, bad + 1)}
        chances |= dict.fromkeys(map(revision, inside), 0.99 / len(inside))
        now[0] += 1000.0
        decision = ledger.actions.intend(
            search.id,
            ActionStage.TRIAL,
            revision(revision_number),
            name,
            config="GENERIC-NODEBUG",
            arch="amd64",
            why="most to learn for its price",
            posterior=Posterior(chances, 0.005),
        )
        slow = 0.04 * (revision_number >= culprit) - 0.003 * (step % 3)
        before = {path: _level(plan, testbed, path, first - 1) - slow for path in paths}
        _boot(ledger, decision.id, name, before, (revision_number, first), now[0])
        ledger.actions.finish(decision.id, Outcome.OK)
        low, high = (
            (low, revision_number) if revision_number >= culprit else (revision_number + 1, high)
        )
    posterior = Posterior({**chances, revision(culprit): 0.99}, 0.001)
    verified = tuple(replace(one, ln_ratio=-0.045) for one in effects)
    result = Culprit(revision(culprit), revision(culprit - 1), posterior, verified, 0.99)
    with ledger.jobs.closing(search, result) as closing:
        closing.change_alert(
            alert.id,
            what="the search ended: culprit",
            state=AlertState.CULPRIT_FOUND,
            culprit=result.revision,
        )
    if drop < plan.drops - 2:
        now[0] += _LASTING * DAY
        back = revision(head(first + _LASTING))
        ledger.alerts.change(
            alert.id, who="olga", what="the level is back", state=AlertState.FIXED, recovery=back
        )


def _boot(
    ledger: Ledger,
    decision: int,
    name: str,
    levels: dict[int, float],
    record: tuple[int, int],
    at: float,
) -> None:
    number, of_night = record
    one, key = revision(number), f"{revision(number)[:20]}{name}"
    boot = Boot(f"search-{decision}", name, key, one, at, 170.0)
    ledger.facts.record(
        Kernel(one, "GENERIC-NODEBUG", "amd64", key, key, f"n{number}", 1, at, 500.0), decision
    )
    ledger.facts.record(boot, decision)
    for path, ln in levels.items():
        ledger.facts.record(_sample(name, boot.id, path, ln, of_night, at + 200.0), decision)
