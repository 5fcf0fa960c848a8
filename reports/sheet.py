"""Axes that matplotlib draws once, and into which the data of many pictures are put.

A site has hundreds of pictures of few kinds. Strokes, sizes of texts and where they stand about a
tick are the same in all of them: they are read from matplotlib's drawing of empty axes, and only
the places of ticks and data are computed for each picture, by `drawing.Picture`. So a picture takes
a millisecond instead of fifty, and a fifth of the bytes. What was read is in a file beside this
one, which `axes` has written: to load what draws takes longer than a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from netbisect import reports
from netbisect.reports.palette import WIDTH

PENS = "pens.json"
"""What `axes` has written."""
INCH = 72.0
"""Points."""


@dataclass(frozen=True, slots=True)
class Pen:
    """How matplotlib draws something."""

    style: str
    x: float = 0.0
    y: float = 0.0
    """Where a text stands, in points from where it belongs: a side of the axes, or its middle."""
    turned: bool = False
    """A text from bottom to top."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Empty axes; lengths are points from the upper left corner."""

    height: float
    left: float
    right: float
    top: float
    bottom: float
    second: str
    """Name of the axis on the right; "" without one."""
    pens: Mapping[str, Pen]


def sheet(height: float, margins: tuple[float, float, float, float], second: str = "") -> Sheet:
    """Empty axes of a size.

    Args:
        height: In inches.
        margins: As `canvas.draw` takes them.
        second: Name of the axis on the right; "" for none.
    """
    left, bottom, right, top = (margin * INCH for margin in margins)
    return Sheet(
        height=height * INCH,
        left=left,
        right=WIDTH * INCH - right,
        top=top,
        bottom=height * INCH - bottom,
        second=second,
        pens=_pens(),
    )


@cache
def _pens() -> Mapping[str, Pen]:
    """By name: how matplotlib draws it."""
    told = json.loads(resources.files(reports).joinpath(PENS).read_text())
    return {name: Pen(**pen) for name, pen in told.items()}
