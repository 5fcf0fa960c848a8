"""`netbisect health`: smallest detectable changes, and results of earlier alerts."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_facts import intend, sample
from programs import netbisect

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.detection_results import SplitHalfTest
from netbisect.bisect.model.entities import Boot, Commit, Conditions, Fact, Kernel
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import Confirmed, Effect, NotConfirmed
from netbisect.steps.queries.health import judge, new_epochs
from netbisect.store.db.records import Outcome
from netbisect.store.ledger import Ledger, open_ledger

FORWARDING, PF = "inet4-forwarding", "inet4-pf-stateful"
DAY = 86400.0
NOW = 1.8e9
LINE = [f"{number:040x}" for number in range(40)]


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = open_ledger(url)
    ledger.clock = lambda: NOW
    ledger.commits.learn(
        [Commit(revision, i, "", "", "", "", 0.0) for i, revision in enumerate(LINE)], "main"
    )
    yield ledger
    ledger.engine.dispose()


def test_each_epoch_lists_changed_conditions(ledger: Ledger) -> None:
    """Each condition has its old and its new value; earlier epochs are omitted."""
    days = (200.0, 150.0, 3.0)
    for number, (ago, queues) in enumerate(zip(days, ("8", "6", "4"), strict=True)):
        values = {"cpu": "Xeon", "hw.ix.num_queues": queues} | ({"a": "1"} if number == 2 else {})
        conditions = Conditions.of("c2558", FORWARDING, values)
        boot = Boot(f"b{number}", "c2558", f"k{number}", LINE[number], NOW - ago * DAY, 60.0)
        kernel = Kernel(
            LINE[number], "GENERIC", "amd64", f"i{number}", boot.kernel, "v", 1, 0.0, 60.0
        )
        run = sample(boot.id, "c2558", FORWARDING, 5e5, boot.at, conditions=conditions.digest)
        ledger.facts.record_all([kernel, boot, conditions, run], "test")
    changed = "hw.ix.num_queues: 6 → 4; a: not recorded → 1"
    [line] = new_epochs(ledger)
    assert line == f"c2558: new epoch of {FORWARDING} since 2027-01-12: {changed}"


class SimulatedLab:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.random = random.Random(1)
        self.boots = 0

    def night(
        self,
        number: int,
        *,
        testbed: str = "c2558",
        scenario: str = FORWARDING,
        ago: float = 0.0,
        change: float = 0.0,
        decision: int | None = None,
        sd: float = 0.004,
    ) -> None:
        """Records five boots; `change` is the ln ratio to 1 Mpps, `sd` the noise."""
        at = NOW - ago * DAY
        facts: list[Fact] = [
            Kernel(LINE[number], "GENERIC", "amd64", f"i{number}", f"k{number}", "v", 1, 0.0, 60.0)
        ]
        image = self.random.gauss(0, sd)
        for _ in range(5):
            self.boots += 1
            boot = f"b{self.boots}"
            pps = 1e6 * math.exp(change + image + self.random.gauss(0, sd))
            facts.append(Boot(boot, testbed, f"k{number}", LINE[number], at, 60.0))
            facts.append(sample(boot, testbed, scenario, pps, at + self.boots))
        if decision is None:
            self.ledger.facts.record_all(facts, "test")
            return
        for fact in facts:
            self.ledger.facts.record(fact, decision)

    def record(self, number: int, ago: float, change: float = 0.0) -> None:
        self.ledger.clock = lambda: NOW - ago * DAY
        job = NightlyJob("main", "c2558", LINE[number], (FORWARDING,), 5)
        record = self.ledger.jobs.add(job, key=f"{number} {ago}")
        decision = intend(self.ledger, record, LINE[number])
        self.night(number, ago=ago, change=change, decision=decision.id)
        self.ledger.actions.finish(decision.id, Outcome.OK)
        self.ledger.clock = lambda: NOW

    def candidate(
        self,
        ago: float,
        effect: float | None,
        state: AlertState | None = None,
        *,
        lead: str = FORWARDING,
    ) -> None:
        """Records a candidate and its retest, `ago` days ago; `effect` is None if not confirmed."""
        self.ledger.clock = lambda: NOW - ago * DAY
        key = f"{ago} {lead} {self.boots}"
        self.boots += 1
        night = self.ledger.jobs.add(
            NightlyJob("main", "c2558", LINE[9], (lead,), 5), key=f"night {key}"
        )
        sign = effect or -0.1
        job = CompareJob("main", "c2558", LINE[8], LINE[9], (lead,), lead, sign, commits=30)
        kind = AlertKind.DROP if sign < 0 else AlertKind.IMPROVEMENT
        with self.ledger.jobs.closing(night, NotConfirmed((), "")) as closing:
            record = closing.ask(job, key=key)
            alert = closing.open_candidate(record, kind=kind, what="seen")
        if effect is None:
            why = "not there"
            with self.ledger.jobs.closing(record, NotConfirmed((), why)) as closing:
                closing.change_alert(alert.id, what=why, state=AlertState.WITHDRAWN)
        else:
            found = (Effect(lead, effect, effect - 0.01, effect + 0.01, 1e-6, 6, 6),)
            with self.ledger.jobs.closing(record, Confirmed(found)) as closing:
                announced = closing.open_alert(found, what="confirmed")
            if state is not None:
                self.ledger.alerts.change(announced.id, who="olga", what="so", state=state)
        self.ledger.clock = lambda: NOW


@pytest.fixture
def lab(ledger: Ledger) -> SimulatedLab:
    return SimulatedLab(ledger)


def test_every_series_has_its_last_night(lab: SimulatedLab) -> None:
    """One series is up to date, one lacks ten nights, one is alone on its testbed."""
    for number in range(30, 40):
        lab.night(number, ago=40 - number)
    for number in range(20, 30):
        lab.night(number, scenario=PF, ago=40 - number, change=-0.2 * (number == 29))
    lab.night(39, testbed="apu2", ago=100)
    found = judge(lab.ledger)

    assert [(series.testbed, series.scenario, series.branch) for series in found.series] == [
        ("apu2", FORWARDING, "main"),
        ("c2558", FORWARDING, "main"),
        ("c2558", PF, "main"),
    ]
    assert [series.up_to_date for series in found.series] == [True, True, False]
    assert [series.days for series in found.series] == pytest.approx([100, 1, 11], abs=0.01)
    alone, quiet, dropped = (series.q for series in found.series)
    assert alone is None
    assert quiet is not None
    assert dropped is not None
    assert dropped < 1e-3 < quiet


@pytest.mark.both_databases
def test_two_nights_of_one_kernel_are_compared(lab: SimulatedLab) -> None:
    """Later nights do not count; the ten boots are also compared by halves of five."""
    for number in range(10, 20):
        lab.record(number, ago=40 - number)
    lab.record(19, ago=7, change=-0.1)
    for number in range(20, 32):
        lab.night(number, change=-0.1)
    [series] = judge(lab.ledger).series

    assert series.repeats.nights == series.repeats.screened == series.repeats.retested == 1
    assert series.repeats.night_sd == pytest.approx(0.1 / math.sqrt(2), rel=0.1)
    assert judge(lab.ledger).repeats == series.repeats
    assert judge(lab.ledger).halves == SplitHalfTest(1, 1, 1)


def test_a_drop_that_returns_counts_as_confirmed(lab: SimulatedLab) -> None:
    """Its new candidate is withdrawn in favour of the earlier alert."""
    lab.candidate(20, -0.1, AlertState.FIXED)
    lab.candidate(10, -0.1)
    [first, candidate] = lab.ledger.alerts.all(candidates=True)

    assert (first.announced_at is None, candidate.state) == (False, AlertState.WITHDRAWN)
    assert judge(lab.ledger).record.confirmed == 2


def run(*arguments: str) -> tuple[int, str]:
    result = netbisect("health", *arguments)
    return result.exit_code, result.output


def test_the_command_prints_text_or_json(lab: SimulatedLab, url: str) -> None:
    """Both have the same warnings; neither changes the ledger."""
    for number in range(10):
        lab.night(number, ago=20 - number)
    lab.candidate(3, -0.1, AlertState.WITHDRAWN)
    lab.candidate(2, None)
    lab.candidate(1, None, lead=PF)
    before = lab.ledger.events.last()
    status, text = run("--database", url)
    assert status == 0
    assert "c2558/inet4-forwarding/main  10      50 " in text
    assert "Announced in 90 days: 1 drop and 0 improvements; 1 of 1 alert withdrawn" in text
    assert (
        "1 of 3 candidates; of the series flagged in one of two such successive nights, 50 % were"
        in (" ".join(text.split()))
    )

    status, printed = run("--database", url, "--json")
    data = json.loads(printed)
    assert status == 0
    assert set(data) == {"format", "at", "series", "record", "halves", "repeats", "warnings"}
    assert (data["record"]["announced"], data["record"]["taken_back"]) == (1, 1)
    [series] = data["series"]
    assert series["health"]["boots"] == 50
    assert len(data["warnings"]) == text.split("Warnings:")[1].count(".\n")
    assert lab.ledger.events.last() == before


def test_the_smallest_drop_depends_on_min_effect_percent(
    lab: SimulatedLab, url: str, tmp_path: Path
) -> None:
    """Changes below `min_effect_percent` are not alerted."""
    for number in range(12):
        lab.night(number, sd=0.0002)
    (tmp_path / "netbisect.toml").write_text(
        f'branches = ["main"]\ndatabase = "{url}"\nmin_effect_percent = 8.0\n'
        '[mail]\nto = ["a@lab.invalid"]\nsender = "b@lab.invalid"\n'
    )
    smallest = [
        json.loads(run(*place, "--json")[1])["series"][0]["health"]["smallest_drop"]
        for place in (("--database", url), ("--folder", str(tmp_path)))
    ]

    assert smallest[0] < 0.03
    assert smallest[1] > 0.06
