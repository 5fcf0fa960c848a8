"""Colours, sizes and units of all plots."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.bisect.model.metric import metric_of
from netbisect.reports.render import words

INK, GRID, BOOT, GOOD, BAD, CULPRIT, HEAT = (
    "#1b1b1f",
    "#d5d5dc",
    "#5b6b7b",
    "#0072b2",
    "#d55e00",
    "#a0307d",
    "#006d5b",
)
"""Meanings of colours; pages have other values for dark mode. Readers with colour blindness can
distinguish them, and shapes, dashes or words repeat each meaning."""

VARIABLES = {
    INK: "--ink",
    GRID: "--grid",
    BOOT: "--boot",
    GOOD: "--good",
    BAD: "--bad",
    CULPRIT: "--culprit",
    HEAT: "--heat",
}
"""CSS variable of each colour."""
WIDTH = 8.0
"""Inches."""


def unit(rates: Sequence[float], series: str = "") -> tuple[str, float]:
    """The unit that suits the largest of these numbers, and by how much to divide them."""
    own = metric_of(series).unit
    if own != "pps":
        return words.scaled(max(rates), own)
    name = words.pps(max(rates)).split()[1]
    return name, {"pps": 1.0, "kpps": 1e3, "Mpps": 1e6}[name]
