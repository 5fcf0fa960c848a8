"""A testbed with two generators and two receivers on four ports of the router."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab, module_lab
from waiting import wait_until

from netbisect.bisect.model.faults import Fault, fault_of_run
from netbisect.demo.lab.testbeds import TESTBEDS, LinkEnd
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.traffic import Flows
from netbisect.workers.transport.errors import LabFault

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pairs")]  # one process runs the lab

FORWARDING = load_scenario("inet4-forwarding")
LINE_RATE = 1_488_095
"""Line rate of one link."""
HOSTS = ("gen1", "gen2", "rcv1", "rcv2")
PAIRS = replace(
    TESTBEDS["c2558"],
    name="pairs",
    ports=tuple((f"igb{number}", f"00:08:a2:09:34:0{number}") for number in range(4)),
    generator=LinkEnd("gen1", "igb2", "00:1b:21:c4:96:01"),
    receiver=LinkEnd("rcv1", "igb2", "00:1b:21:c4:96:02"),
    more=(
        (
            LinkEnd("gen2", "igb2", "00:1b:21:c4:96:03"),
            LinkEnd("rcv2", "igb3", "00:1b:21:c4:96:04"),
        ),
    ),
    scenarios=("inet4-forwarding",),
)
# Generators must begin within a second of the lab, also on a busy host.
running = module_lab(PAIRS, compression=4)


def test_sample_is_the_sum_over_hosts(lab: RunningLab, tmp_path: Path) -> None:
    """The rate is the sum of the medians; conditions and counters include all hosts."""
    sample = lab.measure_valid(tmp_path, FORWARDING, "pairs")["inet4-forwarding"]
    names = [f"inet4-forwarding.{end}" for end in ("receiver", "receiver-2", "sender", "sender-2")]
    received, received_2, sent, sent_2 = ((tmp_path / name).read_text() for name in names)
    medians = [pktgen.median_rate(text) for text in (received, received_2)]
    seen = json.loads((tmp_path / "inet4-forwarding.observed.json").read_text())

    assert not sample.warnings
    assert sample.pps == sum(medians)
    assert max(medians) < 1.05 * min(medians)
    assert sample.offered_pps == pytest.approx(2 * LINE_RATE, rel=0.01)
    busy = [rate for rate in sample.received if rate]
    assert statistics.median(busy) == pytest.approx(sample.pps, rel=0.02)
    assert max(sample.offered) == pytest.approx(2 * LINE_RATE, rel=0.01)
    assert "-> 00:08:a2:09:34:00)" in sent
    assert "-> 00:08:a2:09:34:02)" in sent_2
    conditions = lab.conditions[sample.conditions]
    generator, sha256 = conditions["generator"], conditions["pkt-gen of the receiver"]
    assert conditions["generator 2"] == generator
    assert conditions["pkt-gen of the generator 2"] == sha256
    assert conditions["pkt-gen of the receiver 2"] == sha256
    assert seen["after"]["ports"].keys() == {
        *(f"the router's {part}" for part in ("ingress", "ingress 2", "egress", "egress 2")),
        *("generator 1 on gen1", "generator 2 on gen2"),
        *("receiver 1 on rcv1", "receiver 2 on rcv2"),
    }
    settings = seen["before"]["settings"]
    assert [settings[f"dev.igb.{number}.fc"] for number in range(4)] == 4 * ["0"]


@pytest.mark.parametrize(
    ("machine", "broken", "problem", "fault"),
    [
        # 60 % of the line rate, 892,857, with a median that is random by some 70.
        ("gen2", "slow-sender", "generator 2 on gen2 offered 89[23],", Fault.WRONG_RATE),
        ("gen1", "pkt-gen-crashes", "generator 1 on gen1's pkt-gen crashed", Fault.PKT_GEN_DIES),
        ("rcv2", "pkt-gen-crashes", "receiver 2 on rcv2's pkt-gen crashed", Fault.PKT_GEN_DIES),
        ("rcv2", "bad-cable", r"receiver 2 on rcv2 \(igb3\) counted ", Fault.DAMAGED),
    ],
)
def test_a_problem_names_the_host(
    lab: RunningLab, tmp_path: Path, machine: str, broken: str, problem: str, fault: Fault
) -> None:
    lab.control("break", machine, broken)
    sample = lab.measure(tmp_path, FORWARDING, "pairs")["inet4-forwarding"]
    assert any(re.match(problem, one) for one in sample.problems), sample.problems
    assert not any("gen1" in one for one in sample.problems if machine == "gen2"), sample.problems
    assert fault_of_run(sample.problems) is fault


@pytest.mark.parametrize(
    ("machine", "fault"), [("gen2", Fault.GENERATOR_DIES), ("rcv2", Fault.RECEIVER_DIES)]
)
def test_a_host_that_dies_ends_the_run(
    lab: RunningLab, tmp_path: Path, machine: str, fault: Fault
) -> None:
    lab.control("break", machine, "dies-under-load")
    with pytest.raises(LabFault, match=f"^{machine}: the connection was lost") as caught:
        lab.measure(tmp_path, FORWARDING, "pairs")
    assert caught.value.fault is fault


def test_a_rate_is_shared_by_the_generators(lab: RunningLab, tmp_path: Path) -> None:
    """This load is that of profiles; all generators end with the block."""
    with lab.bench(tmp_path, "pairs") as bench, bench.under_load(FORWARDING, 100_001, 30) as flows:
        wait_until(lambda: _highest_rates(flows) == pytest.approx(4 * [5e4], rel=0.01))
        running = [one.process.poll() is None for one in flows.sending]
    assert running == [True, True]
    assert None not in [one.process.poll() for one in (*flows.sending, *flows.receiving)]
    assert max(_highest_rates(flows)) == pytest.approx(5e4, rel=0.01)


def _highest_rates(flows: Flows) -> list[float]:
    outputs = flows.outputs
    texts = [*outputs.sent.values(), *outputs.received.values()]
    return [max(pktgen.all_rates(text), default=0.0) for text in texts]


def test_no_drop_rate_includes_all_generators(lab: RunningLab, tmp_path: Path) -> None:
    found = lab.measure_valid(tmp_path, load_scenario("inet4-no-drop"), "pairs")
    by_metric = {name.partition("~")[2]: sample for name, sample in found.items()}
    full, rate = by_metric[""], next(sample for name, sample in by_metric.items() if name)
    assert rate.pps == pytest.approx(full.pps, rel=0.05)


def test_doctor_examines_every_host(lab: RunningLab) -> None:
    found = {check.what: check for check in examine(lab.lab, testbed="pairs", rates=True)}
    assert [check for check in found.values() if not check.good] == []
    for what in (
        *("ingress 2 pairs-dut", "egress 2 pairs-dut", "generator 2 gen2", "receiver 2 rcv2"),
        *(f"pkt-gen on {host}" for host in HOSTS),
    ):
        assert what in found
    assert found["routes through egress"].found == (
        "198.19.10.1 on igb1 by 198.19.0.1; 198.19.10.100 on igb3 by 198.21.0.1"
    )
    assert found["static entries on egress"].found.endswith("198.21.0.1 is 00:1b:21:c4:96:04")
    lab.control("break", "gen2", "slow-sender")
    rates = {check.what: check for check in examine(lab.lab, testbed="pairs", rates=True)}["rates"]
    assert not rates.good
    assert ", generator 2 on gen2 89" in rates.found
    assert rates.found.endswith(
        "; pairs must offer 2,976,190 "
        "(generator 1 on gen1 1,488,095, generator 2 on gen2 1,488,095)"
    )
