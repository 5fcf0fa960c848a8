"""Noise of a bisection job."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from histories import history

from netbisect.bisect.detection.histories import estimate_noise
from netbisect.steps.policy import bisections


@pytest.mark.parametrize("percent", [0.0, 0.5, 1.9, 10.0])
def test_run_noise_is_subtracted_from_the_noise_of_boots(percent: float) -> None:
    """At least a quarter of the noise of boots remains."""
    levels = history(1, (12, 0.0), boot=0.02, image=0.0, stray=0.0)
    estimated = estimate_noise(levels)
    testbed = SimpleNamespace(run_noise_percent=percent)  # the only attribute used
    noise = bisections.noise_of(levels, testbed)

    assert noise.run == percent / 100
    assert 0.24 * estimated.boot < noise.boot <= estimated.boot
    total = math.hypot(noise.boot, noise.run)
    assert total == pytest.approx(max(estimated.boot, total))
