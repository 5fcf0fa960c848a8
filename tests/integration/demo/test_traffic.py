"""The simulated traffic: pkt-gen, firewalls and the rates of kernels."""

from __future__ import annotations

import itertools
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_fixtures import RunningLab
from programs import captured

from netbisect.demo.lab.traffic import Flow, schedule
from netbisect.workers.measure import pktgen

RECEIVE = "pkt-gen -N -f rx -i igb3 -w 2 -W"
SEND = (
    "pkt-gen -N -f tx -i igb2 -n 44642850 -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 "
    "-D 00:08:a2:09:33:da -s 198.18.10.1:2001-198.18.10.20 -S 00:1b:21:c4:95:7a -w 2"
)


def run_traffic(lab: RunningLab, sender: str, receiver: str = RECEIVE) -> tuple[str, str]:
    """Outputs of sender and receiver; the sender starts when the receiver is ready."""
    ssh = ["ssh", "-F", str(lab.files.ssh_config), "c2558-gen"]
    with subprocess.Popen(
        [*ssh, receiver], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as receiving:
        assert receiving.stdout is not None
        output = ""
        while not pktgen.ready(output):
            output += receiving.stdout.readline()
        sent = captured([*ssh, sender], check=True)
        if "-W" not in receiver:
            lab.ssh("c2558-gen", "pkill -INT -x pkt-gen")
        return sent.stderr + sent.stdout, output + receiving.stdout.read()


def test_output_of_pkt_gen_equals_that_of_freebsd(running_lab: RunningLab) -> None:
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


def test_pkt_gen_rejects_options_unknown_to_freebsd(running_lab: RunningLab) -> None:
    """pkt-gen prints its usage; its status 255 equals that of a failed ssh(1)."""
    ssh = ["ssh", "-F", str(running_lab.files.ssh_config), "c2558-gen"]
    rejected = captured([*ssh, f"{SEND} -U"])
    assert rejected.returncode == 255
    assert rejected.stderr.startswith("pkt-gen: illegal option -- U\nUsage:\npkt-gen arguments\n")
    record = captured([*ssh, "pkt-gen -h"], check=True)
    assert record.stderr in rejected.stderr


flows = st.builds(
    lambda count, pps, rng: Flow("inet4", 60, "", tuple(schedule(1000.0, count, pps, rng))),
    st.integers(min_value=1, max_value=10**8),
    st.floats(min_value=1e6, max_value=2e7),
    st.randoms(use_true_random=True),
)


@given(flows, st.lists(st.floats(min_value=990, max_value=1200), min_size=2, max_size=9))
def test_packet_count_is_independent_of_intervals(flow: Flow, cuts: list[float]) -> None:
    """A receiver that wakes up late counts the same packets."""
    cuts = sorted([0.0, *cuts, 9999.0])
    total = sum(flow.packets(a, b) for a, b in itertools.pairwise(cuts))
    assert total == pytest.approx(sum(second.packets for second in flow.seconds))
