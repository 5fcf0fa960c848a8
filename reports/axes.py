"""Has matplotlib draw empty axes, and reads how it has drawn them.

`python -m netbisect.reports.axes > reports/pens.json` keeps that for all pictures to come.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from netbisect.reports.canvas import whole
from netbisect.reports.palette import BAD, BOOT, CULPRIT, GOOD, GRID, HEAT, INK, WIDTH
from netbisect.reports.sheet import INCH, Pen

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


def pens() -> dict[str, Pen]:
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


def as_text(found: Mapping[str, Pen]) -> str:
    """As the file has it."""
    return json.dumps({name: asdict(pen) for name, pen in found.items()}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text(pens()))
