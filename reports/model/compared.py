"""Kernels or settings side by side in a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Set:
    """Measurements of one image in one scenario."""

    name: str
    """Label of the revision, or the setting."""
    pps: Sequence[float]
    """One value per boot, oldest first, in the unit of the series."""
    file: str = ""
    """Name of the file that will hold the values; without one, made of set and scenario."""


@dataclass(frozen=True, slots=True)
class ComparedScenario:
    """Sets that are compared with the first of them."""

    name: str
    """Display name, as in `on NAME`: forwarding, or pf impact on forwarding."""
    sets: Sequence[Set]
    heading: str = ""
    """Above the table; default `On NAME:`."""
    series: str = ""
    """Name of the series, for the unit; default packets per second."""
    testbed: str = ""
