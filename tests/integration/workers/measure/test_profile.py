"""Profiles of kernels in the simulated lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from netbisect.bisect.model import profile_stacks, serialization
from netbisect.bisect.model.entities import Boot, Fact, Profile
from netbisect.workers.measure import profile
from netbisect.workers.measure.profile import NoProfileError, ProfileOrder, choose
from netbisect.workers.transport.ssh import Machine

RATE = 500_000.0
SCENARIO = "inet4-forwarding"
FOLDED, META = f"profile-{SCENARIO}.folded", f"profile-{SCENARIO}.json"

Take = Callable[..., tuple[Profile | None, list[Fact]]]


@pytest.fixture
def take(c2558: Any, tmp_path: Path) -> Take:
    """Takes a profile of the kernel at this position; its files are in `tmp_path`."""

    def order(number: int, **more: Any) -> tuple[Profile | None, list[Fact]]:
        kernel, archive = c2558.kernel(number)
        facts: list[Fact] = []
        more = {"testbed": c2558.lab.testbed("c2558"), "pps": RATE, **more}
        scenario = c2558.scenario(more.pop("scenario", SCENARIO))
        work = ProfileOrder(
            kernel=kernel, archive=archive, scenario=scenario, logs=tmp_path, **more
        )
        c2558.messages.clear()
        return work.run(c2558.connections, facts.append, c2558.messages.append), facts

    return order


def test_the_difference_shows_the_functions_that_became_slower(
    c2558: Any, take: Take, tmp_path: Path
) -> None:
    """The culprit adds 286 ns per packet in two functions."""
    culprit = c2558.place_of("culprit")
    found = []
    for number in (culprit - 1, culprit):
        profile, facts = take(number)
        assert not profile.problem
        assert [type(fact) for fact in facts] == [Boot]
        assert profile.revision == c2558.tree.revisions[number]
        assert (profile.event, profile.pps) == ("cpu_clk_unhalted.thread", RATE)
        assert profile.lost == 0
        assert serialization.loads_as((tmp_path / META).read_text(), Profile) == profile
        found.append(profile_stacks.parse((tmp_path / FOLDED).read_text()))
        assert profile_stacks.total(found[-1]) == profile.samples > 10_000
    first, second, *_, last = profile_stacks.share_shifts(*found)

    assert {first.function, second.function} == {"igb_isc_rxd_pkt_get", "igb_isc_txd_encap"}
    assert last.function in {"igb_rxeof", "igb_mq_start_locked"}
    grown = sum(
        one.change for one in profile_stacks.share_shifts(*found) if one.function.startswith("igb_")
    )
    assert grown == pytest.approx(640 / 1182 - 354 / 896, abs=0.02)
    assert c2558.ssh("c2558-dut", "ls /var/tmp") == ""


def test_unknown_load_follows_from_an_earlier_run(take: Take) -> None:
    """That run is not stored as a sample. Each event of a clock is a sample."""
    profile, facts = take(0, pps=0.0, rate_percent=50.0, event="CLOCK.HARD")

    assert not profile.problem
    assert profile.samples > 10_000
    assert 300_000 < profile.pps < 700_000
    assert [type(fact) for fact in facts] == [Boot]
    profile, facts = take(0, scenario="tcp-loopback")
    assert profile.problem.startswith("tcp-loopback has no [traffic]")
    assert facts == []  # no boot


@pytest.mark.long
def test_a_problem_is_reported_instead_of_a_profile(c2558: Any, take: Take, tmp_path: Path) -> None:
    """Rejected firewall rules are the kernel's fault: there is no retry."""
    testbed = c2558.lab.testbed("c2558")
    testbed = replace(testbed, dut=replace(testbed.dut, pmc_event="no.such.event"))
    rules = c2558.scenario("inet4-pf-stateful")
    c2558.scenarios["strange"] = replace(rules, name="strange", rules=("nonsense",))
    for more, problem in (
        ({"pps": 1_480_000.0}, "not below saturation"),
        ({"pps": 100.0, "seconds": 0.5}, "are too few"),
        ({"testbed": testbed}, 'specification "no.such.event": Invalid argument'),
        ({"scenario": "strange"}, "syntax error"),
    ):
        (tmp_path / FOLDED).write_text("a;b 1\n")
        profile, _ = take(0, **more)
        assert problem in profile.problem
        if "scenario" not in more:
            stored = serialization.loads_as((tmp_path / META).read_text(), Profile)
            assert stored.problem == profile.problem
            assert not (tmp_path / FOLDED).exists()
    del c2558.scenarios["strange"]


def test_the_event_is_one_of_the_processor() -> None:
    """Unhalted cycles are preferred, and the clock is the last choice."""
    virtual = "hwpmc: SOFT/16/64/0x67<INT,USR,SYS,REA,WRI> TSC/1/64/0x20<REA>"
    for listed, log, event in (
        ("SOFT\n\tCLOCK.HARD\nIAP\n\tCPU_CLK_UNHALTED.THREAD\n", "", "CPU_CLK_UNHALTED.THREAD"),
        ("SOFT\n\tCLOCK.HARD\n\tCLOCK.STAT\n", "", "CLOCK.HARD"),
        ("K8\n\tls_not_halted_cyc\n\tcpu_cycles\n", "", "ls_not_halted_cyc"),
        ("\tINST_RETIRED.ANY\n", "", "INST_RETIRED.ANY"),
        ("\tINST_RETIRED.ANY\n", f"{virtual} IAP/4/48/0x3ff<INT>\n", "INST_RETIRED.ANY"),
        ("\tINST_RETIRED.ANY\n", f"{virtual}\n", "CLOCK.HARD"),
    ):
        machine = SimpleNamespace(ask=lambda *_, log=log: [log])
        assert choose(listed, profile._counters(cast("Machine", machine))) == event
    with pytest.raises(NoProfileError, match="pmc_event"):
        choose("SOFT\n\tPAGE_FAULT.ALL\n")
