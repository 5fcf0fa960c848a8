"""Scenarios with commands in the simulated lab: shipped ones, and that of docs/scenarios.md."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from lab_fixtures import RunningLab, samples

from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.metric import scenario_of
from netbisect.workers.config.custom_measurement import HostCommand
from netbisect.workers.config.scenario import Scenario, load_scenario, load_scenario_folder
from netbisect.workers.dut.firewall import ChangedSysctls
from netbisect.workers.measure.commands import ScenarioCommands
from netbisect.workers.transport.errors import LabFault

EACH_CLONE = [
    *("lagg", "wireguard"),
    *(pytest.param(kind, marks=pytest.mark.long) for kind in ("vlan", "bridge", "gif", "gre")),
]
NO_ROUTE = re.compile(r"^route add.*?(?= \|\||$)", re.MULTILINE)
DOCS = Path(__file__).parents[4] / "docs" / "scenarios.md"
CPU = "inet4-cpu~cpu.percent.lower"
measure = RunningLab.measure


def test_cpu_use_at_a_fixed_rate(c2558: RunningLab) -> None:
    """A trial stores both metrics; the CPU use agrees with the maximum forwarding rate."""
    sound, facts = c2558.trial(10, ("inet4-cpu", "inet4-forwarding"))
    found = {sample.scenario: sample for sample in samples(facts)}
    full = found["inet4-forwarding"]

    assert sound
    assert list(found) == [CPU, "inet4-cpu", "inet4-forwarding"]
    assert all(sample.valid for sample in found.values()), found
    assert found["inet4-cpu"].pps == pytest.approx(100_000, rel=0.01)
    assert found[CPU].pps == pytest.approx(100 * 100_000 / full.pps, rel=0.05)


def test_ipsec_gateway(c2558: RunningLab, tmp_path: Path) -> None:
    """The policy is removed afterwards; a tunnel that does not come up is reported."""
    scenario = load_scenario("inet4-ipsec")
    found = measure(c2558, tmp_path, scenario)["inet4-ipsec"]
    assert found.valid, found.problems
    failing = replace(scenario, prepare=(*scenario.prepare, HostCommand("dut", "false")))
    with pytest.raises(LabFault, match="prepare on the dut failed: status 1"):
        measure(c2558, tmp_path, failing)
    before = c2558.ssh("c2558-dut", "netstat -s -p esp")
    after = measure(c2558, tmp_path, load_scenario("inet4-forwarding"))["inet4-forwarding"]
    assert after.valid, after.problems
    assert c2558.ssh("c2558-dut", "netstat -s -p esp") == before

    (prepare,) = scenario.prepare
    count_only = prepare.run.splitlines()[-1]
    down = replace(scenario, prepare=(replace(prepare, run=count_only),))
    (problem,) = measure(c2558, tmp_path, down)["inet4-ipsec"].problems
    assert re.fullmatch(
        r"measure on the dut failed: the tunnel did not come up: 0 of \d+ packets were encrypted",
        problem,
    )


def interfaces(lab: RunningLab) -> list[str]:
    """Route and interfaces of router and receiver, which a scenario changes."""
    route = lab.ssh("c2558-dut", "route -n get -inet 198.19.10.1")
    return [route, *(lab.ssh(host, "ifconfig -a") for host in ("c2558-dut", "c2558-gen"))]


@pytest.mark.parametrize("kind", EACH_CLONE)
def test_forwarding_through_a_cloned_interface(
    c2558: RunningLab, tmp_path: Path, kind: str
) -> None:
    """All is removed afterwards; packets outside of the interface are a problem."""
    before = interfaces(c2558)
    scenario = load_scenario(f"inet4-{kind}")
    (sample,) = measure(c2558, tmp_path, scenario).values()
    assert sample.valid, sample.problems
    assert interfaces(c2558) == before

    commands = [replace(one, run=NO_ROUTE.sub("true", one.run)) for one in scenario.prepare]
    assert tuple(commands) != scenario.prepare
    (sample,) = measure(c2558, tmp_path, replace(scenario, prepare=tuple(commands))).values()
    (problem,) = sample.problems
    assert re.fullmatch(
        r"measure on the dut failed: the tunnel did not come up: "
        rf"0 of \d+ packets left through {kind.replace('wireguard', 'wg')}2544",
        problem,
    )


def test_a_stopped_run_leaves_no_change(
    c2558: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> NoReturn:
        monkeypatch.undo()
        raise SystemExit(128 + signal.SIGTERM)

    sysctl = "c2558-dut", "sysctl net.inet.ip.redirect"
    before = interfaces(c2558), c2558.ssh(*sysctl)
    for place in (ScenarioCommands, "measure"), (ChangedSysctls, "restore"):
        monkeypatch.setattr(*place, stop)
        with pytest.raises(SystemExit):
            measure(c2558, tmp_path, load_scenario("inet4-lagg"))
        assert (interfaces(c2558), c2558.ssh(*sysctl)) == before


def test_egress_that_is_not_up_is_a_problem(c2558: RunningLab, tmp_path: Path) -> None:
    """Destroying a lagg leaves its port down."""
    scenario = load_scenario("inet4-lagg")
    (clean_up,) = scenario.clean_up
    careless = replace(clean_up, run=f"{clean_up.run.splitlines()[1]}\nexit")
    measure(c2558, tmp_path, replace(scenario, clean_up=(careless,)))
    after = measure(c2558, tmp_path, load_scenario("inet4-forwarding"))["inet4-forwarding"]
    assert "the router's egress (igb3) has no link before the run: is not up" in after.problems
    c2558.ssh("c2558-dut", "ifconfig igb3 up")


def test_failed_commands_are_reported_in_one_sentence(c2558: RunningLab, tmp_path: Path) -> None:
    for name, change, message in (
        ("inet4-wireguard", ("2544 pr", "2545 pr"), "not come up: no handshake with 198.19"),
        ("tcp-lro", ('" lro', '" up'), "does not switch LRO on"),
    ):
        scenario = load_scenario(name)
        first = replace(scenario.prepare[0], run=scenario.prepare[0].run.replace(*change))
        with pytest.raises(LabFault, match=f"prepare on the dut failed: .*{re.escape(message)}"):
            measure(c2558, tmp_path, replace(scenario, prepare=(first, *scenario.prepare[1:])))

    wireguard = load_scenario("inet4-wireguard")
    other = replace(wireguard, values=wireguard.values | {"end": "198.19.0.3"})
    with pytest.raises(LabFault, match=r"igb3 does not have the address 198\.19\.0\.3") as fault:
        measure(c2558, tmp_path, other)
    assert fault.value.fault is Fault.COMMAND
    flow = load_scenario("tcp-one-flow")
    missing = replace(flow, prepare=(replace(flow.prepare[0], on="receiver", run="wg0"),))
    with pytest.raises(LabFault, match=r"(?s)prepare on the receiver failed: .*wg0: not found"):
        measure(c2558, tmp_path, missing)
    script = flow.measure.run.replace("iperf3", "iperf9")
    absent = replace(flow, measure=replace(flow.measure, run=script))
    (sample,) = measure(c2558, tmp_path, absent).values()
    assert sample.problems == ("measure on the generator failed: iperf9 is not installed",)


def throughput(lab: RunningLab, logs: Path, name: str) -> float:
    """Bit/s of TCP over a link of 10 Gbit/s, which one flow does not saturate."""
    (sample,) = measure(lab, logs / name, load_scenario(name), "e5-2650").values()
    assert sample.valid, sample.problems
    return sample.pps


def test_offloads_are_switched_and_restored(c2558: RunningLab, tmp_path: Path) -> None:
    """The offload of segmentation is a setting of the scenario."""
    on = throughput(c2558, tmp_path, "tcp-send")
    off = throughput(c2558, tmp_path, "tcp-send@sysctl:net.inet.tcp.tso=0")
    assert off < 0.95 * on
    assert c2558.ssh("e5-2650-dut", "sysctl -n net.inet.tcp.tso") == "1\n"

    before = c2558.ssh("e5-2650-dut", "ifconfig -a")
    plain, off, on = (
        throughput(c2558, tmp_path, name) for name in ("tcp-one-flow", "tcp-no-lro", "tcp-lro")
    )
    assert off == pytest.approx(plain, rel=0.05)
    assert off < 0.95 * on
    assert c2558.ssh("e5-2650-dut", "ifconfig -a") == before


def test_loopback_does_not_depend_on_the_wire(c2558: RunningLab, tmp_path: Path) -> None:
    (sample,) = measure(c2558, tmp_path, load_scenario("tcp-loopback")).values()
    assert sample.valid, sample.problems
    assert sample.pps > 1e9


def example(folder: Path) -> Scenario:
    """The scenario folder of docs/scenarios.md."""
    text = DOCS.read_text().partition("## A scenario of your own")[2]
    toml, script = re.findall(r"```(?:toml|sh)\n(.*?)```", text, re.DOTALL)[:2]
    place = folder / "processes"
    place.mkdir()
    (place / "scenario.toml").write_text(toml)
    (place / "measure.sh").write_text(script)
    return load_scenario_folder(place)


def test_example_of_the_documentation_gives_valid_samples(
    c2558: RunningLab, tmp_path: Path
) -> None:
    scenario = example(tmp_path)
    found = measure(c2558, tmp_path, scenario)
    assert list(found) == list(scenario.series)
    assert all(sample.valid for sample in found.values()), found
    assert {scenario_of(series) for series in found} == {scenario.name}
