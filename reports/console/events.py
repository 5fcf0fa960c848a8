"""Events in many series: table, text and data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from netbisect.bisect.detection.events import SeriesShift, ShiftEvent
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.types import short_hash
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table, wrap

_WIDE = 1000
"""Columns of a table: a row is a line, whatever the length of its names."""


def as_table(events: Sequence[ShiftEvent]) -> str:
    """A line for every event, with the series in which it is largest."""
    head = ("branch", "range", "kind", "largest in", "change, 95 % interval", "revisions", "score")
    rows = [(*head, "also in")]
    for event in events:
        lead = event.shifts[0]
        rows.append(
            (
                event.branch,
                _range(event),
                event.kind.value,
                f"{lead.testbed}/{lead.scenario}",
                _effect(lead),
                _images(lead),
                f"{lead.score:.1f}",
                f"{len(event.shifts) - 1} series" if len(event.shifts) > 1 else "",
            )
        )
    return table(rows, indent=0, width=_WIDE)


def full(events: Iterable[ShiftEvent]) -> str:
    """A paragraph for every event: why it is one, and every series that shows it."""
    paragraphs = []
    for event in events:
        also = f", also on {words.listing(event.also_on)}" if event.also_on else ""
        rows = [
            (f"{shift.testbed}/{shift.scenario}", _effect(shift), _own(event, shift))
            for shift in event.shifts
        ]
        paragraphs.append(
            f"{event.branch} {_range(event)}: {event.kind.value}{also}\n"
            f"{wrap(why(event), indent=2)}\n{table(rows, indent=4, width=_WIDE)}"
        )
    return "\n\n".join(paragraphs)


def as_data(events: Iterable[ShiftEvent]) -> list[dict[str, Any]]:
    """The events as JSON values; docs/detection.md lists the keys."""
    return [
        {
            "branch": event.branch,
            "also_on": list(event.also_on),
            "kind": event.kind.value,
            "before": event.before,
            "at": event.at,
            "back": event.back or None,
            "why": why(event),
            "series": [_series(shift) for shift in event.shifts],
        }
        for event in events
    ]


def _series(shift: SeriesShift) -> dict[str, Any]:
    place = ("testbed", "scenario", "before", "at")
    sides = ("images_before", "images_after", "boots_before", "boots_after")
    return {
        **{name: getattr(shift, name) for name in place},
        "back": shift.back or None,
        "percent": round(100 * math.expm1(shift.ln_ratio), 2),
        **{name: getattr(shift, name) for name in ("ln_ratio", "low", "high", "score", *sides)},
        "image_noise": shift.noise.image,
        "boot_noise": shift.noise.boot,
    }


def why(event: ShiftEvent) -> str:
    """Evidence for an event, in a few sentences."""
    members = event.shifts
    lead = members[0]
    noise = f"{100 * lead.noise.image:.1f} % between revisions"
    noise += f" and {100 * lead.noise.boot:.1f} % between values of one"
    sentences = [f"Score {lead.score:.1f} at a noise of {noise}: {_sides(lead)}."]
    back = [one for one in members if one.back]
    ends = [one for one in members if one.ends]
    if back:
        revisions = _either(one.back for one in back)
        sentences.append(
            f"With {revisions}, one revision later, the level is back{_in(back, members)}."
        )
    if ends:
        revisions = _either(one.ends for one in ends)
        sentences.append(f"It ends what came with {revisions}{_in(ends, members)}.")
    if not back and not ends and 1 in {lead.images_before, lead.images_after}:
        offset = 100 * math.expm1(2 * math.sqrt(2) * lead.noise.image)
        sentences.append(
            "One side is a single revision, whose own offset may be part of it: two equal "
            f"revisions differ by up to about {offset:.0f} %."
        )
    if len(members) > 1:
        testbeds = len({one.testbed for one in members})
        on = "one testbed" if testbeds == 1 else f"{testbeds} testbeds"
        sentences.append(f"{len(members)} series on {on} show it.")
    return " ".join(sentences)


def _sides(shift: SeriesShift) -> str:
    if shift.images_before is None:
        return (
            "the latest revisions against the best of the quarter before them, without a step that "
            "is large enough to be detected"
        )
    return f"{words.count(shift.images_before, 'revision')} before and {shift.images_after} after"


def _in(some: Sequence[SeriesShift], members: Sequence[SeriesShift]) -> str:
    return "" if len(some) == len(members) else f" in {len(some)} of {len(members)} series"


def _either(revisions: Iterable[str]) -> str:
    return " or ".join(map(short_hash, dict.fromkeys(revisions)))


def _range(event: ShiftEvent) -> str:
    return f"{short_hash(event.before)}..{short_hash(event.at)}"


def _effect(shift: SeriesShift) -> str:
    return words.change(Effect("", shift.ln_ratio, shift.low, shift.high, 0.0, 0, 0))


def _images(shift: SeriesShift) -> str:
    if shift.images_before is None:
        return ""
    return f"{shift.images_before} + {shift.images_after}"


def _own(event: ShiftEvent, shift: SeriesShift) -> str:
    """Differences from the whole event."""
    own = [f"{_images(shift)} revisions"] if shift.images_before is not None else []
    if (shift.before, shift.at) != (event.before, event.at):
        own.append(f"measured {short_hash(shift.before)}..{short_hash(shift.at)}")
    return ", ".join([*own, f"score {shift.score:.1f}"])
