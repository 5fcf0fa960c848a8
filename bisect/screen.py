"""Is tonight's level off its baseline, so that a retest is worth its boots?

What is found here only asks for a retest. The yardstick is the spread from image to image, for
within a night boots of one image agree far better than two harmless revisions do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import special

from netbisect.bisect import modes as two_modes
from netbisect.bisect.model import Effect, Level, Noise
from netbisect.bisect.modes import Modes
from netbisect.bisect.robust import locations
from netbisect.bisect.segments import (
    IMAGE_WEIGHT,
    Floats,
    Segmentation,
    boots_of,
    by_image,
    merge,
    segment_boots,
    weighted,
)
from netbisect.bisect.states import AlertKind

MIN_EFFECT = math.log(1 / 0.98)
"""Smallest |ln ratio| worth an alert: 2 %."""
CHANCE = 0.02
"""That a series is called suspicious tonight without a change, for normal noise."""

WINDOWS = {1: 0.5, 2: 0.2, 3: 0.15, 5: 0.1, 8: 0.05}
"""How many of the latest images are held against those before, as a small drop takes longer;
and which share of the chance of an error each has, of those that there are (Bonferroni)."""
LEAST_SHARE = 0.75
"""Of `min_effect`, that must be seen: a drop of just `min_effect` looks smaller every other
time."""
SCREEN_SD = 0.015
"""Image noise that a screen expects until a baseline shows its own."""
_SETTLED = 7
"""Images after a drop in the history before they are the new baseline."""
_BASELINE = 40
"""Images of the baseline that count, the latest ones."""
_MEMORY = 120
"""Images in which the beginning of the baseline is looked for."""
_WINSORISED = 3.0
"""Standard deviations from the middle of the baseline beyond which an image counts no further."""
_MIX_CHANCE = 0.001
"""As CHANCE, for how often the slow mode occurs."""
MIX_IMAGES = 3
"""Latest images whose slow boots are counted."""


REACH = float(special.ndtri(0.975))
"""Standard errors from an estimate to the ends of its 95 % interval."""
_GOODS = 6
"""Latest images of the baseline among which a good end is looked for."""
_OFF = 0.5
"""Share of the change that an image must show to be a suspect itself."""


class Learn(Enum):
    """Says that modes are to be learned."""

    LEARN = "learn"


LEARN = Learn.LEARN


@dataclass(frozen=True, slots=True)
class Screen:
    """How tonight compares with its baseline."""

    suspicious: bool
    ln_ratio: float
    """The latest level, or levels, over the baseline."""
    threshold: float
    """Smallest change that is called suspicious, as a positive ln ratio."""
    score: float
    """The drop over the threshold, negative for a gain; suspicious from 1."""
    baseline: float
    """Level of the baseline, ln pps."""
    good: str
    """Revision of the last level that belongs to the baseline."""
    p: float = 1.0
    """Chance of so large a drop without a change, for normal noise and over all windows."""
    suspects: tuple[str, ...] = ()
    """Revisions of the latest levels that are off, the newest first."""
    goods: tuple[str, ...] = ()
    """Revisions of the baseline that lie nearest to its level, of the latest ones."""
    kind: AlertKind = AlertKind.DROP
    """What it would be."""
    mix: Effect | None = None
    """Where the kind is MODES: how that moves the mean of all boots; of no scenario yet."""
    tonight: bool = False
    """Tonight's image is off itself, not only those before it."""
    images: int = 1
    """Since the baseline begins, without tonight's."""
    noise: Noise | None = None
    """With which it was judged."""

    @property
    def asks(self) -> bool:
        """Whether it is worth a retest: a drop, or a gain, that tonight's image shows too."""
        return self.tonight and (self.suspicious or self.kind is AlertKind.IMPROVEMENT)


def screen(
    history: Sequence[Level],
    tonight: Level,
    min_effect: float = MIN_EFFECT,
    *,
    chance: float = CHANCE,
    modes: Modes | Learn | None = LEARN,
    image_sd: float = SCREEN_SD,
) -> Screen:
    """Tells whether tonight is lower than its baseline, so that a retest is worth its boots.

    The baseline is what follows the last step of the history. A drop must stand for 7 images
    before it becomes the new baseline; until then it stays suspicious. The latest 1, 2, 3, 5
    and 8 images are held against the rest by a t-statistic whose yardstick is the spread from
    image to image, from a prior of 1.5 % on 4 degrees of freedom and from the history, besides
    the spread between boots. Boots of a slow mode that the history knows are no drop.

    Args:
        history: Oldest first, at least one level; since the last change that is known.
        tonight: The level in question.
        min_effect: Smallest drop worth an alert, as a positive ln ratio.
        chance: Of a suspicion without a change.
        modes: Of the boots, if they are known; learned from the history otherwise.
        image_sd: Image noise to expect, if more is known than this history shows.

    Returns:
        The window with the least p; of a gain or of a change in how often the slow mode occurs
        when there is one and no drop is suspicious.

    Raises:
        ValueError: The history is empty.
    """
    if not history:
        raise ValueError("a screen takes at least one earlier level, found none")
    images = by_image([*history, tonight])[-_MEMORY:]
    merged = [merge(group) for group in images]
    boots = boots_of(merged)
    before = boots[:-1] if len(boots) > 1 else boots
    known = two_modes.learn(before) if isinstance(modes, Learn) else modes
    past = segment_boots(before, known, image_sd)
    y, variance = levels_of(boots, past.noise)
    if len(images) == 1:
        return _unchanged(history, tonight, past.noise)
    start = max(_start(past), len(y) - 1 - _BASELINE)
    windows = [window for window in WINDOWS if window < len(y) - start]
    whole = sum(WINDOWS[window] for window in windows)
    held = [
        _hold(y[start:], variance[start:], window, chance, min_effect, WINDOWS[window] / whole)
        for window in windows
    ]
    best = min(held, key=lambda one: one.p)
    if not best.suspicious and (gains := [one for one in held if one.gained]):
        best = min(gains, key=lambda one: one.p_gain)
    found = _tell(best, images[start:], y[start:])
    found = replace(found, images=len(y) - start - 1, noise=past.noise)
    if _saturated(merged[start:]):
        return replace(found, suspicious=False, score=min(found.score, 0.0), kind=AlertKind.DROP)
    if not found.suspicious and known is not None:
        mix = _mix_changed(boots[start:], y[start:], known)
        if mix is not None and mix.p < _MIX_CHANCE:
            score = _MIX_CHANCE / mix.p
            return replace(
                found, suspicious=True, kind=AlertKind.MODES, p=mix.p, score=score, mix=mix
            )
    return found


@dataclass(frozen=True, slots=True)
class _Held:
    """The latest `window` images against those before."""

    window: int
    before: float
    ln_ratio: float
    threshold: float
    p: float
    p_gain: float
    suspicious: bool
    gained: bool


def levels_of(boots: Floats, noise: Noise) -> tuple[Floats, Floats]:
    """Finds the levels of images, ln pps, and their variance about that of their stretch.

    Args:
        boots: ln pps, a row per image; NaN where one had fewer boots than others.
        noise: Of the series, with its modes.
    """
    modes = two_modes.of(noise)
    y = two_modes.levels(boots, modes) if modes else locations(boots, noise.boot)
    count = (~np.isnan(boots)).sum(axis=1)
    return y, noise.image**2 + noise.boot**2 / count


def _unchanged(history: Sequence[Level], tonight: Level, noise: Noise) -> Screen:
    """Tonight's kernel is the one of all nights before: it cannot be slower than itself."""
    (baseline, level), _ = levels_of(boots_of([merge(history), tonight]), noise)
    ratio = float(level - baseline)
    good = history[-1].revision
    return Screen(False, ratio, math.inf, 0.0, float(baseline), good, noise=noise)


def _start(past: Segmentation) -> int:
    """Index of the first level of the baseline.

    An excursion that went back to where it came from before it settled belongs to it, and one
    image alone begins none.
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


def _hold(
    y: Floats, variance: Floats, window: int, chance: float, min_effect: float, share: float
) -> _Held:
    """Holds the latest `window` images against those before, by a moderated t-test.

    What is known of the spread counts as much as 4 images (G. K. Smyth, Statistical Applications
    in Genetics and Molecular Biology 3, 2004).
    """
    past, spread = y[:-window], variance[:-window]
    middle = float(np.median(past))
    reach = _WINSORISED * np.sqrt(spread)
    before, uncertain = weighted(np.clip(past, middle - reach, middle + reach), spread)
    after, scatter = weighted(y[-window:], variance[-window:])
    freedom = IMAGE_WEIGHT + len(past) - 1
    error = math.sqrt(uncertain + scatter)
    ratio = after - before
    p = min(1.0, float(special.stdtr(freedom, ratio / error)) / share)
    gain = min(1.0, float(special.stdtr(freedom, -ratio / error)) / share)
    quantile = float(special.stdtrit(freedom, 1 - share * chance))
    threshold = max(quantile * error, LEAST_SHARE * min_effect)
    return _Held(window, before, ratio, threshold, p, gain, -ratio >= threshold, ratio >= threshold)


def _tell(held: _Held, images: Sequence[Sequence[Level]], y: Floats) -> Screen:
    """In terms of revisions: which may be the good end, which the bad one.

    Of several revisions with one image the last one is the good end, and the first one the bad.
    """
    past = y[: -held.window]
    apart = np.abs(past - held.before)
    changed = held.suspicious or held.gained
    # An odd image at the end of the baseline would make a poor good end.
    near = np.flatnonzero(changed & (apart < abs(held.ln_ratio) / 2))
    recent = sorted(range(max(len(past) - _GOODS, 0), len(past)), key=lambda i: float(apart[i]))
    moved = math.copysign(1.0, held.ln_ratio) * (y - held.before)
    off = [i for i in range(len(past), len(y)) if changed and moved[i] > _OFF * abs(held.ln_ratio)]
    return Screen(
        suspicious=held.suspicious,
        ln_ratio=held.ln_ratio,
        threshold=held.threshold,
        score=-held.ln_ratio / held.threshold,
        baseline=held.before,
        good=images[near[-1] if len(near) else len(past) - 1][-1].revision,
        p=held.p_gain if held.gained else held.p,
        suspects=tuple(images[i][0].revision for i in reversed(off)),
        goods=tuple(images[i][-1].revision for i in recent),
        kind=AlertKind.IMPROVEMENT if held.gained else AlertKind.DROP,
        tonight=len(y) - 1 in off,
    )


def _saturated(images: Sequence[Level]) -> bool:
    """The generator limits both sides: nothing can be said of the router."""
    before = [level.saturated for level in images[:-1]]
    return images[-1].saturated and 2 * sum(before) > len(before)


def _mix_changed(boots: Floats, y: Floats, modes: Modes) -> Effect | None:
    """How the share of slow boots moves the mean of all boots; p by Fisher's exact test."""
    if len(y) <= MIX_IMAGES:
        return None
    from scipy import stats  # noqa: PLC0415 - long to load, and few series have modes

    slow = two_modes.slow_ones(boots, y, modes).sum(axis=1)
    fast = (~np.isnan(boots)).sum(axis=1) - slow
    counts = np.array([slow, fast])
    before, after = counts[:, :-MIX_IMAGES].sum(axis=1), counts[:, -MIX_IMAGES:].sum(axis=1)
    table = np.array([before, after])
    shares = table[:, 0] / table.sum(axis=1)
    moved = -modes.gap * float(shares[1] - shares[0])
    error = modes.gap * math.sqrt(float((shares * (1 - shares) / table.sum(axis=1)).sum()))
    return Effect(
        scenario="",
        ln_ratio=moved,
        low=moved - REACH * error,
        high=moved + REACH * error,
        p=max(float(stats.fisher_exact(table).pvalue), 1e-12),
        good_boots=int(table[0].sum()),
        bad_boots=int(table[1].sum()),
    )
