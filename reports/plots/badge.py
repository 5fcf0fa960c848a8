"""Badges with the state of a branch or of a testbed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from xml.sax.saxutils import escape, quoteattr

from netbisect.bisect.model.detection_results import STALE_DAYS
from netbisect.reports.render import words

MEDIA_TYPE = "image/svg+xml"
_HEIGHT = 20
_PADDING = 6
_SIZE = 11
_LONGEST = 60
"""Letters on either half."""
_NARROW, _WIDE = frozenset("fijltrI.,:;!|'()[]/ -"), frozenset("mwMW@%&")


class BadgeColour(StrEnum):
    """Colours of badges; white text on them has a contrast of at least 4.5."""

    GOOD = "#217a36"
    BAD = "#b3261e"
    OLD = "#5f6368"
    BUSY = "#0b63a5"


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of a branch, on one testbed or on all."""

    drops: int
    """Open ones, neither acknowledged nor muted."""
    suspected: int
    """Changes under retest."""
    levels: int
    """Measured revisions, on the testbed with the most."""
    days: float | None
    """Since the last measurement; None if unknown."""


def state(condition: Condition) -> tuple[str, BadgeColour]:
    """Text and colour: drops first, then stale data, then running measurements.

    A branch with fewer than two kernels counts as being measured.
    """
    if condition.drops:
        return words.count(condition.drops, "drop"), BadgeColour.BAD
    if condition.levels and condition.days is not None and condition.days > STALE_DAYS:
        return "stale", BadgeColour.OLD
    if condition.suspected or condition.levels < 2:  # noqa: PLR2004 - one against another
        return "measuring", BadgeColour.BUSY
    return "ok", BadgeColour.GOOD


def badge(name: str, condition: Condition) -> str:
    """The picture, as SVG without fonts or pictures from elsewhere; named by branch or testbed."""
    text, look = state(condition)
    label = _cut(words.in_xml(name))
    left, right = _width(label), _width(text)
    whole = left + right
    title = escape(f"{label}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{_HEIGHT}" '
        f'viewBox="0 0 {whole} {_HEIGHT}" role="img" '
        f"aria-label={quoteattr(f'{label}: {text}')}>\n"
        f"<title>{title}</title>\n"
        f'<clipPath id="r"><rect width="{whole}" height="{_HEIGHT}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{_HEIGHT}" fill="#3c4043"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{look.value}"/></g>\n'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="{_SIZE}" '
        'text-anchor="middle">\n'
        f"{_half(label, left / 2, left)}{_half(text, left + right / 2, right)}"
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
    """Width of a text in Verdana with its margins, pixels."""
    letters = sum(4 if one in _NARROW else 10 if one in _WIDE else 7 for one in text)
    return letters + 2 * _PADDING
