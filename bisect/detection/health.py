"""Health of a series: noise, sensitivity and anomalies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from netbisect.bisect.detection.histories import estimate_noise
from netbisect.bisect.detection.level_difference import LevelEstimate
from netbisect.bisect.detection.nightly_screen import image_levels, screen
from netbisect.bisect.detection.self_check import smallest_drop
from netbisect.bisect.detection.trend import drift
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import MIN_EFFECT, SeriesHealth
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.stats import boot_modes
from netbisect.bisect.stats.changepoints import boot_matrix

_LATEST = 10
"""Latest levels that determine the boots per night."""
_NIGHTS = 5
"""Nights of the long window."""


def series_health(
    levels: Sequence[Level], min_effect: float = MIN_EFFECT, known: Noise | None = None
) -> SeriesHealth:
    """Health of a series.

    Args:
        levels: Since the last known change, oldest first, any number.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
        known: Noise, if known better than from these levels.
    """
    boots = sum(len(level.ln_pps) for level in levels)
    noise = (known or estimate_noise(levels)) if boots else None
    found = screen(levels, min_effect, known) if len(levels) > 1 else None
    limited = sum(level.saturated for level in levels)
    saturated = bool(levels) and levels[-1].saturated and 2 * limited > len(levels)
    one, lasting = None, None
    if found is not None and found.noise is not None and not saturated:
        latest = [len(level.ln_pps) for level in levels[-_LATEST:]]
        one, lasting = (
            smallest_drop(
                found.noise,
                found.images,
                boots=int(statistics.median(latest)),
                nights=nights,
                min_effect=min_effect,
            )
            for nights in (1, _NIGHTS)
        )
    return SeriesHealth(
        levels=len(levels),
        boots=boots,
        boot_noise=noise.boot if noise else None,
        image_noise=noise.image if noise and found else None,
        modes=boot_modes.modes_of(noise) if noise else None,
        saturated=saturated,
        smallest_drop=one,
        smallest_lasting_drop=lasting,
        p=found.p if found else None,
        modes_changed=found is not None and found.kind is AlertKind.MODES,
        drift=drift(levels, noise) if noise else None,
        latest=levels[-1].revision if levels else "",
        latest_at=max((level.at for level in levels), default=None),
    )


def level_estimates(levels: Sequence[Level], noise: Noise) -> list[LevelEstimate]:
    """Estimates of all levels.

    Args:
        levels: Levels of one series, any number.
        noise: Noise of that series, with its modes.
    """
    if not levels:
        return []
    y, variance = image_levels(boot_matrix(levels), noise)
    own = variance - noise.image**2
    return [LevelEstimate(float(mean), float(spread)) for mean, spread in zip(y, own, strict=True)]
