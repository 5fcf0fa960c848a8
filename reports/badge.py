"""Badges: a small picture that says how a branch, or a testbed of it, is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from xml.sax.saxutils import escape, quoteattr

from netbisect.bisect.health import STALE_DAYS
from netbisect.reports import words

MEDIA_TYPE = "image/svg+xml"
_HEIGHT = 20
_PADDING = 6
_SIZE = 11
_LONGEST = 60
"""Letters on either half."""
_NARROW, _WIDE = frozenset("fijltrI.,:;!|'()[]/ -"), frozenset("mwMW@%&")


class Look(StrEnum):
    """What a badge says, by its colour; white on each of them has a contrast of 4.5 and more."""

    GOOD = "#217a36"
    BAD = "#b3261e"
    OLD = "#5f6368"
    BUSY = "#0b63a5"


@dataclass(frozen=True, slots=True)
class Condition:
    """How a branch is, on one testbed or on all."""

    drops: int
    """That stand, and that nobody has accepted or muted."""
    suspected: int
    """Changes that are being measured again."""
    levels: int
    """Of the series with the most; two stand for two and more."""
    days: float | None
    """Since something was measured last; None when nobody knows."""


def state(condition: Condition) -> tuple[str, Look]:
    """What to say: drops first, then that nobody can know, then that it is being looked at.

    A branch with fewer than two kernels has nothing to be compared with, and is being measured.
    """
    if condition.drops:
        return words.count(condition.drops, "drop"), Look.BAD
    if condition.levels and condition.days is not None and condition.days > STALE_DAYS:
        return "stale", Look.OLD
    if condition.suspected or condition.levels < 2:  # noqa: PLR2004 - one against another
        return "measuring", Look.BUSY
    return "ok", Look.GOOD


def badge(name: str, condition: Condition) -> str:
    """The picture, as SVG without fonts or pictures from elsewhere.

    Args:
        name: What it is of.
        condition: How that is.
    """
    said, look = state(condition)
    label = _cut(words.in_xml(name))
    left, right = _width(label), _width(said)
    whole = left + right
    title = escape(f"{label}: {said}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{_HEIGHT}" '
        f'viewBox="0 0 {whole} {_HEIGHT}" role="img" '
        f"aria-label={quoteattr(f'{label}: {said}')}>\n"
        f"<title>{title}</title>\n"
        f'<clipPath id="r"><rect width="{whole}" height="{_HEIGHT}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{_HEIGHT}" fill="#3c4043"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{look.value}"/></g>\n'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="{_SIZE}" '
        'text-anchor="middle">\n'
        f"{_half(label, left / 2, left)}{_half(said, left + right / 2, right)}"
        "</g>\n</svg>\n"
    )


def _half(text: str, middle: float, width: int) -> str:
    return (
        f'<text x="{middle:g}" y="14" textLength="{width - 2 * _PADDING}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>\n'
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _width(text: str) -> int:
    """Of a text in Verdana and the space round it, in pixels; the picture fits it to this."""
    letters = sum(4 if one in _NARROW else 10 if one in _WIDE else 7 for one in text)
    return letters + 2 * _PADDING
