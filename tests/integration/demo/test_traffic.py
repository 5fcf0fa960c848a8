"""The simulated traffic: pkt-gen, firewalls and the rates of kernels."""

from __future__ import annotations

import asyncio
import itertools
import re
import statistics
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.demo.lab.clock import Clock
from netbisect.demo.lab.config import RouterConfig
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.tar import unpack
from netbisect.demo.lab.traffic import Flow, schedule
from netbisect.workers.measure import pktgen

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

RECEIVE = "pkt-gen -N -f rx -i igb3 -w 2 -W"
SEND = (
    "pkt-gen -N -f tx -i igb2 -n 44642850 -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 "
    "-D 00:08:a2:09:33:da -s 198.18.10.1:2001-198.18.10.20 -S 00:1b:21:c4:95:7a -w 2"
)


def run_traffic(lab: RunningLab, sender: str, receiver: str = RECEIVE) -> tuple[str, str]:
    """What sender and receiver say; the receiver is ready first."""
    ssh = ["ssh", "-F", str(lab.files.ssh_config), "c2558-gen"]
    with subprocess.Popen(
        [*ssh, receiver], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as receiving:
        assert receiving.stdout is not None
        said = ""
        while not pktgen.ready(said):
            said += receiving.stdout.readline()
        sent = subprocess.run([*ssh, sender], capture_output=True, text=True, check=True)
        if "-W" not in receiver:
            lab.ssh("c2558-gen", "pkill -INT -x pkt-gen")
        return sent.stderr + sent.stdout, said + receiving.stdout.read()


def test_pkt_gen_output_is_that_of_freebsd(running_lab: RunningLab) -> None:
    sender, receiver = run_traffic(running_lab, SEND)
    header = [re.sub(r"^[0-9.]+ ", "", line) for line in receiver.splitlines()[:8]]
    assert header == [
        "main [3036] interface is igb3",
        "main [3159] using default burst size: 512",
        "main [3167] running on 1 cpus (have 4)",
        "extract_ip_range [477] range is 10.0.0.1:1234 to 10.0.0.1:1234",
        "extract_ip_range [477] range is 10.1.0.1:1234 to 10.1.0.1:1234",
        "start_threads [2695] Wait 2 secs for phy reset",
        "start_threads [2697] Ready...",
        "receiver_body [1940] reading from netmap:igb3 fd 3 main_fd 3",
    ]
    line = (
        r"\d+\.\d{6} main_thread \[2786\] \d+ pps \(\d+ pkts \d+ bps in \d+ usec\) "
        r"\d+\.\d\d avg_batch \d+ min_space"
    )
    for text in (sender, receiver):
        seconds = [one for one in text.splitlines() if "main_thread" in one]
        assert len(seconds) >= 30
        assert all(re.fullmatch(line, one) for one in seconds)
    assert "\nSent 44642850 packets 2678571000 bytes " in sender
    assert "198.18.10.1:2001-198.18.10.20 -> 198.19.10.1:2001-198.19.10.100 (00:1b" in sender


def test_pkt_gen_refuses_what_that_of_freebsd_refuses(running_lab: RunningLab) -> None:
    """By its usage text and with its status, which is that of a ssh(1) that failed."""
    ssh = ["ssh", "-F", str(running_lab.files.ssh_config), "c2558-gen"]
    refused = subprocess.run([*ssh, f"{SEND} -U"], capture_output=True, text=True, check=False)
    assert refused.returncode == 255
    assert refused.stderr.startswith("pkt-gen: illegal option -- U\nUsage:\npkt-gen arguments\n")
    record = subprocess.run([*ssh, "pkt-gen -h"], capture_output=True, text=True, check=True)
    assert record.stderr in refused.stderr


def test_receiver_exits_after_the_traffic(running_lab: RunningLab) -> None:
    """The rule of netbenches then leaves more than the 15 seconds that a sample needs."""
    _, receiver = run_traffic(running_lab, SEND)
    assert pktgen.all_rates(receiver)[-1] == 0
    assert "Received " in receiver
    assert len(pktgen.kept_rates(receiver)) >= 20


def test_receiver_without_w_exits_on_a_signal(running_lab: RunningLab) -> None:
    _, receiver = run_traffic(running_lab, SEND, RECEIVE.replace(" -W", ""))
    assert "Received " in receiver


def test_longer_packets_have_a_lower_rate(running_lab: RunningLab) -> None:
    sender, _ = run_traffic(running_lab, SEND.replace("-l 60", "-l 62"))
    assert pktgen.offered_rate(sender) == pytest.approx(1_453_488, rel=0.001)


def test_inet6_has_a_cost_of_its_own(running_lab: RunningLab) -> None:
    inet4, inet6 = (
        pktgen.median_rate(run_traffic(running_lab, SEND.replace("-4", family))[1])
        for family in ("-4", "-6")
    )
    assert inet6 / inet4 == pytest.approx(1023 / 1097, rel=0.06)


def test_packets_for_another_mac_are_not_forwarded(running_lab: RunningLab) -> None:
    sender = SEND.replace("00:08:a2:09:33:da", "00:08:a2:09:33:db")
    _, receiver = run_traffic(running_lab, sender, RECEIVE.replace(" -W", ""))
    assert set(pktgen.all_rates(receiver)) == {0.0}


def test_disabled_forwarding_drops_packets(running_lab: RunningLab) -> None:
    running_lab.ssh("c2558-dut", "sysctl net.inet.ip.forwarding=0")
    _, receiver = run_traffic(running_lab, SEND, RECEIVE.replace(" -W", ""))
    running_lab.ssh("c2558-dut", "sysctl net.inet.ip.forwarding=1")
    assert set(pktgen.all_rates(receiver)) == {0.0}


def test_ipfw_without_rules_drops_packets_by_default(
    running_lab: RunningLab,
) -> None:
    running_lab.ssh("c2558-dut", "kenv net.inet.ip.fw.default_to_accept=0 && kldload ipfw")
    _, closed = run_traffic(running_lab, SEND, RECEIVE.replace(" -W", ""))
    running_lab.ssh("c2558-dut", "kenv net.inet.ip.fw.default_to_accept=1")
    _, open_ = run_traffic(running_lab, SEND)
    running_lab.ssh("c2558-dut", "kldunload ipfw")
    assert set(pktgen.all_rates(closed)) == {0.0}
    assert pktgen.median_rate(open_) > 500_000


def test_unknown_port_is_an_error(running_lab: RunningLab) -> None:
    assert "Unable to open netmap:ix7: Device not configured" in running_lab.ssh(
        "c2558-gen", "pkt-gen -f rx -i ix7", status=1
    )


def test_timeout_prints_the_sum(running_lab: RunningLab) -> None:
    said = running_lab.ssh("c2558-gen", f"timeout -s INT 20 {RECEIVE}", status=124)
    assert "Received 0 packets" in said


def test_lost_connection_ends_the_program(running_lab: RunningLab) -> None:
    """A signal for it then finds none any more."""
    command = ["ssh", "-F", str(running_lab.files.ssh_config), "c2558-gen", RECEIVE]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as receiving:
        assert receiving.stderr is not None
        receiving.stderr.readline()
        receiving.terminate()
    for _ in range(100):
        done = subprocess.run(
            [*command[:4], "pkill -INT -x pkt-gen"], capture_output=True, check=False
        )
        if done.returncode == 1:
            return
    raise AssertionError("pkt-gen is still running")


flows = st.builds(
    lambda count, pps, luck: Flow("inet4", 60, "", tuple(schedule(1000.0, count, pps, luck))),
    st.integers(min_value=1, max_value=10**8),
    st.floats(min_value=1e6, max_value=2e7),
    st.randoms(use_true_random=True),
)


@given(flows, st.lists(st.floats(min_value=990, max_value=1200), min_size=2, max_size=9))
def test_packet_count_is_independent_of_intervals(flow: Flow, cuts: list[float]) -> None:
    """So a receiver that wakes up late has seen the same packets."""
    cuts = sorted([0.0, *cuts, 9999.0])
    total = sum(flow.packets(a, b) for a, b in itertools.pairwise(cuts))
    assert total == pytest.approx(sum(second.packets for second in flow.seconds))


@given(flows)
def test_sender_sends_the_requested_number(flow: Flow) -> None:
    sent = round(flow.packets(0, 9999))
    assert sent == sum(second.packets for second in flow.seconds)
    assert all(one.end == other.begin for one, other in itertools.pairwise(flow.seconds))


@given(flows, st.floats(min_value=1000, max_value=1100))
def test_nothing_is_sent_after_an_interrupt(flow: Flow, moment: float) -> None:
    flow.stopped = moment
    assert flow.packets(moment, 9999) == 0
    assert flow.busy(0, 9999) <= moment - 1000 + 1e-9


def capacities(router: SimulatedRouter, boots: int = 50) -> tuple[float, float, float]:
    """Median over boots of one kernel: forwarding, with pf, with ipfw."""
    settings: list[tuple[list[str], list[str]]] = [([], []), (["pass"], []), ([], ["allow"])]
    medians = []
    for pf, ipfw in settings:
        router.firewalls.pf_enabled = bool(pf)
        router.firewalls.pf_rules = pf
        router.firewalls.ipfw_rules = [f"1 {rule} keep-state" for rule in ipfw]
        router.firewalls.loaded = {"ipfw"} if ipfw else set()
        values = []
        for boot in range(boots):
            router.boots = boot
            values.append(router.capacity("inet4"))
        medians.append(statistics.median(values))
    return medians[0], medians[1], medians[2]


async def routers(lab: RunningLab, numbers: range, place: Path) -> list[SimulatedRouter]:
    """A router for each kernel, up and with the modules loaded."""
    found = []
    for number in numbers:
        config = RouterConfig("c2558-dut", 1, "C2558-i350", "igb", ())
        router = SimulatedRouter(config, place / str(number), Clock(300), 1)
        folder = router.path("kernel", "/boot")
        folder.mkdir(parents=True)
        with tarfile.open(lab.kernel(number)[1]) as tar:
            unpack(tar, folder)
        await router.power_on()
        router.load_module("pf")
        router.load_module("ipfw")
        found.append(router)
    return found


def test_rate_follows_from_the_cost_of_the_kernel(running_lab: RunningLab, tmp_path: Path) -> None:
    """The culprit costs 286 ns a packet, in addition to 1023, with pf 1646, with ipfw 1569."""
    culprit = running_lab.place_of("culprit")
    sides = [
        asyncio.run(routers(running_lab, numbers, tmp_path))
        for numbers in (range(culprit - 2, culprit), range(culprit, culprit + 2))
    ]
    (forward, pf, ipfw), after = (
        [statistics.mean(column) for column in zip(*map(capacities, side), strict=True)]
        for side in sides
    )
    assert forward == pytest.approx(1e9 / (1023 * 1.037), rel=0.03)
    assert pf == pytest.approx(1e9 / (1646 * 1.037), rel=0.03)
    assert after[0] / forward == pytest.approx(1023 / 1309, abs=0.03)
    assert after[1] / pf == pytest.approx(1646 / 1932, abs=0.03)
    assert after[2] / ipfw == pytest.approx(1569 / 1855, abs=0.03)


def test_boots_and_kernels_have_noise(running_lab: RunningLab, tmp_path: Path) -> None:
    """Both about one percent; a repeated boot has the same rate."""
    one, other = asyncio.run(routers(running_lab, range(40, 42), tmp_path))
    one.firewalls.loaded.clear()
    values = []
    for boot in range(200):
        one.boots = boot
        values.append(one.capacity("inet4"))
    scatter = statistics.stdev(values) / statistics.mean(values)
    assert 0.003 < scatter < 0.03
    assert one.capacity("inet4") == values[-1]
    assert capacities(one)[0] != capacities(other)[0]
