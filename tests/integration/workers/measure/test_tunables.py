"""Loader tunables and sysctls over real SSH: effects, and conditions of the samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab_fixtures import RunningLab

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Fact,
    Failure,
    Reaction,
    Sample,
)
from netbisect.steps.queries.health import new_epochs
from netbisect.store.ledger import Ledger
from netbisect.workers.transport.ssh import Connections

QUEUES = "dev.igb.2.iflib.override_nrxqs"
FORWARDING = "inet4-forwarding"
NARROW = f"{FORWARDING}@{QUEUES}=1"
REDIRECT = "net.inet6.ip6.redirect"
SLOW = f"inet6-forwarding@sysctl:{REDIRECT}=1"


def samples(facts: list[Fact]) -> dict[str, Sample]:
    return {fact.scenario: fact for fact in facts if isinstance(fact, Sample)}


def test_tunable_of_the_testbed_begins_an_epoch(c2558: RunningLab, ledger: Ledger) -> None:
    """The tunable reduces the queues of the port from four to one."""
    testbed = c2558.lab.testbed("c2558")
    first, second = (c2558.tree.revisions[number] for number in (10, 11))
    ledger.commits.learn(
        [Commit(first, 1, "", "", "", "", 0.0), Commit(second, 2, "", "", "", "", 0.0)], "main"
    )
    rates = []
    for number, night in ((10, testbed), (11, replace(testbed, tunables={QUEUES: 1}))):
        sound, facts = c2558.trial(number, (FORWARDING,), night)
        assert sound
        rates.append(samples(facts)[FORWARDING].pps)
        kernel, _ = c2558.kernel(number)
        ledger.facts.record_all([kernel, *facts], "test")

    assert rates[1] == pytest.approx(rates[0] / 4, rel=0.1)
    assert [level.revision for level in ledger.series.levels("c2558", FORWARDING, "main")] == [
        second
    ]
    (change,) = new_epochs(ledger)
    assert change.endswith(f"{QUEUES}: not recorded → 1")


def test_scenarios_with_equal_tunables_share_a_boot(c2558: RunningLab) -> None:
    """Two boots for three scenarios, which count as one observation."""
    before = c2558.boots("c2558-dut")
    names = (NARROW, FORWARDING, "inet6-forwarding")
    sound, facts = c2558.trial(10, names)
    measured = samples(facts)

    assert sound
    assert c2558.boots("c2558-dut") == before + 2
    (boot,) = (fact for fact in facts if isinstance(fact, Boot))
    assert {sample.boot for sample in measured.values()} == {boot.id}
    assert all(sample.valid for sample in measured.values())
    assert measured[NARROW].pps == pytest.approx(measured[FORWARDING].pps / 4, rel=0.1)
    conditions = {one.scenario: one.values for one in facts if isinstance(one, Conditions)}
    assert conditions[NARROW][QUEUES] == "1"
    assert QUEUES not in conditions[FORWARDING]


def test_tunable_that_the_loader_ignores_quarantines_the_testbed(c2558: RunningLab) -> None:
    """The simulated loader ignores names with a hyphen."""
    sound, facts = c2558.trial(10, (f"{FORWARDING}@net.odd-name=1",))
    (failure,) = facts
    assert not sound
    assert isinstance(failure, Failure)
    assert failure.reaction is Reaction.QUARANTINE
    assert "net.odd-name, ordered as '1', is missing" in failure.why


def test_sysctls_are_set_for_their_scenario_alone(c2558: RunningLab) -> None:
    """All scenarios share a boot; redirects disable the fast path of IPv6 for one of them."""
    before = c2558.boots("c2558-dut")
    isr = f"{FORWARDING}@sysctl:net.inet.ip.redirect=1"
    sound, facts = c2558.trial(
        10, ("inet6-forwarding", SLOW, isr, "inet6-pf-stateless", FORWARDING)
    )
    measured = samples(facts)

    assert sound
    assert c2558.boots("c2558-dut") == before + 1
    assert all(sample.valid for sample in measured.values())
    assert len({sample.boot for sample in measured.values()}) == 1
    assert measured[SLOW].pps < 0.9 * measured["inet6-forwarding"].pps
    assert measured[isr].pps == pytest.approx(measured[FORWARDING].pps, rel=0.05)
    conditions = {one.scenario: one.values for one in facts if isinstance(one, Conditions)}
    assert conditions[SLOW][f"{REDIRECT} (sysctl)"] == "1"
    assert f"{REDIRECT} (sysctl)" not in conditions["inet6-forwarding"]
    with Connections(c2558.lab.ssh) as connections:
        dut = connections.machine(c2558.lab.testbed("c2558").dut.address)
        assert dut.run(["sysctl", "-n", REDIRECT, "net.inet.ip.redirect"]) == "1\n1\n"


def test_read_only_sysctl_skips_its_scenario(c2558: RunningLab) -> None:
    name = f"{FORWARDING}@sysctl:hw.ncpu=2"
    sound, facts = c2558.trial(10, (name, FORWARDING))
    [failure] = [fact for fact in facts if isinstance(fact, Failure)]
    assert sound
    assert failure.scenario == name
    assert "oid 'hw.ncpu' is read only" in failure.why
    assert samples(facts)[FORWARDING].valid
