"""What a question is asked with: the noise that the history shows."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detect import noise_of
from netbisect.bisect.model import Level
from netbisect.steps import searches
from netbisect.workers import lab

PORT = lab.Port(interface="igb0")
TESTBED = lab.Testbed(
    name="c2558",
    arch="amd64",
    kernel_config="GENERIC",
    line_rate_pps=1_488_095,
    scenarios=("inet4-forwarding",),
    dut=lab.Dut("d", PORT, PORT),
    generator=lab.TrafficHost("g", PORT),
    receiver=lab.TrafficHost("r", PORT),
)


def levels() -> list[Level]:
    luck = random.Random(1)
    return [
        Level(f"r{n}", f"i{n}", float(n), tuple(luck.gauss(14, 0.02) for _ in range(5)))
        for n in range(12)
    ]


def test_without_a_word_in_the_lab_file_all_scatter_is_that_of_boots() -> None:
    assert searches.noise_of(levels(), TESTBED) == noise_of(levels())


@given(percent=st.floats(0, 10))
def test_runs_take_their_part_of_the_scatter_and_leave_boots_some(percent: float) -> None:
    """One run of a boot scatters as it did, unless the lab file claims more than there is."""
    seen = noise_of(levels())
    noise = searches.noise_of(levels(), replace(TESTBED, run_noise_percent=percent))

    assert noise.run == percent / 100
    assert 0.24 * seen.boot < noise.boot <= seen.boot
    together = math.hypot(noise.boot, noise.run)
    assert together == pytest.approx(max(seen.boot, together))
