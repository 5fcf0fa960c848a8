"""Moves of a job: the next trial, or the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from netbisect.bisect.model.metric import metric_of


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior probabilities of a search; they sum to 1."""

    chances: Annotated[dict[str, float], "By revision: that it is the only culprit."]
    none: Annotated[float, "No change."]
    two: Annotated[float, "Two steps of either sign."] = 0.0
    drift: Annotated[float, "A gradual change without a culprit."] = 0.0

    @property
    def bits(self) -> float:
        """Entropy in bits."""
        probabilities = (*self.chances.values(), self.none, self.two, self.drift)
        return -math.fsum(p * math.log2(p) for p in probabilities if p > 0)

    def credible(self, mass: float = 0.9) -> list[str]:
        """Smallest set of revisions with probability `mass`, most likely first."""
        chosen: list[str] = []
        total = 0.0
        for revision, chance in sorted(self.chances.items(), key=lambda item: -item[1]):
            if total >= mass:
                break
            chosen.append(revision)
            total += chance
        return chosen


@dataclass(frozen=True, slots=True)
class Trial:
    """The next trial: build if needed, boot once, run every scenario."""

    revision: str
    why: str
    posterior: Posterior | None = None
    runs: int = 1
    """Runs per scenario within the boot."""
    testbed: str = ""
    """Empty for the testbed of the job."""
    layout: int = 0
    """Link layout of the kernel."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference with its interval; ln ratio of bad over good."""

    scenario: str
    ln_ratio: float
    low: float
    high: float
    p: float
    good_boots: int
    bad_boots: int

    @property
    def percent(self) -> float:
        """Change of the number, in percent of the good side."""
        return metric_of(self.scenario).percent(self.ln_ratio)


@dataclass(frozen=True, slots=True)
class NightlyResult:
    """The nightly job is complete."""

    boots: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The retest confirmed the change."""

    effects: tuple[Effect, ...]
    """The leading scenario first."""


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """The retest did not confirm the change."""

    effects: tuple[Effect, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Culprit:
    """A commit verified against its parent by fresh, interleaved boots."""

    revision: str
    parent: str
    posterior: Posterior
    effects: tuple[Effect, ...]
    """Effects measured by the verification; the leading scenario first."""
    chance: float = 0.0
    """Probability of a step at this commit, alone or as one of two."""


@dataclass(frozen=True, slots=True)
class SeveralCulprits:
    """Several culprits, each verified against its parent."""

    culprits: tuple[Culprit, ...]
    """Largest effect first; signs may differ."""
    posterior: Posterior


@dataclass(frozen=True, slots=True)
class Drift:
    """A gradual change without a culprit."""

    posterior: Posterior
    why: str


@dataclass(frozen=True, slots=True)
class Suspects:
    """Commits that cannot be separated, because of failures or image noise."""

    revisions: tuple[str, ...]
    posterior: Posterior
    why: str


@dataclass(frozen=True, slots=True)
class NotReproduced:
    """No change within the range."""

    posterior: Posterior
    why: str


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """All profiles are complete."""

    revisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RevisionComparison:
    """Comparison of a revision with the first one of a measurement."""

    revision: str
    effects: tuple[Effect, ...]
    """By scenario with two boots on both sides; empty if `why` is set."""
    why: str = ""
    """Reason without effects: not measurable, or the same kernel."""
    same: bool = False
    """Whether it builds the same kernel as the first one."""


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """A series with settings compared with that without, on one kernel."""

    revision: str
    effect: Effect
    """Its scenario is the series with settings."""


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """The measurement is complete."""

    held: tuple[RevisionComparison, ...]
    """All revisions but the first, in the order of the job."""
    settings: tuple[SettingEffect, ...] = ()
    """By revision and series with settings."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The job ended without a result."""

    why: str
    posterior: Posterior | None = None


Result: TypeAlias = (
    NightlyResult
    | Confirmed
    | NotConfirmed
    | Culprit
    | SeveralCulprits
    | Suspects
    | Drift
    | NotReproduced
    | ProfileResult
    | MeasureResult
    | Unfinished
)
Move: TypeAlias = Trial | Result


def culprits_of(result: Result | None) -> tuple[Culprit, ...]:
    """The verified commits of a search, the largest effect first."""
    if isinstance(result, SeveralCulprits):
        return result.culprits
    return (result,) if isinstance(result, Culprit) else ()
