"""The simulated traffic: pkt-gen, firewalls and the rates of kernels."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_fixtures import RunningLab
from programs import captured

from netbisect.demo.lab.traffic import Flow, schedule

SEND = (
    "pkt-gen -N -f tx -i igb2 -n 44642850 -l 60 -4 -d 198.19.10.1:2001-198.19.10.100 "
    "-D 00:08:a2:09:33:da -s 198.18.10.1:2001-198.18.10.20 -S 00:1b:21:c4:95:7a -w 2"
)


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
