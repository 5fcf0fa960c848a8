"""Parameter types of `netbisect bisect`: durations, percentages, regular expressions."""

from __future__ import annotations

import math
import re

import click

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_WHOLE = 100.0
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")


def duration(text: str) -> float:
    """Seconds, from `90s`, `20m`, `1h30m` or `2d`; the unit is required."""
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if _PART.sub("", text).strip() or seconds <= 0:
        raise click.BadParameter(f"{text!r}: expected a time such as 90s, 20m, 1h30m or 2d")
    return seconds


def percent(text: str) -> float:
    """A percentage above 0 and below 100, with or without `%`."""
    try:
        number = float(str(text).strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < _WHOLE:
        raise click.BadParameter(f"{text!r}: expected a number above 0 and below 100")
    return number


def regex(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"invalid regular expression: {error}") from error
    return text
