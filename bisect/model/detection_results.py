"""Results and limits of detection; imports neither NumPy nor SciPy, for the Buildbot master."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Effect, Move, Posterior

MIN_EFFECT = math.log(1 / 0.98)
"""Smallest |ln ratio| worth an alert: 2 %."""
SCREEN_ALPHA = 0.02
"""Probability of a suspicious series without a change."""
ALPHA = 0.01
"""Type I error of a sequential test over all looks, and probability to refute a true effect."""
RETEST_BOOTS = 16
"""Boots of both sides after which a retest is usually decided, for estimates."""
SCREEN_ALPHA_TWO_SIDED = 2 * SCREEN_ALPHA
"""Probability of a drop or a gain in the screen without a change."""
MINISTAT_ALPHA = 0.05
"""Type I error of ministat at 95 %."""
DAYS = 90
"""Days of alerts and candidates in the statistics."""
STALE_NIGHTS = 2
"""Nights without a level after which a series is stale."""
STALE_DAYS = STALE_NIGHTS + 0.5
"""The same in days: the next night may be late."""
GIVEN_UP_DAYS = 91
"""Days without a level after which a series counts as ended."""


@dataclass(frozen=True, slots=True)
class BootModes:
    """Two modes of the boots of a series."""

    share: Annotated[float, "Probability of a slow boot."]
    gap: Annotated[float, "Distance of the modes, positive ln ratio."]
    boot: Annotated[float, "Standard deviation within a mode, ln pps."]


@dataclass(frozen=True, slots=True)
class LevelStep:
    """A step in a history, of either sign."""

    before: str
    """Revision of the last level before it."""
    at: str
    """Revision of the first level after it."""
    ln_ratio: float
    low: float
    high: float
    """Ends of the 95 % interval, ln ratio."""
    score: float
    """The step over its standard error."""
    levels_before: int
    levels_after: int
    boots_before: int
    boots_after: int
    earliest: str
    """Start of the plausible range: `before`, or an earlier revision."""
    latest: str
    """End of the plausible range: `at`, or a later revision."""


@dataclass(frozen=True, slots=True)
class HistoryAnalysis:
    """Steps and noise of a history."""

    steps: list[LevelStep]
    """Oldest first."""
    noise: Noise


@dataclass(frozen=True, slots=True)
class DriftEstimate:
    """A drift: the latest level is below the best of the quarter before."""

    ln_ratio: float
    low: Annotated[float, "Lower end of its 95 % interval."]
    high: Annotated[float, "Upper end of its 95 % interval."]
    score: Annotated[float, "|ln ratio| in standard errors."]
    best: Annotated[str, "Last revision of the best stretch."]
    latest: Annotated[str, "Latest revision."]


@dataclass(frozen=True, slots=True)
class ScreenResult:
    """Result of the nightly screen."""

    suspicious: bool
    ln_ratio: float
    """The latest level, or levels, over the baseline."""
    good: str
    """Revision of the last level of the baseline."""
    p: float = 1.0
    """p-value, over all windows."""
    kind: AlertKind = AlertKind.DROP
    """Kind of the alert."""
    mix: Effect | None = None
    """For kind MODES: shift of the mean of all boots; without a scenario."""
    tonight: bool = False
    """Whether tonight's image itself deviates."""
    images: int = 1
    """Number of images of the baseline, without tonight's."""
    noise: Noise | None = None
    """Noise of the test."""
    agreed: Effect | None = None
    """Effect over all images, if they confirm one; without a scenario."""

    @property
    def asks(self) -> bool:
        """Whether to retest: a drop or a gain that tonight's image shows."""
        return self.tonight and (self.suspicious or self.kind is AlertKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class NightScreening:
    """Screening of all series of a night."""

    wanted: CompareJob | None
    """Retest led by the scenario with the smallest p, drops before gains; may be None."""
    mixes: tuple[tuple[str, Effect], ...]
    """Changes in the frequency of the slow mode: last revision before, and shift of the mean."""


class DifferenceVerdict(StrEnum):
    """Verdict of a difference."""

    SLOWER = "slower"
    """A relevant drop, beyond image noise."""
    FASTER = "faster"
    """A relevant gain, beyond image noise."""
    SAME = "no regression"
    """A relevant drop between these two kernels is excluded."""
    OPEN = "inconclusive"


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """Difference of two levels, or of two differences; ln ratios."""

    ln_ratio: float
    low: float
    high: float
    """Ends of the 95 % interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low * self.high > 0


@dataclass(frozen=True, slots=True)
class SplitHalfTest:
    """A/A test: first against second half of the boots of an image."""

    images: Annotated[int, "Compared images."]
    called: Annotated[int, "Images that differ by the p-value of a retest, 1 %."]
    ministat: Annotated[int, "Images that differ by ministat at 95 %; expected are 5 %."]


@dataclass(frozen=True, slots=True)
class RepeatedNight:
    """Two nights of one image: any difference is a false call."""

    ln_ratio: float
    """The second night over the first."""
    variance: float
    """Variance of that ratio, from boot noise alone."""
    screened: bool
    """Whether the second night would be suspicious, and the first was not."""
    retested: bool
    """Whether the p-value of a retest, 1 %, would call them different."""


@dataclass(frozen=True, slots=True)
class RepeatedNights:
    """False calls of repeated nights."""

    nights: Annotated[int, "Repeated nights, counted by series."]
    screened: Annotated[int, "Second nights that the screen flags; expected are 4 %."]
    retested: Annotated[int, "Pairs of nights that differ by the p-value of a retest, 1 %."]
    night_sd: Annotated[
        float | None,
        "Standard deviation between nights of one image beyond boot noise, ln pps; null without "
        "repeated nights.",
    ]


@dataclass(frozen=True, slots=True)
class SeriesHealth:
    """Health of a series, from its levels since the last change."""

    levels: int
    boots: int
    boot_noise: Annotated[
        float | None,
        "Standard deviation between boots of one image in one mode, ln pps; null without boots.",
    ]
    image_noise: Annotated[
        float | None,
        "Standard deviation between images of equal performance, ln pps; null with fewer than two "
        "levels.",
    ]
    modes: Annotated[BootModes | None, "Null with one mode."]
    saturated: Annotated[bool, "Whether the generator limits the rate."]
    smallest_drop: Annotated[
        float | None,
        "Smallest drop that one night shows with a power of 80 %, positive ln ratio; null if "
        "saturated or with fewer than two levels.",
    ]
    smallest_lasting_drop: Annotated[float | None, "The same of five nights."]
    p: Annotated[float | None, "p-value of the latest level in the screen; null without baseline."]
    modes_changed: Annotated[bool, "Whether the frequency of the slow mode changed."]
    drift: DriftEstimate | None
    latest: Annotated[str, "Revision of the latest level; empty if none."]
    latest_at: Annotated[float | None, "Its time, seconds since the epoch; null if none."]


@dataclass(frozen=True, slots=True)
class SeriesReport:
    """Health report of a series."""

    testbed: str
    scenario: str
    branch: str
    health: SeriesHealth
    q: Annotated[float | None, "False discovery rate at the p-value of this series."]
    days: Annotated[float | None, "Days since the latest measurement; null if unknown."]
    up_to_date: Annotated[bool, "Whether the newest known commit of the branch is measured."]
    nightly: Annotated[bool, "False if the last night did not measure it."]
    repeats: RepeatedNights


@dataclass(frozen=True, slots=True)
class DetectionRecord:
    """Alerts of the last 90 days and their outcome."""

    drops: Annotated[int, "Announced drops."]
    improvements: Annotated[int, "Announced improvements."]
    one_sided: Annotated[float, "p-value of the sign test of drops and improvements."]
    announced: Annotated[int, "Announced alerts of any kind."]
    taken_back: Annotated[int, "Announced alerts that were withdrawn or are invalid."]
    candidates: Annotated[int, "Suspicions with a finished retest."]
    confirmed: Annotated[int, "Confirmed candidates."]
    overlap: Annotated[
        float | None, "Mean Jaccard index of the suspicious series of consecutive nights."
    ]


@dataclass(frozen=True, slots=True)
class SearchForecast:
    """State of a search and its expected remaining cost."""

    posterior: Posterior
    move: Move
    """The next trial, or the result."""
    builds_left: float
    boots_left: float
    hours_left: float
    """With one builder and one testbed."""
