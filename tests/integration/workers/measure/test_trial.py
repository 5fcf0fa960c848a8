"""Trials over real SSH: facts, and detection of wrong kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from lab_fixtures import RunningLab, failures, only_failure, samples

from netbisect.bisect.model.entities import Boot, Conditions, Reaction, Sample, Stage
from netbisect.demo.lab.faults import InjectedFault
from netbisect.workers.dut import freebsd_tools

FORWARDING = ("inet4-forwarding",)
PATIENCE = 1.0
"""Boot timeout in seconds for expected hangs; a successful boot takes a quarter."""


def test_trial_boots_once_and_runs_every_scenario(running_lab: RunningLab) -> None:
    """The boot comes first, then conditions and samples; scenarios are interleaved."""
    running_lab.recover("c2558")
    before = running_lab.boots("c2558-dut")
    scenarios = running_lab.lab.testbed("c2558").scenarios
    sound, trial = running_lab.trial(10, scenarios, runs=2)
    assert sound
    assert running_lab.boots("c2558-dut") == before + 1
    assert [type(fact) for fact in trial] == [Boot, *8 * [Conditions, Sample]]
    boot = trial[0]
    assert isinstance(boot, Boot)
    kernel, _ = running_lab.kernel(10)
    assert (boot.kernel, boot.revision, boot.testbed) == (kernel.key, kernel.revision, "c2558")
    measured = samples(trial)
    assert [sample.scenario for sample in measured] == [*scenarios, *scenarios]
    assert len({sample.id for sample in measured}) == 8
    conditions = {fact.scenario: fact for fact in trial if isinstance(fact, Conditions)}
    assert len({fact.digest for fact in conditions.values()}) == 4
    for sample in measured:
        assert sample.valid
        assert sample.boot == boot.id
        assert sample.conditions == conditions[sample.scenario].digest
        assert len(sample.received) >= 30
        assert sample.pps < sample.offered_pps
    logs = {path.name for path in running_lab.logs.iterdir()}
    assert {"inet4-forwarding.receiver", "inet4-forwarding.2.receiver"} <= logs


def test_router_is_switched_on(c2558: RunningLab) -> None:
    """A deployed kernel is not sent again, so that a full disk does not matter."""
    c2558.trial(10, ())
    for fault in ("disk-full", "off"):
        c2558.control("break", "c2558-dut", fault)
    sound, facts = c2558.trial(10, (), c2558.testbed("c2558", boot_timeout=PATIENCE))
    assert sound
    assert failures(facts) == []
    silent, back = c2558.messages[1:3]
    assert silent.startswith("c2558: no answer for 1 s: c2558-dut: ssh: connect to host 127.0.0.1")
    assert (silent[-13:], back) == ("; power cycle", "c2558: back on kernel")


@pytest.mark.long
def test_stale_kernel_and_loader_fallback_are_detected(c2558: RunningLab) -> None:
    """Folder and boot number are right, and the kernel is not."""
    c2558.trial(40, ())
    kernel, _ = c2558.kernel(40)
    c2558.control("break", "c2558-dut", "stale-loader")
    sound, facts = c2558.trial(41, FORWARDING)
    failure = only_failure(facts)
    assert sound
    assert (failure.stage, failure.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert failure.why == (
        f"the running kernel says 'FreeBSD 15.0-CURRENT {kernel.version} GENERIC-NODEBUG', "
        f"which is not {c2558.kernel(41)[0].version}: a stale or foreign kernel"
    )
    c2558.mend()
    c2558.control("break", "c2558-dut", "falls-back")
    _, facts = c2558.trial(41, FORWARDING)
    folder = f"kernel.nb-{c2558.kernel(41)[0].key[:12]}"
    assert only_failure(facts).why == (
        f"the running kernel is /boot/kernel/kernel, expected /boot/{folder}/kernel"
    )


def test_failed_power_switch_quarantines_the_testbed(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "off")
    testbed = c2558.testbed("c2558", boot_timeout=0.2)
    cycle = (*testbed.power.cycle[:-1], "no-such-machine")
    testbed = replace(testbed, power=replace(testbed.power, cycle=cycle))
    _, facts = c2558.trial(10, FORWARDING, testbed)
    failure = only_failure(facts)
    assert failure.reaction is Reaction.QUARANTINE
    assert re.match(
        "the power switch of c2558 failed: exit status 1: no such machine: no-such-m", failure.why
    )


def test_second_run_is_valid_after_a_passing_fault(c2558: RunningLab) -> None:
    """A trial repeats an invalid run without another boot."""
    c2558.control("break", "c2558-gen", InjectedFault.SLOW_SENDER)
    sound, facts = c2558.trial(
        10, FORWARDING, then=lambda fact: isinstance(fact, Sample) and c2558.mend()
    )
    assert sound
    assert [type(fact) for fact in facts] == [Boot, *2 * [Conditions, Sample]]
    assert [sample.valid for sample in samples(facts)] == [False, True]


def test_unknown_counter_formats_are_ignored() -> None:
    for output in ("", "{}", "[]", '{"statistics": {"interface": [{}]}}', "garbage"):
        assert freebsd_tools.parse_netstat(output) == {}


def test_new_lines_of_a_rotating_log() -> None:
    """The log may have lost its oldest lines and the start of its first line."""
    assert freebsd_tools.new_lines(["a", "b"], ["a", "b", "c"]) == ["c"]
    assert freebsd_tools.new_lines(["a", "b"], ["a", "b"]) == []
    assert freebsd_tools.new_lines(["aaa", "bbb", "ccc"], ["bb", "ccc", "ddd"]) == ["ddd"]
    assert freebsd_tools.new_lines(["a"], ["x", "y"]) == ["x", "y"]
    assert freebsd_tools.new_lines([], ["x"]) == ["x"]
    assert freebsd_tools.new_lines(["a", "a", "a"], ["a", "a", "a", "a"]) == ["a"]
    assert freebsd_tools.new_lines(["a"], []) == []
