"""Metrics of scenarios, and names of their series.

The series of a scenario's packets per second is named `SCENARIO`. The series of another metric is
named `SCENARIO~NAME.UNIT` if higher numbers are better, and `SCENARIO~NAME.UNIT.lower` if lower
numbers are better. A series therefore has one unit and one direction.

A level is ln of a number, with a negative sign where lower numbers are better.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

LEAST_VALUE, MOST_VALUE = 1e-30, 1e30
"""Limits of a number; the likelihoods of larger ratios overflow."""
METRIC_MARK = "~"
"""Separates the name of a scenario from a metric."""
SETTINGS_MARK = "@"
"""Separates the name of a scenario from settings: `inet4-forwarding@net.isr.maxthreads=4`, or
`inet6-forwarding@sysctl:net.inet6.ip6.redirect=1`.
"""
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}\Z")
UNIT = re.compile(r"(?:%|[A-Za-z]+(?:/[A-Za-z]+)?)\Z")

_SERIES = re.compile(r".+~([a-z][a-z0-9-]*)\.(percent|[A-Za-z]+(?:-per-[A-Za-z]+)?)(\.lower)?\Z")


@dataclass(frozen=True, slots=True)
class SeriesMetric:
    """What the numbers of a series are."""

    name: str = ""
    """Empty for packets per second."""
    unit: str = "pps"
    lower: bool = False
    """Whether lower numbers are better."""

    def level(self, number: float) -> float:
        """The level of a number above 0."""
        return -math.log(number) if self.lower else math.log(number)

    def number(self, level: float) -> float:
        """The number of a level."""
        return math.exp(-level if self.lower else level)

    def percent(self, ln_ratio: float) -> float:
        """The change of the number, in percent, by the ln ratio of the levels."""
        return 100 * math.expm1(-ln_ratio if self.lower else ln_ratio)

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """The ends of an interval of levels, in the order of the numbers."""
        return (high, low) if self.lower else (low, high)

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Direction of better numbers: higher or lower."""
        return "lower" if self.lower else "higher"

    def text(self, number: float) -> str:
        """A number with its unit."""
        places = ",.0f" if not self.name or abs(number) >= 1e5 else ".5g"  # noqa: PLR2004
        return f"{number:{places}} {self.unit}"

    def of(self, scenario: str) -> str:
        """The name of the series of this metric."""
        if not self.name:
            return scenario
        unit = self.unit.replace("%", "percent").replace("/", "-per-")
        return f"{scenario}{METRIC_MARK}{self.name}.{unit}{'.lower' if self.lower else ''}"


@lru_cache(maxsize=10_000)
def metric_of(series: str) -> SeriesMetric:
    """The metric of a series, by its name."""
    match = _SERIES.match(series)
    if match is None:
        return SeriesMetric()
    unit = match[2].replace("percent", "%").replace("-per-", "/")
    return SeriesMetric(match[1], unit, lower=bool(match[3]))


def scenario_of(series: str) -> str:
    """The name of the scenario of a series."""
    return series.rpartition(METRIC_MARK)[0] if metric_of(series).name else series


def split_settings(series: str) -> tuple[str, str]:
    """The series without settings, and the settings of its scenario, or ""."""
    base, _, settings = scenario_of(series).partition(SETTINGS_MARK)
    return metric_of(series).of(base), settings
