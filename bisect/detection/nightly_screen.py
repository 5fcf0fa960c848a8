"""Nightly screen: selects series that deviate enough from their baseline to retest.

The scale of the test is the standard deviation between images, which exceeds that between boots of
one image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from netbisect.bisect.detection.image_shift import CANDIDATES, image_shift
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import (
    MIN_EFFECT,
    SCREEN_ALPHA,
    BootModes,
    ScreenResult,
)
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.model.results import Effect
from netbisect.bisect.stats import boot_modes
from netbisect.bisect.stats.arrays import Floats
from netbisect.bisect.stats.boot_modes import local_modes
from netbisect.bisect.stats.changepoints import (
    IMAGE_WEIGHT,
    Segmentation,
    boot_matrix,
    group_by_image,
    local_levels,
    merge_levels,
    segment_boots,
    weighted_mean,
)
from netbisect.bisect.stats.robust import locations

WINDOWS = {1: 0.5, 2: 0.2, 3: 0.15, 5: 0.1, 8: 0.05}
"""Numbers of latest images compared with the baseline, and the share of the error rate of each
(Bonferroni). Longer windows show smaller drops."""
LEAST_SHARE = 0.75
"""Share of `min_effect` that must be observed: half of all drops of `min_effect` appear smaller."""
_SCREEN_SD = 0.015
"""Prior of the image noise."""
_KNOWN = 12.0
"""Degrees of freedom from which an image noise replaces the prior."""
_SETTLED = 7
"""Images after a drop before they become the baseline."""
_BASELINE = 40
"""Maximum images of the baseline."""
_HISTORY = 120
"""Images searched for the beginning of the baseline."""
_WINSORISED = 3.0
"""Standard deviations from the median at which images of the baseline are winsorised."""
_MIX_ALPHA = 0.001
"""As SCREEN_ALPHA, for the frequency of the slow mode."""
MIX_IMAGES = 3
"""Latest images in the test of the slow mode."""


Z_95 = float(special.ndtri(0.975))
"""Half width of a 95 % interval, in standard errors."""
_DEVIATION_SHARE = 0.5
"""Share of the change from which tonight's image deviates."""


def screen(
    levels: Sequence[Level], min_effect: float = MIN_EFFECT, known: Noise | None = None
) -> ScreenResult:
    """Compares the latest images with the baseline.

    The baseline starts at the last step of the history; a drop becomes the baseline after 7
    images. The latest 1, 2, 3, 5 and 8 images are compared with the rest by a moderated t-test.
    Its variance is that between boots plus that between images, from the history and a prior with
    4 degrees of freedom: the noise of the series if well known, else 1.5 %. Boots in a known slow
    mode are no drop.

    Args:
        levels: Levels since the last known change, oldest first; at least two.
        min_effect: Smallest drop worth an alert, as a positive ln ratio.
        known: Noise of the series, if known better than from these levels.

    Returns:
        The window with the smallest p. Without a drop: a gain, or a change in the frequency of
        the slow mode, if significant.
    """
    images = group_by_image(levels)[-_HISTORY:]
    merged = [merge_levels(group) for group in images]
    boots = boot_matrix(merged)
    before = boots[:-1] if len(boots) > 1 else boots
    local = local_modes(before)
    image_sd = known.image if known and known.image_weight >= _KNOWN else _SCREEN_SD
    # The tests below take images as independent.
    past = segment_boots(before, local, (image_sd, IMAGE_WEIGHT), correlations=(0.0,))
    y, scatter = local_levels(boots, [*local, local[-1]][: len(boots)])
    count = (~np.isnan(boots)).sum(axis=1)
    variance = past.noise.image**2 + scatter**2 / count
    if len(images) == 1:
        return _unchanged(levels, past.noise)
    start = max(_start(past), len(y) - 1 - _BASELINE)
    windows = [window for window in WINDOWS if window < len(y) - start]
    whole = sum(WINDOWS[window] for window in windows)
    tests = [
        _test_window(y[start:], variance[start:], window, min_effect, WINDOWS[window] / whole)
        for window in windows
    ]
    best = min(tests, key=lambda one: one.p)
    if not best.suspicious and (gains := [one for one in tests if one.gained]):
        best = min(gains, key=lambda one: one.p_gain)
    found = _result(best, images[start:], y[start:])
    found = replace(found, images=len(y) - start - 1, noise=past.noise)
    if _saturated(merged[start:]):
        return replace(found, suspicious=False, kind=AlertKind.DROP)
    agreed = _agreed(y, variance, min_effect)
    if agreed is not None:
        found = _result(agreed, images, y)
        counts = int(count[: -agreed.window].sum()), int(count[-agreed.window :].sum())
        effect = _effect(agreed.ln_ratio, agreed.error, agreed.p, counts)
        return replace(found, images=len(y) - 1, noise=past.noise, agreed=effect)
    # The slow mode may have ended, or begun, with the latest images.
    mixed = local[-MIX_IMAGES:][0] or local[-1]
    if not found.suspicious and mixed is not None:
        mix = _mix_changed(boots[start:], y[start:], mixed)
        if mix is not None and mix.p < _MIX_ALPHA:
            return replace(found, suspicious=True, kind=AlertKind.MODES, p=mix.p, mix=mix)
    return found


@dataclass(frozen=True, slots=True)
class _WindowTest:
    """Test of the latest `window` images against those before."""

    window: int
    before: float
    ln_ratio: float
    p: float
    p_gain: float
    suspicious: bool
    gained: bool
    error: float
    """Standard error of `ln_ratio`."""
    doubtful: int = 0
    """Images before the window that may be changed already."""


def image_levels(boots: Floats, noise: Noise) -> tuple[Floats, Floats]:
    """Levels of images, ln pps, and their variance around the level of the series.

    Args:
        boots: ln pps, a row per image, padded with NaN.
        noise: Noise of the series, with its modes.
    """
    modes = boot_modes.modes_of(noise)
    y = boot_modes.fast_levels(boots, modes) if modes else locations(boots, noise.boot)
    count = (~np.isnan(boots)).sum(axis=1)
    return y, noise.image**2 + noise.boot**2 / count


def _unchanged(levels: Sequence[Level], noise: Noise) -> ScreenResult:
    """Result if all nights measured the same kernel."""
    boots = boot_matrix([merge_levels(levels[:-1]), levels[-1]])
    (baseline, level), _ = image_levels(boots, noise)
    return ScreenResult(False, float(level - baseline), levels[-2].revision, noise=noise)


def _start(past: Segmentation) -> int:
    """Index of the first level of the baseline.

    The baseline includes temporary excursions; a single image does not start one.
    """
    edges, end = [0, *past.cuts], len(past.y)
    i = len(edges) - 1
    while i > 0:
        last, before = edges[i], edges[i - 1]
        level = past.mean(last, end)[0]
        if i > 1 and last - before < _SETTLED:
            earlier = past.mean(edges[i - 2], before)[0]
            if abs(level - earlier) < MIN_EFFECT:
                i -= 2
                continue
        rose = level > past.mean(before, last)[0] and end - last > 1
        if rose or end - last >= _SETTLED:
            return last
        i -= 1
    return 0


def _test_window(
    y: Floats, variance: Floats, window: int, min_effect: float, share: float
) -> _WindowTest:
    """Moderated t-test of the latest `window` images against those before.

    The prior has 4 degrees of freedom (G. K. Smyth, Statistical Applications in Genetics and
    Molecular Biology 3, 2004).
    """
    past, spread = y[:-window], variance[:-window]
    middle = float(np.median(past))
    reach = _WINSORISED * np.sqrt(spread)
    before, uncertain = weighted_mean(np.clip(past, middle - reach, middle + reach), spread)
    after, scatter = weighted_mean(y[-window:], variance[-window:])
    degrees_of_freedom = IMAGE_WEIGHT + len(past) - 1
    error = math.sqrt(uncertain + scatter)
    ratio = after - before
    p = min(1.0, float(special.stdtr(degrees_of_freedom, ratio / error)) / share)
    gain = min(1.0, float(special.stdtr(degrees_of_freedom, -ratio / error)) / share)
    quantile = float(special.stdtrit(degrees_of_freedom, 1 - share * SCREEN_ALPHA))
    threshold = max(quantile * error, LEAST_SHARE * min_effect)
    return _WindowTest(
        window, before, ratio, p, gain, -ratio >= threshold, ratio >= threshold, error
    )


def _agreed(y: Floats, variance: Floats, min_effect: float) -> _WindowTest | None:
    """The latest images against those before, if they show a change, as tonight's does."""
    tonight = float(y[-1] - np.median(y[:-1]))
    if abs(tonight) < _DEVIATION_SHARE * LEAST_SHARE * min_effect:
        return None
    sign = math.copysign(1.0, tonight)
    shift = image_shift(y, sign * min_effect)
    if shift is None or not shift.shown:
        return None
    window = len(y) - shift.at
    test = _test_window(y, variance, window, min_effect, 1.0)
    if sign * test.ln_ratio < LEAST_SHARE * min_effect:
        return None
    # The mean ratio of the candidates is an e-value; its inverse is a p-value.
    p = min(CANDIDATES * math.exp(-shift.log_ratio), 1.0)
    return replace(
        test,
        p=p,
        p_gain=p,
        suspicious=sign < 0,
        gained=sign > 0,
        doubtful=shift.at - shift.first,
    )


def _effect(ln_ratio: float, error: float, p: float, counts: tuple[int, int]) -> Effect:
    """A difference with its 95 % interval and the boots of both sides; without a scenario."""
    reach = Z_95 * error
    return Effect("", ln_ratio, ln_ratio - reach, ln_ratio + reach, p, *counts)


def _result(test: _WindowTest, images: Sequence[Sequence[Level]], y: Floats) -> ScreenResult:
    """The result with its good revision, the last of several with one image."""
    past = y[: -test.window - test.doubtful]
    distance = np.abs(past - test.before)
    changed = test.suspicious or test.gained
    # An outlier at the end of the baseline would be a poor good end.
    near = np.flatnonzero(changed & (distance < abs(test.ln_ratio) / 2))
    shift = math.copysign(1.0, test.ln_ratio) * float(y[-1] - test.before)
    return ScreenResult(
        suspicious=test.suspicious,
        ln_ratio=test.ln_ratio,
        good=images[near[-1] if len(near) else len(past) - 1][-1].revision,
        p=test.p_gain if test.gained else test.p,
        kind=AlertKind.IMPROVEMENT if test.gained else AlertKind.DROP,
        tonight=changed and shift > _DEVIATION_SHARE * abs(test.ln_ratio),
    )


def _saturated(images: Sequence[Level]) -> bool:
    """Whether the generator limits both sides."""
    before = [level.saturated for level in images[:-1]]
    return images[-1].saturated and 2 * sum(before) > len(before)


def _mix_changed(boots: Floats, y: Floats, modes: BootModes) -> Effect | None:
    """Shift of the mean by the changed share of slow boots; p of Fisher's exact test."""
    if len(y) <= MIX_IMAGES:
        return None
    from scipy import stats  # noqa: PLC0415 - long to load, and few series have modes

    slow = boot_modes.slow_boots(boots, y, modes).sum(axis=1)
    fast = (~np.isnan(boots)).sum(axis=1) - slow
    counts = np.array([slow, fast])
    before, after = counts[:, :-MIX_IMAGES].sum(axis=1), counts[:, -MIX_IMAGES:].sum(axis=1)
    table = np.array([before, after])
    shares = table[:, 0] / table.sum(axis=1)
    moved = -modes.gap * float(shares[1] - shares[0])
    error = modes.gap * math.sqrt(float((shares * (1 - shares) / table.sum(axis=1)).sum()))
    p = max(float(stats.fisher_exact(table).pvalue), 1e-12)
    return _effect(moved, error, p, (int(before.sum()), int(after.sum())))
