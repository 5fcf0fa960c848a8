"""Builds and trials in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from netbisect.bisect.model.results import Trial


@dataclass(frozen=True, slots=True)
class InFlight:
    """Running builds and trials, and the idle testbed."""

    building: Mapping[str, float] = field(default_factory=dict)
    """By `kernel_name`: seconds until ready."""
    may_build: bool = True
    """Whether another kernel may be built; false if other testbeds need the only builder."""
    testbed: str = ""
    """The idle testbed; empty with a single testbed."""
    under_way: tuple[Trial, ...] = ()
    """Running and waiting trials of the other testbeds, oldest first."""


class Wait(Enum):
    """Marker: wait for the trials of other testbeds."""

    WAIT = "wait"


NOTHING_IN_FLIGHT = InFlight()
