"""Packets of several sizes from one port, with one pkt-gen and ring per size."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab, module_lab
from waiting import wait_until

from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.scenario import Scenario, load_scenario
from netbisect.workers.doctor import checks
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.dut.ports import Interface
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.traffic import Flows
from netbisect.workers.transport.errors import LabFault

IMIX = load_scenario("inet4-imix")
SHARES = {60: 7 / 12, 590: 4 / 12, 1514: 1 / 12}
MIXED_RATE = 1e9 / 8 / (24 + sum(size * share for size, share in SHARES.items()))
"""Packets per second of a full link with 1 Gbit/s."""


def with_mix(*sizes: int) -> Scenario:
    assert IMIX.traffic
    mix = tuple((size, 1) for size in sizes)
    return replace(IMIX, traffic=replace(IMIX.traffic, mix=mix))


# Packets of all sizes must begin within a second of the lab, also on a busy host.
running = module_lab("c2558", compression=2)
pytestmark = pytest.mark.xdist_group("mix")  # one process runs the lab


@pytest.mark.long
def test_every_size_has_its_share_of_the_line_rate(lab: RunningLab, tmp_path: Path) -> None:
    """The rate of the sample includes all sizes."""
    sample = lab.measure_valid(tmp_path, IMIX)["inet4-imix"]
    sent = {size: (tmp_path / f"inet4-imix.sender-{size}-bytes").read_text() for size in SHARES}
    received = (tmp_path / "inet4-imix.receiver").read_text()

    assert sample.offered_pps == pytest.approx(MIXED_RATE, rel=0.01)
    assert sample.pps == pytest.approx(MIXED_RATE, rel=0.01) == pktgen.median_rate(received)
    for ring, (size, text) in enumerate(sent.items()):
        assert pktgen.offered_rate(text) == pytest.approx(MIXED_RATE * SHARES[size], rel=0.01)
        assert f"interface is netmap:igb2-{ring}\n" in text
        assert f"frag_size {size}\n" in text
    totals = [pktgen.total(text) for text in sent.values()]
    assert pktgen.total(received) == pytest.approx(sum(totals), rel=0.05)


@pytest.mark.long
def test_forwarding_rate_does_not_depend_on_the_size(lab: RunningLab, tmp_path: Path) -> None:
    """The router is limited in packets per second."""
    small = lab.measure_valid(tmp_path, load_scenario("inet4-forwarding"))["inet4-forwarding"]
    mixed = lab.measure_valid(tmp_path, with_mix(60, 61))["inet4-imix"]
    assert mixed.pps < 0.9 * mixed.offered_pps
    assert mixed.pps == pytest.approx(small.pps, rel=0.02)


def test_a_crash_names_the_size(lab: RunningLab, tmp_path: Path) -> None:
    lab.control("break", "c2558-gen", "pkt-gen-crashes")
    sample = lab.measure(tmp_path, IMIX)["inet4-imix"]
    crashed = re.compile(r"the generator \((60|590|1514) bytes\)'s pkt-gen crashed")
    assert any(map(crashed.fullmatch, sample.problems)), sample.problems


def test_a_port_with_too_few_rings_is_reported(lab: RunningLab, tmp_path: Path) -> None:
    """A run skips the scenario, and the doctor reports the port."""
    scenario = with_mix(60, 100, 200, 300, 400)
    lacking = "igb2 has 4 of 5 transmit rings that the mix needs, one for each size"
    with pytest.raises(LabFault) as caught:
        lab.measure(tmp_path, scenario)
    assert caught.value.why == f"inet4-imix: the generator: {lacking}"
    assert caught.value.fault is Fault.SCENARIO

    for name, sizes, good in (("few", 5, False), ("enough", 4, True)):
        mix = [[60 + size, 1] for size in range(sizes)]
        text = f'name = "{name}"\ntitle = "t"\nbase = "inet4-forwarding"\n[traffic]\nmix = {mix}\n'
        (tmp_path / f"{name}.toml").write_text(text)
        more = ("inet4-imix",) if good else ()
        testbed = replace(lab.lab.testbed("c2558"), scenarios=(name, *more))
        receiver = replace(testbed.receivers[0], threads=4 if good else 2)
        testbed = replace(testbed, receiver=receiver)
        other = replace(lab.lab, testbeds=(testbed,), scenario_directories=(tmp_path,))
        found = {one.what: one for one in examine(other, testbed="c2558")}
        assert found["transmit rings of generator"].good == good
        assert ("mtu of generator" in found) == good, "it is checked for large packets"
        expected = "igb2: one for each of 4 sizes" if good else lacking
        assert found["transmit rings of generator"].found == expected
        assert found["threads of receiver"].good == good
    assert found["mtu of generator"].good
    assert checks.threads("igb3", "rx", 4, 2).found == (
        "igb3: 2 threads, 4 receive rings; expected 1 or 4 threads"
    )
    assert [checks.threads("igb2", "tx", 4, number).good for number in (2, 8)] == [True, False]
    assert checks.mtu(Interface("igb2", "", "active", "", mtu=1500), 1514) == (
        False,
        "igb2: 1500; packets of 1514 bytes need ifconfig igb2 mtu 1514",
    )


def test_missing_ring_is_reported_by_pkt_gen(lab: RunningLab) -> None:
    """Some drivers do not report their rings; pkt-gen exits with the status of a failed ssh(1)."""
    answer = lab.ssh("c2558-gen", "pkt-gen -f tx -i netmap:igb2-4 -n 10", status=255)
    assert pktgen.complaint(answer) == "igb2: Invalid argument"
    assert pktgen.refused(answer)


def test_a_load_below_the_limit_is_mixed_too(lab: RunningLab, tmp_path: Path) -> None:
    """This load is that of profiles; all pkt-gens end with the block."""
    with lab.bench(tmp_path) as bench, bench.under_load(IMIX, 120_000, 30) as flows:
        full = pytest.approx([70_000, 40_000, 10_000], rel=0.01)
        wait_until(lambda: highest_rates(flows) == full)
        assert [one.process.poll() for one in flows.sending] == 3 * [None]
    assert highest_rates(flows) == full
    assert None not in [one.process.poll() for one in (*flows.sending, *flows.receiving)]


def highest_rates(flows: Flows) -> list[float]:
    return [max(pktgen.all_rates(text), default=0.0) for text in flows.outputs.sent.values()]
