"""Noise of a bisection job."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from netbisect.bisect.detection.histories import estimate_noise
from netbisect.bisect.model.entities import Level
from netbisect.steps.policy import bisections
from netbisect.workers.config import testbed
from netbisect.workers.config.dut import Dut, PortSelector

PORT = PortSelector(interface="igb0")
TESTBED = testbed.Testbed(
    name="c2558",
    arch="amd64",
    kernel_config="GENERIC",
    line_rate_pps=1_488_095,
    scenarios=("inet4-forwarding",),
    dut=Dut("d", PORT, PORT),
    generator=testbed.TrafficHost("g", PORT),
    receiver=testbed.TrafficHost("r", PORT),
)


def levels() -> list[Level]:
    luck = random.Random(1)
    return [
        Level(f"r{n}", f"i{n}", float(n), tuple(luck.gauss(14, 0.02) for _ in range(5)))
        for n in range(12)
    ]


@pytest.mark.parametrize("percent", [0.0, 0.5, 1.9, 10.0])
def test_run_noise_reduces_the_noise_of_boots_to_a_quarter_at_most(percent: float) -> None:
    seen = estimate_noise(levels())
    noise = bisections.noise_of(levels(), replace(TESTBED, run_noise_percent=percent))

    assert noise.run == percent / 100
    assert 0.24 * seen.boot < noise.boot <= seen.boot
    together = math.hypot(noise.boot, noise.run)
    assert together == pytest.approx(max(seen.boot, together))
