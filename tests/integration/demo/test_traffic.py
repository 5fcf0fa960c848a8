"""The simulated traffic: pkt-gen, firewalls and the rates of kernels."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.demo.lab.traffic import Flow, schedule

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
