"""Loader tunables and sysctls over real SSH: effects, and conditions of the samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab_fixtures import RunningLab, samples

from netbisect.bisect.model.entities import Boot, Conditions, Failure, Reaction

QUEUES = "dev.igb.2.iflib.override_nrxqs"
FORWARDING = "inet4-forwarding"
WIDE = f"{FORWARDING}@{QUEUES}=4"
REDIRECT = "net.inet6.ip6.redirect"
SLOW = f"inet6-forwarding@sysctl:{REDIRECT}=1"


def test_scenarios_with_equal_tunables_share_a_boot(c2558: RunningLab) -> None:
    """Two boots for three scenarios; a tunable of the testbed applies to all."""
    before = c2558.boots("c2558-dut")
    names = (WIDE, FORWARDING, "inet6-forwarding")
    testbed = replace(c2558.lab.testbed("c2558"), tunables={QUEUES: 1})
    sound, facts = c2558.trial(10, names, testbed)
    measured = {one.scenario: one for one in samples(facts)}

    assert sound
    assert c2558.boots("c2558-dut") == before + 2
    (boot,) = (fact for fact in facts if isinstance(fact, Boot))
    assert {sample.boot for sample in measured.values()} == {boot.id}
    assert all(sample.valid for sample in measured.values())
    assert measured[FORWARDING].pps == pytest.approx(measured[WIDE].pps / 4, rel=0.1)
    conditions = {one.scenario: one.values for one in facts if isinstance(one, Conditions)}
    assert [conditions[name][QUEUES] for name in names] == ["4", "1", "1"]


def test_tunable_that_the_loader_ignores_quarantines_the_testbed(c2558: RunningLab) -> None:
    """The simulated loader ignores names with a hyphen."""
    sound, facts = c2558.trial(10, (f"{FORWARDING}@net.odd-name=1",))
    (failure,) = facts
    assert not sound
    assert isinstance(failure, Failure)
    assert failure.reaction is Reaction.QUARANTINE
    assert "net.odd-name, ordered as '1', is missing" in failure.why


def test_sysctls_are_set_for_their_scenario_alone(c2558: RunningLab) -> None:
    """All scenarios share a boot; a read-only sysctl skips its scenario."""
    before = c2558.boots("c2558-dut")
    isr = f"{FORWARDING}@sysctl:net.inet.ip.redirect=1"
    wrong = f"{FORWARDING}@sysctl:hw.ncpu=2"
    names = ("inet6-forwarding", SLOW, isr, wrong, "inet6-pf-stateless", FORWARDING)
    sound, facts = c2558.trial(10, names)
    measured = {one.scenario: one for one in samples(facts)}

    assert sound
    assert c2558.boots("c2558-dut") == before + 1
    assert all(sample.valid for sample in measured.values())
    assert len({sample.boot for sample in measured.values()}) == 1
    assert measured[SLOW].pps < 0.9 * measured["inet6-forwarding"].pps
    assert measured[isr].pps == pytest.approx(measured[FORWARDING].pps, rel=0.05)
    conditions = {one.scenario: one.values for one in facts if isinstance(one, Conditions)}
    assert conditions[SLOW][f"{REDIRECT} (sysctl)"] == "1"
    assert f"{REDIRECT} (sysctl)" not in conditions["inet6-forwarding"]
    dut = c2558.connections.machine(c2558.lab.testbed("c2558").dut.address)
    assert dut.run(["sysctl", "-n", REDIRECT, "net.inet.ip.redirect"]) == "1\n1\n"
    [failure] = [fact for fact in facts if isinstance(fact, Failure)]
    assert failure.scenario == wrong
    assert "oid 'hw.ncpu' is read only" in failure.why
