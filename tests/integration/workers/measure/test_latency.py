"""Round-trip time, cycles per packet and equilibrium throughput in the simulated lab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab, samples

from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.transport.errors import LabFault

RTT = "inet4-latency~rtt.us.lower"
LEAST = "inet4-latency~minimum.us.lower"
CYCLES = "inet4-cycles~cycles.cycles-per-packet.lower"


@pytest.fixture
def clean(c2558: RunningLab) -> Iterator[RunningLab]:
    """The lab; asserts that no program of a scenario runs after the test."""
    yield c2558
    for machine in ("c2558-dut", "c2558-gen"):
        programs = c2558.ssh(machine, "ps -ax -o pid= -o ppid= -o pcpu= -o comm=")
        assert not re.search("pkt-gen|pmcstat", programs)
    c2558.ssh("c2558-dut", "head -c 1 /var/run/netbisect.cycles", status=1)


def test_round_trip_time(clean: RunningLab, tmp_path: Path) -> None:
    found = clean.measure(tmp_path, load_scenario("inet4-latency"))
    assert list(found) == [RTT, LEAST]
    assert all(sample.valid for sample in found.values()), found
    assert 0 < found[LEAST].pps < found[RTT].pps


def test_cycles_follow_from_the_forwarding_rate(clean: RunningLab, tmp_path: Path) -> None:
    found = clean.measure(tmp_path, load_scenario("inet4-cycles"))
    full = clean.measure(tmp_path, load_scenario("inet4-forwarding"))["inet4-forwarding"]
    assert list(found) == [CYCLES, "inet4-cycles"]
    assert all(sample.valid for sample in found.values()), found
    assert found[CYCLES].pps == pytest.approx(4 * 2.4e9 / full.pps, rel=0.05)


@pytest.mark.long
def test_a_slower_kernel_has_longer_round_trips_and_more_cycles(clean: RunningLab) -> None:
    place = clean.place_of("culprit")
    scenarios = ("inet4-latency", "inet4-cycles")
    found = [samples(clean.trial(number, scenarios)[1]) for number in (place - 1, place)]
    assert all(sample.valid for side in found for sample in side), found
    before, after = ({sample.scenario: sample.pps for sample in side} for side in found)
    assert after[RTT] > 1.1 * before[RTT]
    assert after[LEAST] > 1.1 * before[LEAST]
    assert after[CYCLES] > 1.1 * before[CYCLES]


@pytest.mark.long
def test_missing_reply_is_reported_in_one_sentence(clean: RunningLab, tmp_path: Path) -> None:
    """The receiver does not answer, or the generator sends to another MAC address."""
    scenario = load_scenario("inet4-latency")
    script = scenario.measure.run.replace('"$ingress_mac"', "00:00:00:00:00:01")
    elsewhere = replace(scenario, measure=replace(scenario.measure, run=script))
    message = "measure on the generator failed: no answer came back: expected routes and static ARP"
    for other in (replace(scenario, prepare=()), elsewhere):
        for sample in clean.measure(tmp_path, other).values():
            assert not sample.valid
            (problem,) = sample.problems
            assert problem.startswith(message)


def test_cycles_that_cannot_be_counted_are_reported(clean: RunningLab, tmp_path: Path) -> None:
    """The processor lacks counters, or pmcstat ends early."""
    scenario = load_scenario("inet4-cycles")
    other = replace(scenario, values={"events": "ls_not_halted_cyc"})
    message = "prepare on the dut failed: hwpmc counts none of the events ls_not_halted"
    with pytest.raises(LabFault, match=message):
        clean.measure(tmp_path, other)
    (prepare,) = scenario.prepare
    short = replace(prepare, run=prepare.run.replace("$((seconds + 300))", "5"))
    sample = clean.measure(tmp_path, replace(scenario, prepare=(short,)))[CYCLES]
    assert sample.problems == ("measure on the dut failed: pmcstat ended before the packets",)


@pytest.mark.parametrize(("kind", "least"), [("equilibrium", 0.95), ("no-drop", 0.9)])
def test_rate_with_little_loss_is_near_the_forwarding_rate(
    clean: RunningLab, tmp_path: Path, kind: str, least: float
) -> None:
    name = f"inet4-{kind}"
    metric = f"{name}~{kind}.packets-per-s"
    found = clean.measure(tmp_path, load_scenario(name))
    assert list(found) == [metric, name]
    assert all(sample.valid for sample in found.values()), found
    forwarded = found[name].pps
    assert least * forwarded < found[metric].pps < 1.02 * forwarded
    assert len(list(tmp_path.glob(f"{name}.at-*.sender"))) == 8
