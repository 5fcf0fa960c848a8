"""Axes that matplotlib draws once, and into which the data of many pictures are put.

A site has hundreds of pictures of few kinds. Strokes, sizes of texts and where they stand about a
tick are the same in all of them: they are read from matplotlib's drawing of empty axes, and only
the places of ticks and data are computed for each picture, by `drawing.Picture`. So a picture takes
a millisecond instead of fifty, and a fifth of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from netbisect.reports.canvas import (
    BAD,
    BOOT,
    CULPRIT,
    GOOD,
    GRID,
    HEAT,
    INK,
    WIDTH,
    whole,
)

INCH = 72.0
"""Points."""
_DRAWN = 2.0, (1.0, 0.5, 1.0, 0.5)
"""Height and margins of the axes that matplotlib draws, inches."""
_WIDEST = {"left": "00.000", "right": "\u221200.0", "bottom": "n000000"}
"""Numbers beside the axes as wide as they may be: their names stand beyond them."""
_MIDDLE = 0.5
"""Where the one tick of empty axes is, as a share of them."""
_STROKES: Mapping[str, Mapping[str, Any]] = {
    "grid": {"color": GRID, "linewidth": 0.6},
    "edge": {"color": INK, "linewidth": 0.8, "solid_capstyle": "projecting"},
    "dots": {"color": BOOT, "linewidth": 2.4, "solid_capstyle": "round", "alpha": 0.75},
    "large dots": {"color": BOOT, "linewidth": 4.0, "solid_capstyle": "round", "alpha": 0.75},
    "fast dots": {"color": GOOD, "linewidth": 3.6, "solid_capstyle": "round", "alpha": 0.8},
    "slow dots": {"color": BAD, "linewidth": 3.6, "solid_capstyle": "projecting", "alpha": 0.8},
    "fast median": {"color": GOOD, "linewidth": 2.2, "solid_capstyle": "butt"},
    "slow median": {"color": BAD, "linewidth": 2.2, "solid_capstyle": "butt"},
    "box": {"color": INK, "linewidth": 1.0},
    "means": {"color": INK, "linewidth": 1.3, "solid_capstyle": "butt"},
    "bars": {"color": BOOT, "linewidth": 1.0, "solid_capstyle": "round", "alpha": 0.8},
    "stretches": {"color": INK, "linewidth": 1.4, "solid_capstyle": "butt"},
    "baseline": {"color": GOOD, "linewidth": 1.0, "linestyle": "--"},
    "wanting": {"color": BAD, "linewidth": 1.0, "linestyle": "-."},
    "settled": {"color": BAD, "linewidth": 1.0, "linestyle": ":"},
    "culprit": {"color": CULPRIT, "linewidth": 1.2},
    "epoch": {"color": INK, "linewidth": 0.8, "linestyle": ":"},
}
"""By name: how data can be drawn."""
_FILLS: Mapping[str, Mapping[str, Any]] = {
    "band": {"color": GRID, "alpha": 0.5, "linewidth": 0},
    "cells": {"color": HEAT, "linewidth": 0},
}
_INKS: Mapping[str, tuple[str, str]] = {
    "ink name": (INK, "center"),
    "bad name": (BAD, "center"),
    "culprit name": (CULPRIT, "center"),
    "good name, left": (GOOD, "right"),
    "bad name, right": (BAD, "left"),
}
"""By name: the colour of a text above the axes, and which of its ends stands at its place."""


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
    height, margins = _DRAWN
    left, bottom, right, top = (margin * INCH for margin in margins)
    text = whole(_paint, height, margins, name="sheet")
    drawn = {one.get("id", ""): one for one in ET.fromstring(text).iter()}  # noqa: S314 - our own drawing
    middle = (top + height * INCH - bottom) / 2
    above = left + _MIDDLE * (WIDTH * INCH - left - right), top
    places = {
        "left": (left, middle),
        "unit": (left, middle),
        "right": (WIDTH * INCH - right, middle),
        "second": (WIDTH * INCH - right, middle),
        "bottom": (above[0], height * INCH - bottom),
        **dict.fromkeys(_INKS, above),
    }
    strokes = dict.fromkeys([*_STROKES, *_FILLS], (0.0, 0.0))
    return {
        name: _pen(drawn[f"sheet-{name}"][0], place) for name, place in (strokes | places).items()
    }


def _paint(axes: Axes) -> None:
    """Everything that a picture may have, once."""
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    second = axes.secondary_yaxis("right").yaxis
    sides = [("left", "unit", axes.yaxis), ("bottom", "", axes.xaxis), ("right", "second", second)]
    for label, name, axis in sides:
        axis.set_major_locator(FixedLocator([_MIDDLE]))
        axis.set_ticklabels([_WIDEST[label]])
        axis.get_ticklabels()[0].set_gid(label)
        if name:
            axis.set_label_text(name).set_gid(name)
    for name, how in _STROKES.items():
        axes.plot([0, 1], [0, 1], gid=name, **how)
    for name, how in _FILLS.items():
        axes.axhspan(0, 1, gid=name, **how)
    for name, (colour, end) in _INKS.items():
        axes.annotate(
            "name",
            (_MIDDLE, 1),
            (0, 2),
            textcoords="offset points",
            color=colour,
            fontsize=8,
            ha=end,
            gid=name,
        )


def _pen(one: ET.Element, place: tuple[float, float]) -> Pen:
    x, y = float(one.get("x", place[0])), float(one.get("y", place[1]))
    turned = "rotate(-90" in one.get("transform", "")
    return Pen(one.get("style", ""), x - place[0], y - place[1], turned)
