"""Input of ministat(1): a number from a column of every line.

Lines are bytes, as in C: nothing depends on an encoding or a locale.
"""

from __future__ import annotations

import re

from netbisect.reports.render.ministat import POINTS_MIN

DELIMITERS = " \t"
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def read_points(
    data: bytes, name: str, *, column: int = 1, delimiters: str = DELIMITERS
) -> list[float]:
    """The numbers in a file, in its order.

    Lines that end before the column, or have a word beginning with # up to it, are skipped. `name`
    is that of the file, for messages; `column` is option -C, from 1; `delimiters` is option -d:
    each of its bytes ends a word.

    Raises:
        ValueError: a word in the column is no number, or there are fewer than three.
    """
    ends = delimiters.encode("utf-8", "surrogateescape")
    spaced = bytes.maketrans(ends, b"\0" * len(ends))
    points = []
    for count, line in enumerate(data.split(b"\n"), 1):
        words = [word for word in line.strip().translate(spaced).split(b"\0") if word]
        if len(words) < column or any(word.startswith(b"#") for word in words[:column]):
            continue
        word = words[column - 1].strip()
        if not _NUMBER.fullmatch(word):
            raise ValueError(f"Invalid data on line {count} in {name}")
        points.append(float(word))
    if len(points) < POINTS_MIN:
        raise ValueError(f"Dataset {name} must contain at least {POINTS_MIN} data points")
    return points
