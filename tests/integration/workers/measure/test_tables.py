"""Scenarios with many rules, addresses, states and routes, on the simulated lab."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lab_fixtures import RunningLab, samples

from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.dut import firewall
from netbisect.workers.measure.bench import Bench
from netbisect.workers.measure.commands import ScenarioCommands
from netbisect.workers.transport.ssh import Connections

INACTIVE = {
    "inet4-pf-rules": "pf has 0 of 1000 rules",
    "inet4-pf-table": "the table has 0 of 100000 addresses",
    "inet4-pf-states": "pf has 0 states of 200000 flows; expected 400000",
    "inet4-ipfw-rules": "ipfw has 0 of 1000 rules",
    "inet4-ipfw-table": "the table has 0 of 100000 addresses",
    "inet4-ipfw-states": "ipfw has 0 states of 200000 flows",
    "inet4-ipf": r"ipfilter passed 0 of \d+ packets",
    "inet4-many-routes": "the routing table has 0 of 30720 routes",
}
"""What the scenarios say without what they prepare."""
LEFT = "ipfw list; ipfw table netbisect info; sysctl net.inet.ip.fw; ipfstat -hi; netstat -rn; echo"


def test_each_is_valid_after_the_others(c2558: RunningLab) -> None:
    """Nothing of a scenario is left for the next one."""
    _, facts = c2558.trial(0, ("inet4-forwarding", *INACTIVE))
    assert [one.scenario for one in samples(facts)] == ["inet4-forwarding", *INACTIVE]
    assert all(one.valid for one in samples(facts)), facts


@pytest.mark.parametrize("name", INACTIVE)
def test_what_is_not_active_is_one_sentence(c2558: RunningLab, tmp_path: Path, name: str) -> None:
    scenario = load_scenario(name)
    stateless = {"pf": ("pass no state",), "ipfw": ("3000 allow ip from any to any",), "": ()}
    inactive = replace(scenario, prepare=(), rules=stateless[scenario.firewall])
    (problem,) = c2558.measure(tmp_path, inactive)[name].problems
    assert re.fullmatch(f"measure on the dut failed: {INACTIVE[name]}", problem)


@pytest.mark.parametrize("name", [name for name in INACTIVE if load_scenario(name).clean_up])
def test_nothing_is_left_that_the_firewall_does_not_take_along(
    c2558: RunningLab, name: str
) -> None:
    scenario = replace(load_scenario(name), sysctls={}, optional={})
    look = partial(c2558.ssh, "c2558-dut", LEFT)
    with Connections(c2558.lab.ssh) as connections:
        router = connections.machine("c2558-dut")
        firewall.set_up(router, scenario)
        before = look()
        work = ScenarioCommands(scenario, {"dut": router}, {"egress": "igb3"}, 30)
        work.prepare()
        assert look() != before
        work.clean_up()
        assert look() == before
        firewall.switch_off(router)


def test_a_profile_is_taken_with_all_of_them(c2558: RunningLab, tmp_path: Path) -> None:
    """What is prepared for a run is prepared for a profile, and removed."""
    scenario = load_scenario("inet4-ipfw-table")
    with Connections(c2558.lab.ssh) as connections:
        bench = Bench(c2558.lab.testbed("c2558"), connections, lambda _: None, tmp_path)
        with bench.under_load(scenario, 100_000, 30):
            assert "items: 100000" in c2558.ssh("c2558-dut", "ipfw table netbisect info")
        assert "No such process" in c2558.ssh("c2558-dut", "ipfw table netbisect info", status=71)
        bench.clean_up()
