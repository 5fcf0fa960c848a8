"""How the options of `netbisect bisect` are read: times, percentages, expressions."""

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
        """Reads it; a number without a unit is refused, for nobody would know which it is."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        if _PART.sub("", text).strip() or seconds <= 0:
            self.fail(f"{text!r}: a time such as 90s, 20m, 1h30m or 2d expected", param, ctx)
        return seconds


class Percent(click.ParamType[float]):
    """Above 0 and below 100."""

    name = "percent"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Reads it, with or without the sign."""
        try:
            percent = float(str(value).strip().removesuffix("%"))
        except ValueError:
            percent = math.nan
        if not 0 < percent < _WHOLE:
            self.fail(f"{value!r}: a number above 0 and below 100 expected", param, ctx)
        return percent


def expression(_: click.Context, param: click.Parameter, value: str) -> str:
    """Lets a regular expression through, for an option's callback."""
    try:
        re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"no regular expression: {error}", param=param) from error
    return value
