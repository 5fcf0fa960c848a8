"""The evidence of a job: boots, conditions and kernels, and skipped revisions."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import pytest
from evidence_lab import BISECTION, FORWARDING, PF, Lab, boots_of, comparison, learn
from ledger_facts import NIGHT, sample
from sqlalchemy import event

from netbisect.bisect.model.entities import Boot, Noise, Reaction, Sample, Stage
from netbisect.bisect.model.jobs import Candidate
from netbisect.bisect.model.results import Unfinished
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger

OTHER = "c2558-2"


@pytest.fixture
def lab(url: str) -> Iterator[Lab]:
    engine = open_database(url)
    yield Lab(Ledger(engine))
    engine.dispose()


def test_evidence_of_a_night_has_only_its_own_boots(lab: Lab) -> None:
    earlier, tonight = lab.add_job(NIGHT), lab.add_job(NIGHT)
    lab.boot(earlier, "r1", {FORWARDING: 1e5})
    lab.boot(None, "r1", {FORWARDING: 1e5})
    lab.boot(tonight, "r1", {FORWARDING: 1e5})
    lab.boot(tonight, "r1", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(tonight)) == [("r1", True), ("r1", True)]
    assert boots_of(lab.evidence(earlier)) == [("r1", True)]


def test_a_bisection_inherits_earlier_measurements(lab: Lab) -> None:
    before = lab.add_job(comparison())
    lab.boot(before, "r1", {FORWARDING: 1e5})
    lab.boot(before, "r9", {FORWARDING: 1e5})
    record = lab.add_job(BISECTION, parent=before.id)
    lab.boot(record, "r5", {FORWARDING: 1e5})
    lab.boot(record, "r0", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(record)) == [("r1", False), ("r9", False), ("r5", True)]


@pytest.mark.both_databases
def test_a_search_may_have_more_commits_than_a_query_has_parameters(lab: Lab) -> None:
    """The limit of SQLite is lowered to the one of old versions; that of PostgreSQL is 65,535."""
    limited = lab.ledger.engine.dialect.name == "sqlite"

    @event.listens_for(lab.ledger.engine, "checkout")
    def limit(connection: Any, *_: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    candidates = tuple(Candidate(f"r{number}") for number in range(2, 2_000 if limited else 70_000))
    record = lab.add_job(dataclasses.replace(BISECTION, candidates=candidates))
    built = lab.build("r5")
    lab.boot(record, "r5", {FORWARDING: 1e5}, kernel=built.key)
    lab.failure(record, "r7", Stage.BUILD)

    evidence = lab.evidence(record)

    assert boots_of(evidence) == [("r5", True)]
    assert evidence.kernels == {"r5": built}
    assert evidence.skipped == {"r7": "build trouble"}
    assert lab.ledger.jobs.needed_kernels() == {built.key}


@pytest.mark.both_databases
def test_different_conditions_are_not_compared(lab: Lab) -> None:
    record = lab.add_job(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5, PF: 1e5})
    lab.conditions = "a new generator"
    lab.boot(record, "r9", {FORWARDING: 2e5})

    [bad] = lab.evidence(record).observations  # the other has no comparable leading sample
    assert (bad.revision, list(bad.ln_pps)) == ("r9", [FORWARDING])
    kept = [fact for fact in lab.ledger.facts.of_job(record.id) if isinstance(fact, Sample)]
    assert len(kept) == 3


def test_conditions_of_a_clock_that_was_ahead_are_not_the_newest(lab: Lab) -> None:
    """Otherwise a night would repeat its boots until that date."""
    lab.count = itertools.count(9_000_000_000)
    lab.boot(None, "r0", {FORWARDING: 1e5})
    lab.count = itertools.count(1)
    lab.conditions = "a new generator"
    record = lab.add_job(NIGHT)
    lab.boot(record, "r1", {FORWARDING: 1e5})

    assert boots_of(lab.evidence(record)) == [("r1", True)]


@pytest.mark.both_databases
def test_later_facts_do_not_change_the_evidence_of_a_closed_job(lab: Lab) -> None:
    """The clock of the worker is a minute ahead."""
    lab.boot(None, "r1", {FORWARDING: 1e5})
    lab.count = itertools.count(int(time.time()) + 60)
    lab.conditions = "an upgraded generator"
    record = lab.add_job(comparison())
    lab.boot(record, "r1", {FORWARDING: 1e5})
    lab.boot(record, "r9", {FORWARDING: 2e5})
    lab.failure(record, "r9", Stage.BUILD)
    at_the_end = lab.evidence(record)
    assert at_the_end.skipped == {"r9": "build trouble"}
    with lab.ledger.jobs.closing(record, Unfinished("a user said so")):
        pass
    later = lab.add_job(comparison())
    lab.boot(later, "r1", {FORWARDING: 3e5})
    lab.conditions = "a new generator"
    lab.boot(None, "r9", {FORWARDING: 3e5})
    lab.boot(later, "r9", {FORWARDING: 3e5})
    lab.failure(later, "r1", Stage.BUILD)
    lab.count = itertools.count(int(time.time()) + 600)
    built = lab.build("r9")

    assert lab.skipped(later) == {"r1": "build trouble"}
    closed = lab.evidence(lab.ledger.jobs.get(record.id))
    assert closed == dataclasses.replace(at_the_end, kernels={"r9": built})
    assert boots_of(lab.evidence(later)) == [("r9", False), ("r9", True)]


@pytest.mark.both_databases
def test_the_newest_build_is_used_and_old_boots_keep_theirs(lab: Lab) -> None:
    record = lab.add_job(comparison())
    old = lab.build("r1", "first image")
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel=old.key)
    new = lab.build("r1", "second image")
    lab.boot(record, "r1", {FORWARDING: 1e5}, kernel=new.key)
    lab.ledger.facts.record(old)

    evidence = lab.evidence(record)

    assert evidence.kernels == {"r1": new}
    assert [one.identity for one in evidence.observations] == ["first image", "second image"]


def test_evidence_is_independent_of_the_order_of_facts(lab: Lab) -> None:
    record = lab.add_job(comparison())
    trials = [
        (
            Boot(f"boot {i}", "c2558", "key", "r1", float(i), 180.0),
            sample(f"boot {i}", "c2558", FORWARDING, 1e5 + i, i),
        )
        for i in range(3)
    ]
    decision = lab.decide(record, "r1")

    for boot, run in (trials[2], trials[0], trials[1]):
        lab.ledger.facts.record(boot, decision)
        lab.ledger.facts.record(run, decision)

    evidence = lab.evidence(record)
    assert [reading.boot for reading in evidence.of("r1")] == ["boot 0", "boot 1", "boot 2"]
    assert [math.exp(reading.ln_pps[FORWARDING]) for reading in evidence.of("r1")] == (
        pytest.approx([1e5, 1e5 + 1, 1e5 + 2])
    )


@pytest.mark.both_databases
def test_layouts_of_a_revision_are_visible_to_its_search_only(lab: Lab) -> None:
    """Other jobs and queries ignore them."""
    searching = lab.add_job(dataclasses.replace(BISECTION, layouts=3))
    plain, comparing = lab.add_job(BISECTION), lab.add_job(comparison("r1", "r5"))
    ordinary, relinked = lab.build("r5", "five"), lab.build("r5#2", "five again")
    lab.boot(searching, "r5", {FORWARDING: 100.0}, kernel=ordinary.key)
    lab.boot(searching, "r5#2", {FORWARDING: 90.0}, kernel=relinked.key)
    lab.build("r7#1")
    seen = lab.evidence(searching)

    assert [(r.revision, r.layout, r.identity) for r in seen.observations] == [
        ("r5", 0, "five"),
        ("r5", 2, "five again"),
    ]
    kernels = {name: (one.revision, one.layout) for name, one in seen.kernels.items()}
    assert kernels == {"r5": ("r5", 0), "r5#2": ("r5", 2)}
    for name in (*kernels, "r7"):
        kernel = lab.ledger.evidence.kernel(name, config="GENERIC", arch="amd64")
        assert kernel == seen.kernels.get(name)
    assert lab.ledger.evidence.kernel("r5", config="GENERIC", arch="arm64") is None
    for record in (plain, comparing):
        assert [r.layout for r in lab.evidence(record).observations] == [0]
        assert set(lab.evidence(record).kernels) == {"r5"}
    assert lab.ledger.commits.booted() == ["r5"]
    learn(lab, "r1", "r5", "r9")
    levels = lab.ledger.series.levels("c2558", FORWARDING, "main")
    assert [level.identity for level in levels] == ["five"]
    assert not any("r5#2" in line for line in lab.ledger.samples.excluded())
    assert lab.ledger.jobs.needed_kernels() == {ordinary.key, relinked.key}
    assert lab.ledger.commits.label("r5#2") == f"{lab.ledger.commits.label('r5')}, layout 2"


@pytest.mark.parametrize("first", [True, False])
def test_a_revision_that_boots_on_another_testbed_is_not_skipped(lab: Lab, *, first: bool) -> None:
    """The order does not matter, and a failure on the only testbed of a revision counts."""
    record = lab.add_job(dataclasses.replace(BISECTION, others={OTHER: Noise()}))
    places = [("r1", "c2558", OTHER), ("r5", OTHER, "c2558")]
    for revision, success, failure in places:
        if first:
            lab.boot(record, revision, {FORWARDING: 600_000.0}, testbed=success)
        lab.failure(record, revision, Stage.BOOT, testbed=failure)
        if not first:
            lab.boot(record, revision, {FORWARDING: 600_000.0}, testbed=success)
    lab.failure(record, "r9", Stage.BOOT, testbed=OTHER)

    assert set(lab.skipped(record)) == {"r5", "r9"}


def test_last_recorded_kernel_counts_independent_of_the_clocks_of_builders(lab: Lab) -> None:
    """An earlier kernel may have been removed, and would be rebuilt repeatedly."""
    record = lab.add_job(NIGHT)
    lab.count = itertools.count(2_000_000_000)
    lab.build("r1")
    lab.count = itertools.count(1000)
    last = lab.build("r1")

    assert lab.evidence(record).kernels["r1"].key == last.key
    assert lab.ledger.jobs.needed_kernels() == {last.key}


@pytest.mark.both_databases
def test_a_series_has_a_level_for_every_image_in_the_order_of_the_branch(lab: Lab) -> None:
    learn(lab, "r9", "r1", "r5")
    first, second = lab.build("r1", "one"), lab.build("r1", "two")
    for kernel in (first, second, first):
        lab.boot(None, "r1", {FORWARDING: 1e5, PF: 9e5}, kernel=kernel.key)
    record = lab.add_job(comparison())
    lab.boot(record, "r9", {FORWARDING: 3e5})
    lab.boot(record, "r5", {FORWARDING: 2e5})
    lab.boot(record, "r7", {FORWARDING: 2e5})
    lab.boot(record, "r5", {FORWARDING: 2e5}, problems=["none"])

    series = lab.ledger.series.levels("c2558", FORWARDING, "main")

    assert [(level.revision, level.identity) for level in series] == [
        ("r1", "one"),
        ("r1", "two"),
        ("r5", "key of r5"),
        ("r9", "key of r9"),
    ]
    rates = [[1e5, 1e5], [1e5], [2e5], [3e5]]
    assert [level.ln_pps for level in series] == [tuple(map(math.log, one)) for one in rates]
    assert series[0].at < series[1].at
    assert lab.ledger.series.levels("apu2", FORWARDING, "main") == []
    assert lab.ledger.series.levels("c2558", FORWARDING, "stable/15") == []


@pytest.mark.parametrize("stage", [Stage.CHECKOUT, Stage.BUILD, Stage.DEPLOY, Stage.BOOT])
def test_a_build_failure_is_skipped_by_all_testbeds_and_a_boot_failure_on_its_own(
    lab: Lab, stage: Stage
) -> None:
    """Later jobs of the same configuration and architecture also skip the revision."""
    record, later = lab.add_job(BISECTION), lab.add_job(comparison("r5", "r9"))
    other_testbed = lab.add_job(dataclasses.replace(BISECTION, testbed=OTHER))
    lab.failure(record, "r5", stage)
    skipped, built = {"r5": f"{stage.value} trouble"}, stage in (Stage.DEPLOY, Stage.BOOT)

    assert lab.skipped(record) == lab.skipped(later) == skipped
    assert lab.ledger.evidence.failures("r5") == [skipped["r5"]]
    assert lab.skipped(other_testbed) == ({} if built else skipped)
    assert lab.evidence(record, config="GENERIC-NODEBUG").skipped == {}
    assert built or lab.evidence(record, arch="arm64").skipped == {}


@pytest.mark.both_databases
def test_a_crash_after_the_leading_scenario_was_measured_does_not_skip(lab: Lab) -> None:
    record = lab.add_job(comparison())
    trial = lab.decide(record, "r1")
    boot = Boot("boot", "c2558", "key", "r1", 1.0, 1.0)
    lab.ledger.facts.record(boot, trial)
    lab.run(boot, trial, FORWARDING, 1e5)
    lab.failure(record, "r1", Stage.BOOT, scenario=PF, decision=trial)
    assert lab.skipped(record) == {}

    lab.failure(record, "r1", Stage.BOOT, scenario=PF)
    assert lab.skipped(record) == {"r1": "boot trouble"}
    without_it = lab.add_job(dataclasses.replace(comparison(), scenarios=(FORWARDING,)))
    assert lab.skipped(without_it) == {}


def test_a_night_skips_revisions_that_fail_all_its_scenarios(lab: Lab) -> None:
    record = lab.add_job(NIGHT)
    lab.failure(record, "r1", Stage.BENCH, scenario=PF)
    assert lab.skipped(record) == {}

    lab.failure(record, "r1", Stage.BENCH, scenario=FORWARDING)
    assert lab.skipped(record) == {"r1": "bench trouble"}


@pytest.mark.both_databases
def test_temporary_failures_skip_after_three_trials_for_one_job(lab: Lab) -> None:
    record, other = lab.add_job(BISECTION), lab.add_job(BISECTION)
    lab.failure(other, "r5", Stage.BOOT, Reaction.RETRY)
    lab.failure(record, "r5", Stage.CHECKOUT, Reaction.RETRY)
    trial = lab.decide(record, "r5")
    for _ in range(4):
        lab.failure(record, "r5", Stage.BENCH, Reaction.RETRY, scenario=FORWARDING, decision=trial)
    lab.failure(record, "r5", Stage.BENCH, Reaction.RETRY, scenario=PF)
    assert lab.skipped(record) == {}

    lab.failure(record, "r5", Stage.DEPLOY, Reaction.RETRY)
    assert lab.skipped(record) == {"r5": "could not be measured in 3 tries: deploy trouble"}
    assert lab.skipped(other) == {}


@pytest.mark.both_databases
def test_three_trials_without_a_sample_skip_a_revision(lab: Lab) -> None:
    record = lab.add_job(comparison())
    for _ in range(2):
        lab.boot(record, "r1", {FORWARDING: 1e5}, problems=["the generator offered too little"])
    assert lab.skipped(record) == {}

    lab.boot(record, "r1", {FORWARDING: 0.0})
    assert lab.skipped(record) == {"r1": "could not be measured in 3 tries: no packet was received"}
    lab.boot(record, "r1", {FORWARDING: 1e5})
    assert lab.skipped(record) == {}
