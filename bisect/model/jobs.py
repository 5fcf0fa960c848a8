"""Jobs of the lab: measurements, comparisons, bisections and profiles."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.results import Effect


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate commit for the change."""

    revision: str
    weight: float = 1.0
    """Prior weight, not normalised, above 0."""


@dataclass(frozen=True, slots=True)
class NightlyJob:
    """Nightly measurement of a branch on a testbed."""

    branch: str
    testbed: str
    revision: str
    scenarios: tuple[str, ...]
    boots: int


@dataclass(frozen=True, slots=True)
class CompareJob:
    """Retest: interleaved, fresh boots of two revisions."""

    branch: str
    testbed: str
    good: str
    bad: str
    scenarios: tuple[str, ...]
    lead: str
    """The deciding scenario."""
    suspected: float
    """Effect in the screen, ln ratio; not reported."""
    commits: int
    """Candidates of the search that follows, whose expected price limits the retest."""
    min_effect: float = math.log(1 / 0.98)
    """Smallest |ln ratio| worth an alert."""
    noise: Noise | None = None
    """Noise in the leading scenario; None if unknown."""
    agreed: Effect | None = None
    """Effect of the leading scenario over all images of the series, if they confirm one."""


@dataclass(frozen=True, slots=True)
class BisectJob:
    """Search for the culprit among candidate commits."""

    branch: str
    testbed: str
    good: str
    candidates: tuple[Candidate, ...]
    """Oldest first; the last is the bad end."""
    scenarios: tuple[str, ...]
    lead: str
    effect: float
    """Confirmed effect, ln ratio, negative for a drop."""
    noise: Noise
    budget_seconds: float = math.inf
    """Maximum lab time."""
    others: dict[str, Noise] = field(default_factory=dict)
    """Other testbeds of the same model, by name, with their noise. Levels differ between testbeds;
    the change and the image offsets do not."""
    layouts: int = 0
    """Maximum further layouts of a revision; used only if `noise.image` is above 0."""

    @property
    def bad(self) -> str:
        """The bad end."""
        return self.candidates[-1].revision

    @property
    def testbeds(self) -> tuple[str, ...]:
        """All testbeds, that of the job first."""
        return (self.testbed, *(name for name in self.others if name != self.testbed))

    def noise_of(self, testbed: str) -> Noise:
        """Noise of a testbed; by default that of the job."""
        return self.noise if testbed == self.testbed else self.others.get(testbed, self.noise)


@dataclass(frozen=True, slots=True)
class ProfileJob:
    """CPU profiles of revisions."""

    branch: str
    testbed: str
    revisions: tuple[str, ...]
    """A culprit's parent and the culprit, or one revision."""
    scenarios: tuple[str, ...]
    """Exactly one."""
    pps: float = 0.0
    """Packets per second to send, below the slowest revision; 0: measure the rates first."""


@dataclass(frozen=True, slots=True)
class MeasureJob:
    """Interleaved measurement of several revisions, with a fixed number of boots."""

    branch: str
    testbed: str
    revisions: tuple[str, ...]
    """Two or more; the others are compared with the first. May name a patch (`revision_key`)."""
    scenarios: tuple[str, ...]
    boots: int
    """Boots of each revision."""
    min_effect: float = math.log(1 / 0.98)
    """Smallest relevant |ln ratio|."""
    noise: dict[str, Noise] = field(default_factory=dict)
    """By scenario, if known."""
    shared_since: float = math.inf
    """Earliest time of boots shared with other measurements; infinite: none."""


Job: TypeAlias = NightlyJob | CompareJob | BisectJob | ProfileJob | MeasureJob
