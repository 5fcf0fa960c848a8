"""Evidence: observations, builds and failures that bear on a job, and prices of actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.marks import CommitMark, MarkVerdict


@dataclass(frozen=True, slots=True)
class Observation:
    """Measurement of one boot: ln pps by scenario, valid samples only."""

    boot: str
    revision: str
    identity: str
    """Identity of the kernel; equal identities are one image."""
    ln_pps: dict[str, float]
    fresh: bool = True
    """Measured for this job, not inherited from an earlier one."""
    runs: int = 1
    """Runs per scenario; `ln_pps` is their mean."""
    testbed: str = ""
    """Empty for the testbed of the job."""
    layout: int = 0
    """Link layout of the kernel."""
    order: str = ""
    """`why` of the trial that ordered it; empty if unknown."""


def kernel_name(revision: str, layout: int = 0) -> str:
    """Name of a kernel in evidence and builds: REVISION, or REVISION#LAYOUT."""
    return f"{revision}#{layout}" if layout else revision


def split_kernel_name(name: str) -> tuple[str, int]:
    """Revision and layout of a `kernel_name`."""
    revision, _, layout = name.partition("#")
    return revision, int(layout or 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All facts relevant to a job; the only input of decisions."""

    observations: tuple[Observation, ...] = ()
    kernels: dict[str, Kernel] = field(default_factory=dict)
    """Built kernels by `kernel_name`."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reasons of failure by `kernel_name`."""
    profiled: dict[str, str] = field(default_factory=dict)
    """By profiled revision: the failure, or "" for success."""
    marks: dict[str, CommitMark] = field(default_factory=dict)
    """By revision: what a user says about it."""

    def of(self, revision: str) -> list[Observation]:
        """Observations of the ordinary kernel of that revision, oldest first."""
        return [r for r in self.observations if r.revision == revision and not r.layout]

    def with_marks(self, marks: Iterable[CommitMark]) -> Evidence:
        """The same with marks, oldest first."""
        latest = {mark.revision: mark for mark in marks}
        skipped = {
            name: str(mark) for name, mark in latest.items() if mark.verdict is MarkVerdict.SKIP
        }
        return replace(self, marks=latest, skipped=self.skipped | skipped)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of actions, in seconds of the lab."""

    build: float = 600.0
    boot: float = 180.0
    run: float = 30.0
    relink: float | None = None
    """Cost of an additional layout; None: that of a build."""

    def of_kernel(self, layout: int) -> float:
        """Price of a kernel with this layout."""
        return self.build if not layout or self.relink is None else self.relink


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of jobs so far, including failures."""

    builds: int = 0
    boots: int = 0
    runs: int = 0
    seconds: float = 0.0
    """Time of build hosts and testbeds together."""
