"""Screens the series of a night and selects the retest.

With hundreds of series, some deviate every night by chance. The error rate is controlled per
retest, so there is one retest of a testbed a night: of the series with the smallest p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from netbisect.bisect.detection.confirmation import exceeds_images
from netbisect.bisect.detection.histories import estimate_noise
from netbisect.bisect.detection.nightly_screen import MIX_IMAGES, screen
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import (
    MIN_EFFECT,
    RETEST_BOOTS,
    NightScreening,
    ScreenResult,
)
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.stats.changepoints import group_by_image


def retest_order(found: Mapping[str, ScreenResult]) -> list[str]:
    """The suspicious series that a retest may decide: drops before gains, smallest p first.

    Args:
        found: By name of the series.
    """
    kinds = (AlertKind.DROP, AlertKind.IMPROVEMENT)
    worth = {name: one for name, one in found.items() if one.kind in kinds}
    return sorted(
        worth,
        key=lambda name: (kinds.index(worth[name].kind), worth[name].p, -abs(worth[name].ln_ratio)),
    )


def q_values(p: Sequence[float]) -> list[float]:
    """False discovery rates of the p-values of a night, for display only.

    Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical Society B 57, 1995.
    """
    # As scipy.stats.false_discovery_control, whose module takes a second to load.
    order = np.argsort(p)[::-1]
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate(np.asarray(p)[order] * len(p) / np.arange(len(p), 0, -1))
    return [float(one) for one in q.clip(max=1.0)]


def screen_night(
    night: NightlyJob,
    series: Mapping[str, Sequence[Level]],
    numbers: Mapping[str, int],
    min_effect: float = MIN_EFFECT,
    noises: Mapping[str, Noise] | None = None,
) -> NightScreening:
    """Screens all series of a night.

    Args:
        night: The nightly job.
        series: By scenario, the levels of the baseline, oldest first, tonight's last. Scenarios
            without a level of tonight's revision, or without an earlier one, are skipped.
        numbers: By revision of the levels, its number on the branch.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
        noises: By scenario, the noise, if known better than from the baseline.
    """
    known = noises or {}
    found = {
        scenario: screen(levels, min_effect, known.get(scenario))
        for scenario in night.scenarios
        if len(levels := series.get(scenario, ())) > 1 and levels[-1].revision == night.revision
    }
    mixes = [
        (_before_mix(series[scenario]), replace(one.mix, scenario=scenario))
        for scenario, one in found.items()
        if one.mix is not None
    ]
    wanted = _wanted(night, series, numbers, found, min_effect, known)
    return NightScreening(wanted, tuple(mixes))


def _before_mix(levels: Sequence[Level]) -> str:
    """The last revision before the images in the test of the slow mode."""
    images = group_by_image(levels)
    return images[-min(MIX_IMAGES + 1, len(images))][-1].revision


def _wanted(
    night: NightlyJob,
    series: Mapping[str, Sequence[Level]],
    numbers: Mapping[str, int],
    found: Mapping[str, ScreenResult],
    min_effect: float,
    known: Mapping[str, Noise],
) -> CompareJob | None:
    noises = {
        scenario: known.get(scenario) or estimate_noise(series[scenario][:-1])
        for scenario, one in found.items()
        if one.asks
    }
    suspicions = {
        scenario: found[scenario]
        for scenario, noise in noises.items()
        if retest_decides(found[scenario], noise, min_effect)
    }
    lead = next(iter(retest_order(suspicions)), None)
    if lead is None:
        return None
    good, agreed = found[lead].good, found[lead].agreed
    return CompareJob(
        branch=night.branch,
        testbed=night.testbed,
        good=good,
        bad=night.revision,
        scenarios=night.scenarios,
        lead=lead,
        suspected=found[lead].ln_ratio,
        commits=numbers[night.revision] - numbers[good],
        min_effect=min_effect,
        noise=noises[lead],
        agreed=agreed and replace(agreed, scenario=lead),
    )


def retest_decides(found: ScreenResult, noise: Noise, min_effect: float = MIN_EFFECT) -> bool:
    """Whether a retest of one pair of images can confirm a suspicion."""
    boots = RETEST_BOOTS // 2
    return found.agreed is not None or exceeds_images(found.ln_ratio, boots, noise, min_effect)
