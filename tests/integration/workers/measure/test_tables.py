"""Scenarios with many rules, addresses, states and routes in the simulated lab."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lab_fixtures import BY_HAND, RunningLab, samples
from programs import captured

from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.faults import Fault
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.build.patches import PatchStore, read
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.dut import firewall
from netbisect.workers.measure.commands import ScenarioCommands
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.errors import LabFault

SCENARIOS = {
    "inet4-pf-rules": ("pf_rules", "pf has 0 of 1000 rules"),
    "inet4-pf-table": ("pf_table", "the table lacks its first or its last address"),
    "inet4-pf-states": ("pf_states", "pf has 0 states of 200000 flows; expected 400000"),
    "inet4-ipfw-rules": ("ipfw_rules", "ipfw has 0 of 1000 rules"),
    "inet4-ipfw-table": ("ipfw_table", "the table has 0 of 100000 addresses"),
    "inet4-ipfw-states": ("ipfw_states", "ipfw has 0 states of 200000 flows"),
    "inet4-ipf": ("ipf", r"ipfilter passed 0 of \d+ packets"),
    "inet4-many-routes": ("route_table", "the routing table has 0 of 30720 routes"),
    "inet4-full-table": ("full_table", r"the routing table has \d+ of 1002240 routes"),
}
"""Cost centre of each scenario, and the message without its preparation."""
LEFT = (
    "ipfw list; ipfw table netbisect info; sysctl net.inet.ip.fw; ipfstat -hi; netstat -rn; "
    "vmstat -z; echo"
)


def slower(lab: RunningLab, places: list[str]) -> tuple[Kernel, Path]:
    """The first kernel with additional costs at these places, and its archive."""
    lines = ["void", "tables(void)", "{", *(f"\tPATH_COST({one}, 900);" for one in places), "}"]
    diff = f"--- /dev/null\n+++ b/sys/net/tables.c\n@@ -0,0 +1,{len(lines)} @@\n"
    diff += "".join(f"+{line}\n" for line in lines)
    builder = lab.lab.builders[0]
    mark = PatchStore(builder.patches).put(read("D1", diff.encode()))
    config = f"{KERNEL_CONFIG}+{mark}"
    build = KernelBuild(builder, lab.lab.source, lab.tree.revisions[0], config, lambda _: None)
    kernel = build.run()
    assert isinstance(kernel, Kernel), kernel
    return kernel, build.kernels.archive(kernel.key)


def rates(lab: RunningLab, logs: Path, kernel: Kernel, archive: Path) -> dict[str, float]:
    """Rates of the scenarios in packets per second; asserts valid samples."""
    scenarios = [load_scenario(name) for name in ("inet4-forwarding", *SCENARIOS)]
    trial = TrialRunner(lab.lab.testbed("c2558"), kernel, archive, scenarios, logs)
    found = []
    assert trial.run(lab.connections, found.append, lambda _: None)
    bad = [(one.scenario, one.problems) for one in samples(found) if not one.valid]
    assert not bad
    return {one.scenario: one.pps for one in samples(found)}


@pytest.mark.long
def test_cost_of_a_path_slows_only_its_scenario(c2558: RunningLab, tmp_path: Path) -> None:
    """A scenario does not affect the next one."""
    before = rates(c2558, tmp_path, *c2558.kernel(0))
    assert list(before) == ["inet4-forwarding", *SCENARIOS]
    for slow in (list(SCENARIOS)[::2], list(SCENARIOS)[1::2]):
        after = rates(c2558, tmp_path, *slower(c2558, [SCENARIOS[name][0] for name in slow]))
        for name, rate in before.items():
            if name in slow:
                assert after[name] < 0.8 * rate, name
            else:
                assert after[name] == pytest.approx(rate, rel=0.1), name


@pytest.mark.long
def test_missing_preparation_is_reported_in_one_sentence(c2558: RunningLab, tmp_path: Path) -> None:
    stateless = {"pf": ("pass no state",), "ipfw": ("3000 allow ip from any to any",), "": ()}
    with c2558.bench(tmp_path) as bench:
        for name, (_, message) in SCENARIOS.items():
            scenario = load_scenario(name)
            inactive = replace(scenario, prepare=(), rules=stateless[scenario.firewall])
            found = {one.scenario: one for _, one in bench.measure(inactive, BY_HAND)}
            (problem,) = found[name].problems
            assert re.fullmatch(f"measure on the dut failed: {message}", problem)
            bench.clean_up()


@pytest.mark.long
def test_clean_up_removes_all_changes(c2558: RunningLab) -> None:
    state = partial(c2558.ssh, "c2558-dut", LEFT)
    router = c2558.connections.machine("c2558-dut")
    scenarios = [replace(load_scenario(name), sysctls={}, optional={}) for name in SCENARIOS]
    for scenario in [one for one in scenarios if one.clean_up]:
        firewall.set_up(router, scenario)
        before = state()
        values = {"egress": "igb3", **scenario.values}
        work = ScenarioCommands(scenario, {"dut": router}, values, 30)
        work.prepare()
        assert state() != before, scenario.name
        work.clean_up()
        assert state() == before, scenario.name
        firewall.switch_off(router)


def test_load_of_a_profile_is_prepared_and_cleaned_up(c2558: RunningLab, tmp_path: Path) -> None:
    scenario = load_scenario("inet4-ipfw-table")
    with c2558.bench(tmp_path) as bench:
        with bench.under_load(scenario, 100_000, 30):
            assert "items: 100000" in c2558.ssh("c2558-dut", "ipfw table netbisect info")
        assert "No such process" in c2558.ssh("c2558-dut", "ipfw table netbisect info", status=71)


def test_a_full_table_needs_bird(tmp_path: Path) -> None:
    """The preparation checks for bird first."""
    (command,) = load_scenario("inet4-full-table").prepare
    done = captured(["/bin/sh", "-c", command.run], env={"PATH": str(tmp_path)})
    assert done.returncode == 127
    assert done.stderr == "bird is not installed on the DUT; install net/bird2\n"


def test_a_full_table_leaves_another_bird_alone(c2558: RunningLab) -> None:
    """The other bird of the router has another socket."""
    scenario = load_scenario("inet4-full-table")
    router = c2558.connections.machine("c2558-dut")
    other, work = (
        ScenarioCommands(scenario, {"dut": router}, {"egress": "igb3", "socket": socket}, 30)
        for socket in ("/var/run/bird.ctl", scenario.values["socket"])
    )
    other.prepare()
    with pytest.raises(LabFault, match="another bird runs on the DUT") as caught:
        work.prepare()
    work.clean_up()
    assert caught.value.fault is Fault.SCENARIO
    assert "1002260" in c2558.ssh("c2558-dut", "vmstat -z")
    other.clean_up()
