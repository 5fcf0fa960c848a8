"""Parameter types of `netbisect bisect`: durations, percentages, regular expressions."""

from __future__ import annotations

import math
import re

import click

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_WHOLE = 100.0
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")


class Duration(click.ParamType[float]):
    """Seconds, from `90s`, `20m`, `1h30m` or `2d`."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parses a duration; the unit is required."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        if _PART.sub("", text).strip() or seconds <= 0:
            self.fail(f"{text!r}: expected a time such as 90s, 20m, 1h30m or 2d", param, ctx)
        return seconds


class Percent(click.ParamType[float]):
    """Above 0 and below 100."""

    name = "percent"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parses a percentage, with or without `%`."""
        try:
            percent = float(str(value).strip().removesuffix("%"))
        except ValueError:
            percent = math.nan
        if not 0 < percent < _WHOLE:
            self.fail(f"{value!r}: expected a number above 0 and below 100", param, ctx)
        return percent


def regular_expression(_: click.Context, param: click.Parameter, value: str) -> str:
    """Option callback that validates a regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"invalid regular expression: {error}", param=param) from error
    return value
