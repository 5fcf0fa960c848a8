"""Profiles of kernels in the simulated lab: stacks at a load that the router can bear."""

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
from netbisect.workers.transport.ssh import Connections, Machine

RATE = 500_000.0
SCENARIO = "inet4-forwarding"
FOLDED, META = f"profile-{SCENARIO}.folded", f"profile-{SCENARIO}.json"

Take = Callable[..., tuple[Profile | None, list[Fact]]]


@pytest.fixture
def take(c2558: Any, tmp_path: Path) -> Take:
    """Takes a profile of the kernel at that place of the line; its files are in `tmp_path`."""

    def order(number: int, **more: Any) -> tuple[Profile | None, list[Fact]]:
        kernel, archive = c2558.kernel(number)
        facts: list[Fact] = []
        more = {"testbed": c2558.lab.testbed("c2558"), "pps": RATE, **more}
        scenario = c2558.scenario(more.pop("scenario", SCENARIO))
        work = ProfileOrder(
            kernel=kernel, archive=archive, scenario=scenario, logs=tmp_path, **more
        )
        c2558.messages.clear()
        with Connections(c2558.lab.ssh) as connections:
            return work.run(connections, facts.append, c2558.messages.append), facts

    return order


def test_the_difference_shows_the_functions_that_became_slower(
    c2558: Any, take: Take, tmp_path: Path
) -> None:
    """The conversion of the driver costs 286 ns a packet in two functions."""
    culprit = c2558.place_of("culprit")
    found = []
    for number in (culprit - 1, culprit):
        profile, facts = take(number)
        assert profile is not None
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


def test_an_unknown_load_follows_from_a_run_before(take: Take, tmp_path: Path) -> None:
    """A run by hand gives the rate and is not stored as a sample."""
    profile, facts = take(0, pps=0.0, rate_percent=50.0)

    assert profile is not None
    assert not profile.problem
    assert 300_000 < profile.pps < 700_000
    assert [type(fact) for fact in facts] == [Boot]


def test_at_a_load_beyond_saturation_nothing_is_kept(take: Take, tmp_path: Path) -> None:
    """Packet loss is reported; a profile of an earlier trial does not stay for it."""
    (tmp_path / FOLDED).write_text("a;b 1\n")
    profile, _ = take(0, pps=1_480_000.0)

    assert profile is not None
    assert "not below saturation" in profile.problem
    assert not (tmp_path / FOLDED).exists()
    assert serialization.loads_as((tmp_path / META).read_text(), Profile).problem == profile.problem


def test_too_few_samples_make_no_profile(take: Take, tmp_path: Path) -> None:
    profile, _ = take(0, pps=100.0, seconds=0.5)

    assert profile is not None
    assert "are too few" in profile.problem
    assert not (tmp_path / FOLDED).exists()


def test_an_event_that_cannot_be_counted_is_reported(c2558: Any, take: Take) -> None:
    """Here of the lab file; cli/test_main.py has one of the command line."""
    testbed = c2558.lab.testbed("c2558")
    dut = replace(testbed.dut, pmc_event="no.such.event")
    profile, _ = take(0, testbed=replace(testbed, dut=dut))

    assert profile is not None
    assert 'specification "no.such.event": Invalid argument' in profile.problem


def test_rules_that_the_kernel_refuses_are_a_reason(c2558: Any, take: Take) -> None:
    """It is the kernel's own trouble: trying again would not help."""
    scenario = c2558.scenario("inet4-pf-stateful")
    c2558.scenarios["strange"] = replace(scenario, name="strange", rules=("nonsense",))
    profile, _ = take(0, scenario="strange")

    assert profile is not None
    assert "syntax error" in profile.problem


@pytest.mark.parametrize(
    ("listed", "event"),
    [
        ("SOFT\n\tCLOCK.HARD\nIAP\n\tCPU_CLK_UNHALTED.THREAD_P\n", "CPU_CLK_UNHALTED.THREAD_P"),
        ("SOFT\n\tCLOCK.HARD\n\tCLOCK.STAT\n", "CLOCK.HARD"),
        ("K8\n\tls_not_halted_cyc\n\tcpu_cycles\n", "ls_not_halted_cyc"),
    ],
)
def test_the_event_is_one_of_the_processor(listed: str, event: str) -> None:
    """Cycles of work before all, the clock of a virtual machine at last."""
    assert choose(listed) == event


@pytest.mark.parametrize(
    ("log", "event"),
    [
        ("hwpmc: SOFT/16/64/0x67<INT,USR,SYS,REA,WRI> TSC/1/64/0x20<REA>\n", "CLOCK.HARD"),
        (
            "hwpmc: SOFT/16/64/0x67<INT> TSC/1/64/0x20<REA> IAP/4/48/0x3ff<INT>\n",
            "INST_RETIRED.ANY",
        ),
        ("", "INST_RETIRED.ANY"),
    ],
    ids=["virtual", "real", "old"],
)
def test_the_clock_is_the_event_without_counters(log: str, event: str) -> None:
    """Where libpmc knows the processor, pmccontrol lists no soft event: the log has to tell."""
    machine = cast("Machine", SimpleNamespace(ask=lambda *_: [log]))
    assert choose("\tINST_RETIRED.ANY\n", profile._counters(machine)) == event


def test_without_any_known_event_the_key_is_named() -> None:
    with pytest.raises(NoProfileError, match="pmc_event"):
        choose("SOFT\n\tPAGE_FAULT.ALL\n")
