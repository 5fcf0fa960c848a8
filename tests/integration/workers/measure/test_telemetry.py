"""The gate over real SSH: what goes wrong around a run is seen, said, and no sample comes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.entities import Fact, Sample
from netbisect.demo.lab.faults import InjectedFault
from netbisect.workers.config.scenario import Scenario, load_scenario
from netbisect.workers.dut import freebsd_tools, ports
from netbisect.workers.measure import telemetry
from netbisect.workers.measure.telemetry import Snapshot, Telemetry
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.ssh import Connections

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

FORWARDING = ("inet4-forwarding",)
DUT, GENERATOR = "c2558-dut", "c2558-gen"


def samples(facts: list[Fact]) -> list[Sample]:
    return [fact for fact in facts if isinstance(fact, Sample)]


def test_second_run_is_valid_after_a_passing_fault(c2558: RunningLab) -> None:
    """One visit, one boot: the first run is invalid, the second stands."""
    c2558.trial(10, ())
    c2558.control("break", GENERATOR, InjectedFault.SLOW_SENDER)
    mended = []

    def say(text: str) -> None:
        if "no sample" in text and not mended:
            mended.append(c2558.control("mend", GENERATOR))

    c2558.said.clear()
    kernel, archive = c2558.kernel(10)
    facts: list[Fact] = []
    trial = TrialRunner(
        c2558.lab.testbed("c2558"), kernel, archive, [load_scenario(*FORWARDING)], c2558.logs
    )
    with Connections(c2558.lab.ssh) as connections:
        assert trial.run(connections, facts.append, say)
    assert [sample.valid for sample in samples(facts)] == [False, True]


def test_bouncing_links_of_netmap_are_valid(
    c2558: RunningLab,
) -> None:
    """So does the link at the router, and the router's log says so."""
    _, facts = c2558.trial(10, FORWARDING)
    after = c2558.ssh(DUT, "dmesg").count("igb2: link state changed to DOWN")
    assert after >= 2
    assert [sample.problems for sample in samples(facts)] == [()]


def test_router_overload_is_valid(c2558: RunningLab) -> None:
    """Its driver counts what it had no room for as errors; that is what is measured."""
    _, facts = c2558.trial(10, FORWARDING)
    said = c2558.ssh(DUT, "netstat -I igb2 -bn --libxo json")
    (row,) = json.loads(said)["statistics"]["interface"]
    assert row["received-errors"] > 1_000_000
    assert samples(facts)[0].valid


# ------------------------------------------------------------------------------ what is not known


def forwarding() -> Scenario:
    """With the names that the simulated c2558 has for its ports, as a bench has it."""
    return load_scenario(*FORWARDING).at({"ingress": "igb.2", "egress": "igb.3"})


def watch(lab: RunningLab, connections: Connections) -> Telemetry:
    return Telemetry(
        lab.lab.testbed("c2558"),
        connections.machine(DUT),
        connections.machine(GENERATOR),
        connections.machine(GENERATOR),
        ports.PortFinder(),
    )


def test_snapshot_contains_ports_clocks_settings_and_programs(running_lab: RunningLab) -> None:
    with Connections(running_lab.lab.ssh) as connections:
        look = watch(running_lab, connections).look(forwarding()).look
    assert {part: port.name for part, port in look.ports.items()} == {
        "the router's ingress": "igb2",
        "the router's egress": "igb3",
        "the generator": "igb2",
        "the receiver": "igb3",
    }
    assert {port.link for port in look.ports.values()} == {"active"}
    assert all(port.packets is not None for port in look.ports.values())
    assert look.ports["the router's ingress"].errors is None
    assert look.ports["the receiver"].errors is not None
    assert look.ports["the router's egress"].damaged == 0
    assert (look.clock, look.top_clock, look.tripped, look.hot) == (2400, 2401, (), ())
    assert look.settings["net.inet.ip.forwarding"] == "1"
    assert look.settings["the list of loaded modules"] == "kernel"
    assert "FreeBSD 14.2" in look.settings["the system of c2558-gen"]
    assert "idle" not in look.programs
    assert look.programs["devd"] == 0.0
    assert "sshd" not in look.programs  # it is there to ask


def test_snapshot_without_the_router(c2558: RunningLab) -> None:
    """Whether it went down is for the visit to find out."""
    c2558.control("break", DUT, InjectedFault.OFF)
    with Connections(c2558.lab.ssh) as connections:
        look = watch(c2558, connections).look(forwarding()).look
    assert set(look.ports) == {"the generator", "the receiver"}
    assert look.clock is None
    c2558.control("cycle", DUT)


@pytest.mark.parametrize("said", ["", "{}", "[]", '{"statistics": {"interface": [{}]}}', "garbage"])
def test_unknown_counter_formats_are_ignored(said: str) -> None:
    assert freebsd_tools.parse_netstat(said) == {}


def test_hwpstate_processor_is_not_throttled() -> None:
    """Idle between two runs it is slow, as it should be."""
    values = {"dev.cpu.0.freq": "800", "dev.cpu.0.freq_levels": "3500/-1 800/-1"}
    assert freebsd_tools.parse_sensors(values).top_clock == 3500
    assert (
        freebsd_tools.parse_sensors({**values, "dev.hwpstate_intel.0.%driver": "x"}).top_clock
        is None
    )


PROCESSES = """\
 0  0  0.0 kernel
 1  0  3.0 init
10  0 94.0 idle
36  1  0.5 sshd
37 36 31.0 sshd
38 37  2.0 sh
39 38  1.0 ps
52 36  4.0 sshd
53 52 30.5 cc
54  1  0.2 cc
"""


def test_ps_and_its_session_do_not_count_as_load() -> None:
    """An exchange of keys is a third of a slow processor's minute; it is over before the run."""
    assert freebsd_tools.parse_ps(PROCESSES) == {"sshd": 4.0, "cc": 30.7}
    without = PROCESSES.replace(" 38  1.0 ps", " 38  1.0 pf")
    assert freebsd_tools.parse_ps(without)["sshd"] == 35.5
    assert freebsd_tools.parse_ps("garbage\n1 2 x y\n") == {}


def test_loop_of_parent_processes_ends() -> None:
    assert freebsd_tools.parse_ps("8 9 1.0 sh\n9 8 1.0 ps\n") == {}


def test_new_lines_of_a_rotating_log() -> None:
    """Also where it has forgotten its oldest lines, and has cut the first one that is left."""
    assert freebsd_tools.new_lines(["a", "b"], ["a", "b", "c"]) == ["c"]
    assert freebsd_tools.new_lines(["a", "b"], ["a", "b"]) == []
    assert freebsd_tools.new_lines(["aaa", "bbb", "ccc"], ["bb", "ccc", "ddd"]) == ["ddd"]
    assert freebsd_tools.new_lines(["a"], ["x", "y"]) == ["x", "y"]
    assert freebsd_tools.new_lines([], ["x"]) == ["x"]
    assert freebsd_tools.new_lines(["a", "a", "a"], ["a", "a", "a", "a"]) == ["a"]
    assert freebsd_tools.new_lines(["a"], []) == []


def test_links_of_management_ports_are_ignored() -> None:
    """The management network may bounce as it likes."""
    down = "em0: link state changed to DOWN"
    before = Snapshot(sample_validity.MachineState(), {"dut": []}, {"dut": {"igb2"}})
    after = Snapshot(
        sample_validity.MachineState(), {"dut": [down, "[123] igb2: link state changed to DOWN"]}
    )
    after.names["dut"] = {"igb2"}
    assert telemetry.link_changes(before, after) == ("dut igb2 1x",)
