"""Input of ministat(1): a number from a column of every line.

Lines are bytes, as in C: nothing depends on an encoding or a locale.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator

from netbisect.reports.render.ministat import POINTS_MIN, Variant

DELIMITERS = " \t"
_BUFFER = 1023
"""Buffer size of FreeBSD's fgets; longer lines count as several."""
_SPACE = b" \t\n\v\f\r"
_NUMBER = re.compile(
    rb"""[ \t\n\v\f\r]* [+-]? (?:
        (?P<hex>0x (?:[0-9a-f]+\.?[0-9a-f]* | \.[0-9a-f]+) (?:p[+-]?[0-9]+)?)
      | (?:[0-9]+\.?[0-9]* | \.[0-9]+) (?:e[+-]?[0-9]+)?
      | inf (?:inity)?
      | (?P<nan>nan (?:\([0-9a-z_]*\))?)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Numbers accepted by strtod."""


def read_points(
    data: bytes,
    name: str,
    *,
    column: int = 1,
    delimiters: str = DELIMITERS,
    variant: Variant = Variant.CURRENT,
) -> list[float]:
    """The numbers in a file, in its order.

    Lines that end before the column, or have a word beginning with # up to it, are skipped.

    Args:
        data: Content of the file.
        name: Name of the file, for messages.
        column: option -C, the first is 1.
        delimiters: option -d, each of its bytes ends a word.
        variant: whose reading: that of 2013 knows no carriage returns.

    Raises:
        ValueError: a word in the column is no number, or there are fewer than three.
    """
    ends = delimiters.encode("utf-8", "surrogateescape")
    spaced = bytes.maketrans(ends, b"\0" * len(ends))
    points = []
    for count, line in enumerate(_lines(data, variant), 1):
        words = [word for word in line.translate(spaced).split(b"\0") if word]
        if len(words) < column or any(word.startswith(b"#") for word in words[:column]):
            continue
        point = _number(words[column - 1])
        if point is None:
            raise ValueError(f"Invalid data on line {count} in {name}")
        points.append(point)
    if len(points) < POINTS_MIN:
        raise ValueError(f"Dataset {name} must contain at least {POINTS_MIN} data points")
    return points


def _lines(data: bytes, variant: Variant) -> Iterator[bytes]:
    for line in io.BytesIO(data):
        for start in range(0, len(line), _BUFFER):
            text = line[start : start + _BUFFER].partition(b"\0")[0]
            yield text.removesuffix(b"\n") if variant is Variant.V2013 else text.rstrip(_SPACE)


def _number(word: bytes) -> float | None:
    found = _NUMBER.fullmatch(word)
    if found is None:
        return None
    if found["nan"]:
        return math.nan
    text = word.strip(_SPACE).decode("ascii")
    if not found["hex"]:
        return float(text)
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf
