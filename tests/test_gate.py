"""The gate over real SSH: what goes wrong around a run is seen, said, and no sample comes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect import validity
from netbisect.bisect.model import Boot, Conditions, Dud, Fact, Reaction, Sample
from netbisect.demo.lab.faults import Fault
from netbisect.workers import freebsd, observe, ports
from netbisect.workers.lab import Scenario, load_scenario
from netbisect.workers.observe import Seen, Watch
from netbisect.workers.ssh import Connections
from netbisect.workers.trial import Trial

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

FORWARDING = ("inet4-forwarding",)
DUT, GENERATOR = "c2558-dut", "c2558-gen"


def samples(facts: list[Fact]) -> list[Sample]:
    return [fact for fact in facts if isinstance(fact, Sample)]


@pytest.mark.parametrize(
    ("machine", "fault", "said"),
    [
        (GENERATOR, Fault.SLOW_SENDER, "less than 99 % of 1,488,095"),
        (GENERATOR, Fault.FADING_SENDER, "the rate of the generator drifted by -"),
        (
            DUT,
            Fault.LINK_FLAPS,
            " seconds, and links went down: c2558-dut igb2 3x, c2558-dut igb3 2x",
        ),
        (DUT, Fault.BAD_CABLE, "the router's ingress (igb2) counted "),
        (GENERATOR, Fault.BAD_CABLE, "the receiver (igb3) counted "),
        (DUT, Fault.THROTTLES, "the router ran at 1440 MHz of 2401 after the run"),
        (DUT, Fault.THROTTLES, "the router was throttled for its heat during the run: dev.cpu.0"),
        (DUT, Fault.THROTTLES, "dev.cpu.3 101 of 100 C"),
        (
            DUT,
            Fault.BUSY,
            "other programs took 93 % of a processor of the router before the run, cc most of it",
        ),
        (
            DUT,
            Fault.MEDDLER,
            "net.inet.ip.redirect changed during the run, from '0' to '1'",
        ),
        (DUT, Fault.CABLE_OUT, "the router's egress (igb3) has no link before the run: no carrier"),
    ],
)
def test_a_fault_around_a_run_gives_no_sample(
    c2558: RunningLab, machine: str, fault: Fault, said: str
) -> None:
    """What was measured is kept with the reason, and the run is made once more."""
    c2558.control("break", machine, fault)
    # A receiver waits for a first packet until its time is over.
    patience = 60.0 if fault is Fault.CABLE_OUT else None
    sound, facts = c2558.trial(10, FORWARDING, c2558.testbed("c2558", run_timeout=patience))
    assert sound
    assert [type(fact) for fact in facts] == [Boot, *2 * [Conditions, Sample], Dud]
    first, second = samples(facts)
    assert not first.valid
    assert not second.valid
    dud = facts[-1]
    assert isinstance(dud, Dud)
    assert dud.reaction is not Reaction.SKIP, "that says nothing of the revision"
    assert any(said in problem for problem in first.problems), first.problems
    assert any(said in line for line in c2558.said)
    assert first.received, "it is kept whole"


def test_after_the_fault_the_second_run_is_a_sample(c2558: RunningLab) -> None:
    """One visit, one boot: the first run is invalid, the second stands."""
    c2558.trial(10, ())
    c2558.control("break", GENERATOR, Fault.SLOW_SENDER)
    mended = []

    def say(text: str) -> None:
        if "no sample" in text and not mended:
            mended.append(c2558.control("mend", GENERATOR))

    c2558.said.clear()
    kernel, archive = c2558.kernel(10)
    facts: list[Fact] = []
    trial = Trial(
        c2558.lab.testbed("c2558"), kernel, archive, [load_scenario(*FORWARDING)], c2558.logs
    )
    with Connections(c2558.lab.ssh) as connections:
        assert trial.run(connections, facts.append, say)
    assert [sample.valid for sample in samples(facts)] == [False, True]


def test_ports_that_are_opened_and_closed_bounce_and_the_run_is_a_sample(
    c2558: RunningLab,
) -> None:
    """So does the link at the router, and the router's log says so."""
    _, facts = c2558.trial(10, FORWARDING)
    after = c2558.ssh(DUT, "dmesg").count("igb2: link state changed to DOWN")
    assert after >= 2
    assert [sample.problems for sample in samples(facts)] == [()]


def test_overload_of_the_router_is_no_error(c2558: RunningLab) -> None:
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


def watch(lab: RunningLab, connections: Connections) -> Watch:
    return Watch(
        lab.lab.testbed("c2558"),
        connections.machine(DUT),
        connections.machine(GENERATOR),
        connections.machine(GENERATOR),
        ports.Finder(),
    )


def test_a_look_sees_ports_clocks_settings_and_programs(running_lab: RunningLab) -> None:
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


def test_a_machine_that_does_not_answer_is_unknown(c2558: RunningLab) -> None:
    """Whether it went down is for the visit to find out."""
    c2558.control("break", DUT, Fault.OFF)
    with Connections(c2558.lab.ssh) as connections:
        look = watch(c2558, connections).look(forwarding()).look
    assert set(look.ports) == {"the generator", "the receiver"}
    assert look.clock is None
    c2558.control("cycle", DUT)


@pytest.mark.parametrize("said", ["", "{}", "[]", '{"statistics": {"interface": [{}]}}', "garbage"])
def test_counters_in_another_form_are_unknown(said: str) -> None:
    assert freebsd.counters_in(said) == {}


def test_a_processor_that_chooses_its_own_clock_is_not_called_throttled() -> None:
    """Idle between two runs it is slow, as it should be."""
    values = {"dev.cpu.0.freq": "800", "dev.cpu.0.freq_levels": "3500/-1 800/-1"}
    assert freebsd.sensors(values).top_clock == 3500
    assert freebsd.sensors({**values, "dev.hwpstate_intel.0.%driver": "x"}).top_clock is None


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


def test_what_asks_for_other_work_is_none() -> None:
    """An exchange of keys is a third of a slow processor's minute; it is over before the run."""
    assert freebsd.programs(PROCESSES) == {"sshd": 4.0, "cc": 30.7}
    without = PROCESSES.replace(" 38  1.0 ps", " 38  1.0 pf")
    assert freebsd.programs(without)["sshd"] == 35.5
    assert freebsd.programs("garbage\n1 2 x y\n") == {}


def test_a_loop_of_parents_ends() -> None:
    assert freebsd.programs("8 9 1.0 sh\n9 8 1.0 ps\n") == {}


def test_new_lines_of_a_log_are_those_after_the_old_ones() -> None:
    """Also where it has forgotten its oldest lines, and has cut the first one that is left."""
    assert freebsd.new_lines(["a", "b"], ["a", "b", "c"]) == ["c"]
    assert freebsd.new_lines(["a", "b"], ["a", "b"]) == []
    assert freebsd.new_lines(["aaa", "bbb", "ccc"], ["bb", "ccc", "ddd"]) == ["ddd"]
    assert freebsd.new_lines(["a"], ["x", "y"]) == ["x", "y"]
    assert freebsd.new_lines([], ["x"]) == ["x"]
    assert freebsd.new_lines(["a", "a", "a"], ["a", "a", "a", "a"]) == ["a"]
    assert freebsd.new_lines(["a"], []) == []


def test_only_data_ports_count() -> None:
    """The management network may bounce as it likes."""
    down = "em0: link state changed to DOWN"
    before = Seen(validity.Look(), {"dut": []}, {"dut": {"igb2"}})
    after = Seen(validity.Look(), {"dut": [down, "[123] igb2: link state changed to DOWN"]})
    after.names["dut"] = {"igb2"}
    assert observe.link_changes(before, after) == ("dut igb2 1x",)
