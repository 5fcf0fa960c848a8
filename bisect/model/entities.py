"""Facts that a lab reports, and commits, levels and noise.

Units: rates in packets per second (pps), effects as ln ratios (ln bad - ln good), times in
seconds. The boot is the sampling unit: runs within a boot are correlated and do not count as
independent samples.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from netbisect.bisect.model import sample_validity


class Stage(StrEnum):
    """Stage of a failure."""

    CHECKOUT = "checkout"
    BUILD = "build"
    DEPLOY = "deploy"
    BOOT = "boot"
    BENCH = "bench"


class Reaction(StrEnum):
    """Reaction to a failure; see the table in docs/faults.md."""

    RETRY = "retry"
    """Temporary failure: repeat the trial."""
    SKIP = "skip"
    """The revision cannot be measured: a search avoids it."""
    INFRA = "infra"
    """Infrastructure failure: repeat, on another builder if possible; repeated failures
    quarantine the testbed."""
    QUARANTINE = "quarantine"
    """Quarantine the testbed until its owner releases it."""
    ABORT = "abort"
    """End the job without a result."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A built kernel. Kernels with the same identity run the same instructions."""

    revision: str
    """From a lab controller, with the layout, as in `kernel_name`."""
    config: str
    arch: str
    identity: str
    """Hash of the code, without version strings, dates and paths."""
    key: str
    """Hash of the artefact; its name in the artefact store."""
    version: str
    """Expected part of `uname -v`."""
    size: int
    """Bytes of the artefact."""
    at: float
    seconds: float
    """Duration of the build."""
    layout: int = 0
    """0 for the default link order, else the seed of another order of the sections."""


@dataclass(frozen=True, slots=True)
class Boot:
    """A successful boot of a kernel on a testbed: the sampling unit."""

    id: str
    testbed: str
    kernel: str
    """Key of the kernel."""
    revision: str
    at: float
    """Start of the reboot, worker clock."""
    seconds: float
    """From the start of the reboot until the machine answered."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that must be equal for samples to be comparable."""

    digest: str
    testbed: str
    scenario: str
    values: dict[str, str]

    @classmethod
    def of(
        cls,
        testbed: str,
        scenario: str,
        values: dict[str, str],
        seen: Mapping[str, str] | None = None,
    ) -> Conditions:
        """Conditions with the digest of their values, independent of order.

        Args:
            testbed: Where they hold.
            scenario: Scenario of the samples.
            values: By name.
            seen: What the kernel under test made of them, for reports; not part of the digest.
        """
        described = json.dumps(values, sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        return cls(digest, testbed, scenario, {**values, **dict(sorted((seen or {}).items()))})


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a scenario on one boot."""

    id: str
    boot: str
    testbed: str
    scenario: str
    pps: float
    offered_pps: float
    received: tuple[float, ...]
    """Packets per second, one value per second."""
    offered: tuple[float, ...]
    problems: tuple[str, ...]
    """Reasons why the sample is invalid; empty if it is valid."""
    conditions: str
    """Digest of its Conditions."""
    at: float
    seconds: float
    warnings: tuple[str, ...] = ()
    """What a reader should know; no reason against the sample."""

    @property
    def valid(self) -> bool:
        """Whether there are no problems and the rate is positive."""
        return not self.problems and self.pps > 0

    @property
    def saturated(self) -> bool:
        """Whether the generator limits the rate."""
        return sample_validity.saturated(self.pps, self.offered_pps)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed trial or build: this revision produced no measurement."""

    id: str
    revision: str
    stage: Stage
    reaction: Reaction
    why: str
    at: float
    seconds: float
    testbed: str = ""
    scenario: str = ""
    log: str = ""
    """End of the console or build log."""
    fault: str = ""
    """Name in the table of `bisect/model/faults.py`; "" if unknown."""
    layout: int = 0
    """Link layout of the kernel."""


Fact: TypeAlias = Kernel | Boot | Conditions | Sample | Failure


@dataclass(frozen=True, slots=True)
class Profile:
    """CPU profile of a kernel in a separate boot below saturation; not part of a series."""

    revision: str
    kernel: str
    """Key of the kernel."""
    testbed: str
    scenario: str
    event: str
    """Event of pmcstat(8); "" if the profile did not start."""
    pps: float
    """Offered packets per second."""
    samples: int
    lost: int | None
    """Lost samples; None if unknown."""
    at: float
    seconds: float
    """Duration of the profile."""
    problem: str = ""
    """Reason why there are no stacks; "" if there are."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on the first-parent line of a branch."""

    revision: str
    """Full hash; in imported histories also a number such as r311849."""
    number: int
    """Position on the first-parent line: `git rev-list --first-parent --count`."""
    subject: str
    body: str
    author: str
    email: str
    at: float
    """Commit time, seconds since the epoch."""
    paths: tuple[str, ...] = ()
    """Changed files, relative to the first parent."""
    lines: int = 0
    """Lines added and removed."""

    @property
    def label(self) -> str:
        """Display name: n302145-0a1b2c3d4e5f, n9-release-14.2.0, or r311849 from Subversion."""
        name = self.revision
        if len(name) == 40:  # noqa: PLR2004 - a hash
            name = name[:12]
        return f"n{self.number}-{name}" if self.revision[12:] else name


@dataclass(frozen=True, slots=True)
class Level:
    """All boots of one image on one testbed in one scenario: a point of a series."""

    revision: str
    identity: str
    """Identity of the kernel."""
    at: float
    """Time of its first boot, seconds since the epoch."""
    ln_pps: tuple[float, ...]
    """One value per boot; valid samples only, at least one."""
    saturated: bool = False
    """Whether the generator limited most of its boots."""

    @property
    def mean(self) -> float:
        """Mean ln pps over its boots."""
        return math.fsum(self.ln_pps) / len(self.ln_pps)


KNOWN_WEIGHT = 20.0
"""Degrees of freedom of a known noise: two modes would have been seen."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a testbed in one scenario, as standard deviations of ln pps."""

    boot: float = 0.009
    """Between boots of one image."""
    image: float = 0.0
    """Between images of equal performance; boots do not average it out."""
    run: float = 0.0
    """Between runs within one boot."""
    slow_share: float = 0.0
    """Probability of a boot in the slow mode."""
    slow_gap: float = 0.0
    """Gap between the modes, as a positive ln ratio; `boot` is the noise within a mode."""
    image_weight: float = 12.5
    """Degrees of freedom of `image`, including the prior."""
    boot_weight: float = 100.0
    """Degrees of freedom of `boot`, without a prior; 100 or more for a noise that is known."""

    @property
    def is_known(self) -> bool:
        """Whether the noise of a boot is known well enough to exclude two modes."""
        return self.boot_weight >= KNOWN_WEIGHT

    def variance_of_boot(self, runs: int = 1) -> float:
        """Variance of the mean ln pps of `runs` runs of one boot, over all modes."""
        mixed = self.slow_share * (1 - self.slow_share) * self.slow_gap**2
        return self.boot**2 + self.run**2 / runs + mixed

    def variance_of_mean(self, boots: int) -> float:
        """Variance of the mean ln pps over `boots` boots of one image."""
        return self.image**2 + self.boot**2 / boots


@dataclass(frozen=True, slots=True, order=True)
class SeriesName:
    """Names a series."""

    testbed: str
    scenario: str
    branch: str

    @property
    def title(self) -> str:
        """As people write it."""
        return f"{self.testbed}/{self.scenario}/{self.branch}"
