"""Invalid runs over real SSH, and parsers of counters and logs."""

from __future__ import annotations

import pytest
from lab_fixtures import RunningLab, samples

from netbisect.bisect.model.entities import Fact
from netbisect.demo.lab.faults import InjectedFault
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.dut import freebsd_tools
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.ssh import Connections

FORWARDING = ("inet4-forwarding",)
DUT, GENERATOR = "c2558-dut", "c2558-gen"


def test_second_run_is_valid_after_a_passing_fault(c2558: RunningLab) -> None:
    """A trial repeats an invalid run without another boot."""
    c2558.trial(10, ())
    c2558.control("break", GENERATOR, InjectedFault.SLOW_SENDER)
    repaired = []

    def say(text: str) -> None:
        if "no sample" in text and not repaired:
            repaired.append(c2558.control("mend", GENERATOR))

    c2558.messages.clear()
    kernel, archive = c2558.kernel(10)
    facts: list[Fact] = []
    trial = TrialRunner(
        c2558.lab.testbed("c2558"), kernel, archive, [load_scenario(*FORWARDING)], c2558.logs
    )
    with Connections(c2558.lab.ssh) as connections:
        assert trial.run(connections, facts.append, say)
    assert [sample.valid for sample in samples(facts)] == [False, True]


@pytest.mark.parametrize(
    "output", ["", "{}", "[]", '{"statistics": {"interface": [{}]}}', "garbage"]
)
def test_unknown_counter_formats_are_ignored(output: str) -> None:
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
