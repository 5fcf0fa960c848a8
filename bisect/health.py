"""How a series is: how much it scatters, what it can show, and what is odd about it tonight.

And the nouns of what the watch knows of itself, which is gathered from the ledger.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.bisect import modes as two_modes
from netbisect.bisect.detect import noise_of
from netbisect.bisect.family import screened
from netbisect.bisect.model import Level, Noise
from netbisect.bisect.modes import Modes
from netbisect.bisect.screen import MIN_EFFECT
from netbisect.bisect.selfcheck import AgainstItself, Repeats, smallest_drop
from netbisect.bisect.states import AlertKind
from netbisect.bisect.trend import Slide, drift

DAYS = 90
"""Of alerts and candidates that count."""
STALE_NIGHTS = 2
"""Nights without a level after which nobody knows how a series is."""
STALE_DAYS = STALE_NIGHTS + 0.5
"""The same in days: the next night may be late."""
_LATEST = 10
"""Levels whose boots tell how many a night has."""
_NIGHTS = 5
"""Nights after which a drop that takes long is to be seen."""


@dataclass(frozen=True, slots=True)
class SeriesHealth:
    """What the levels of a series since its last change say of the series."""

    levels: int
    boots: int
    boot_noise: float | None
    """Between boots of one image in one mode, standard deviation of ln pps; None without boots."""
    image_noise: float | None
    """Between images that do the same work, standard deviation of ln pps; None with fewer than
    two levels."""
    modes: Modes | None
    """None when all boots are of one mode."""
    saturated: bool
    """The generator limits it: it can show neither a small drop nor any gain."""
    smallest_drop: float | None
    """That one night shows four times out of five, as a positive ln ratio; None when it is
    saturated or has fewer than two levels."""
    smallest_lasting_drop: float | None
    """The same, of five nights together."""
    p: float | None
    """Of the latest level, as the screen has it; None where it has none to be held against."""
    modes_changed: bool
    """The slow mode occurs more often or less often than it did."""
    drift: Slide | None
    latest: str
    """Revision of the latest level; "" when there is none."""
    latest_at: float | None
    """When something was measured last; None when nothing was."""


@dataclass(frozen=True, slots=True)
class SeriesReport:
    """A series, and how it is."""

    testbed: str
    scenario: str
    branch: str
    health: SeriesHealth
    q: float | None
    """Share of false findings if all series with so small a p tonight were taken for findings."""
    days: float | None
    """Since something was measured last; None when nothing was, or nobody knows when."""
    up_to_date: bool
    """The newest revision that is known of its branch is the one that was measured last."""
    repeats: Repeats


@dataclass(frozen=True, slots=True)
class Record:
    """What was said in the last 90 days, and what became of it."""

    drops: int
    """Alerts that were announced."""
    improvements: int
    one_sided: float
    """How surprising the two numbers are if drops and improvements are equally likely, p."""
    announced: int
    """Alerts of any kind."""
    taken_back: int
    """Of those announced: withdrawn, or called invalid."""
    candidates: int
    """Suspicions whose retest is over."""
    confirmed: int
    """Of those."""
    overlap: float | None
    """How far the suspicious series of one night are those of the last one that had any, 0 to 1;
    None with fewer than two such nights."""


@dataclass(frozen=True, slots=True)
class Health:
    """All that the watch knows of itself."""

    at: float
    series: tuple[SeriesReport, ...]
    record: Record
    halves: AgainstItself
    """Boots of one image, the first half held against the second."""
    repeats: Repeats
    """Nights that measured a kernel again, of all series."""


def of_series(
    levels: Sequence[Level], min_effect: float = MIN_EFFECT, known: Noise | None = None
) -> SeriesHealth:
    """Tells how a series is.

    Args:
        levels: Oldest first, since the last change that is known, any number.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
        known: How the series scatters, where levels before that change tell it too.
    """
    boots = sum(len(level.ln_pps) for level in levels)
    noise = (known or noise_of(levels)) if boots else None
    found = screened(levels, min_effect, known) if len(levels) > 1 else None
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
        modes=two_modes.of(noise) if noise else None,
        saturated=saturated,
        smallest_drop=one,
        smallest_lasting_drop=lasting,
        p=found.p if found else None,
        modes_changed=found is not None and found.kind is AlertKind.MODES,
        drift=drift(levels, noise) if noise else None,
        latest=levels[-1].revision if levels else "",
        latest_at=max((level.at for level in levels), default=None),
    )
