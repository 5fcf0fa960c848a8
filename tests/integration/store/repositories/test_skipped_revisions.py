"""Revisions that cannot be measured."""

from __future__ import annotations

import dataclasses

import pytest
from evidence_lab import FORWARDING, PF, Lab, bisection, comparison, night

from netbisect.bisect.model.entities import Boot, Reaction, Stage


@pytest.mark.parametrize("stage", [Stage.CHECKOUT, Stage.BUILD, Stage.DEPLOY, Stage.BOOT])
def test_a_build_failure_is_skipped_by_all_testbeds_and_a_boot_failure_on_its_own(
    lab: Lab, stage: Stage
) -> None:
    """Later jobs of the same configuration and architecture also skip the revision."""
    record, later = lab.add_job(bisection()), lab.add_job(comparison("r5", "r9"))
    other_testbed = lab.add_job(dataclasses.replace(bisection(), testbed="c2558-2"))
    lab.failure(record, "r5", stage)
    skipped, built = {"r5": f"{stage.value} trouble"}, stage in (Stage.DEPLOY, Stage.BOOT)

    assert lab.skipped(record) == lab.skipped(later) == skipped
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


def test_a_night_skips_revisions_that_fail_all_its_scenarios(lab: Lab) -> None:
    record = lab.add_job(night())
    lab.failure(record, "r1", Stage.BENCH, scenario=PF)
    assert lab.skipped(record) == {}

    lab.failure(record, "r1", Stage.BENCH, scenario=FORWARDING)
    assert lab.skipped(record) == {"r1": "bench trouble"}


@pytest.mark.both_databases
def test_temporary_failures_skip_after_three_trials_for_one_job(lab: Lab) -> None:
    record, other = lab.add_job(bisection()), lab.add_job(bisection())
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
