"""Flame graphs: the stacks of a profile as SVG, and the difference between two of them.

Matplotlib has no such plot. A box is a function, with its callees above it; its width is its share
of the samples. Its title has the full text, which browsers show and screen readers read. The
drawing needs no script and can be searched. The same stacks give the same bytes.

The form, and the comparison by colour, are Brendan Gregg's: "The Flame Graph", CACM 59 (2016) 6.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from markupsafe import Markup

from netbisect.bisect.model.profile_stacks import Stack, Stacks, ranges, share_shifts, total
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment

_WIDTH = 900.0
"""Width of the drawing, in pixels of a page."""
_ROW = 17
_TOP = 26
"""Above the boxes, for the legend."""
_CHARACTER = 6.65
"""Width of one in 11 px of a fixed-width font."""
_LEAST = 0.7
"""Narrower boxes are not drawn."""
_LEVELS_MAX = 100
_NAME_MAX = 160
"""Characters of a name that are shown, in a title too."""
MOST_BYTES = 270_000
"""Maximum size of a drawing; the widest boxes come first."""
_MARKED = 0.003
"""Least change of a share that a box shows."""
_STRENGTHS = 5

_FORM, _ALONE = (
    environment.get_template(name).render() for name in ("flamegraph.css", "flamegraph-alone.css")
)
"""Style of every drawing, and of one that is a file of its own."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A function in one place of the stacks; shares are of all samples, 0 to 1."""

    level: int
    x: float
    width: float
    name: str
    shares: tuple[float, ...]
    """Share by profile, with callees."""
    own: tuple[float, ...]
    """Share by profile, without callees."""
    change: float = 0.0
    """Growth of the own share of this function over all its places."""


def draw(profiles: Sequence[Stacks], *, name: str, title: str, most: int = MOST_BYTES) -> Markup:
    """A profile, or the difference between two, as an `<svg>` element in the colours of its page.

    Two profiles are scaled to equal totals. The width of a box is its mean share of both, so that
    functions of either are shown. Colour and label show how the share of the function changed,
    without its callees, summed over all its places: a renamed caller changes no colour.

    Args:
        profiles: One or two, each with at least one sample; the earlier one first.
        name: Prefix of the ids in the element, unique in the page.
        title: Accessible name.
        most: Bytes that the element may have, at least some thousands.
    """
    counts = [total(profile) for profile in profiles]
    text = _description(counts)
    boxes: list[_Box] = []
    used = len(_FORM) + 6 * (len(title) + len(text)) + 1500
    for box in _boxes(profiles):
        # The widest own change is not known yet, so room is kept for the longest class and mark.
        used += len(_drawn(box, counts, 1.0, 0)) + 24
        if used > most and boxes:
            break
        boxes.append(box)
    rows = 1 + max(box.level for box in boxes)
    scale = max(abs(box.change) for box in boxes) or 1.0
    height = _TOP + rows * _ROW + 4
    drawn = "".join(
        _drawn(box, counts, scale, height - 4 - (box.level + 1) * _ROW)
        for box in sorted(boxes, key=lambda box: (box.level, box.x))
    )
    legend = (
        "▲ orange: the function's own share grew; ▼ blue: it shrank; percentage points"
        if len(profiles) > 1
        else "width: share of the samples; a function stands above its caller"
    )
    return Markup(  # noqa: S704 - its texts are escaped
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="fg" '
        f'aria-labelledby="{name}-title {name}-text" viewBox="0 0 {_WIDTH:g} {height}" '
        f'width="{_WIDTH:g}" height="{height}">\n'
        f'<title id="{name}-title">{_safe(title)}</title>\n'
        f'<desc id="{name}-text">{_safe(text)}</desc>\n'
        f"<style>\n{_FORM}</style>\n"
        f'<text x="2" y="15">{legend}</text>\n{drawn}</svg>'
    )


def document(drawing: str) -> bytes:
    """The element as a separate file, in light or dark colours as the reader prefers."""
    # As plain text: Markup of MarkupSafe before 3 escapes what it looks for.
    start, style, rest = str(drawing).partition("<style>\n")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{start}{style}{_ALONE}{rest}\n'.encode(
        "utf-8", "replace"
    )


def _boxes(profiles: Sequence[Stacks]) -> Iterator[_Box]:
    """All visible boxes, the widest first; a box follows those below it."""
    stacks = sorted({stack for profile in profiles for stack in profile})
    totals = [total(profile) for profile in profiles]
    changes = {one.function: one.change for one in share_shifts(profiles[0], profiles[-1])}
    sums = [[0, *accumulate(profile.get(one, 0) for one in stacks)] for profile in profiles]

    def shares(begin: int, end: int) -> tuple[float, ...]:
        return tuple(
            (upto[end] - upto[begin]) / whole for upto, whole in zip(sums, totals, strict=True)
        )

    def width(begin: int, end: int) -> float:
        return _WIDTH * sum(shares(begin, end)) / len(profiles)

    waiting = [(-_WIDTH, 0, 0, len(stacks))]
    while waiting:
        wide, level, begin, end = heapq.heappop(waiting)
        ends_here = level > 0 and len(stacks[begin]) == level
        yield _Box(
            level,
            width(0, begin),
            -wide,
            _name(stacks[begin], level),
            shares(begin, end),
            shares(begin, begin + 1) if ends_here else (0.0,) * len(profiles),
            changes.get(stacks[begin][level - 1], 0.0) if level else 0.0,
        )
        if level < _LEVELS_MAX:
            for first, last in ranges(stacks, begin, end, level):
                if (part := width(first, last)) >= _LEAST:
                    heapq.heappush(waiting, (-part, level + 1, first, last))


def _name(stack: Stack, level: int) -> str:
    return words.clean(stack[level - 1][: 4 * _NAME_MAX])[:_NAME_MAX] if level else "all"


def _description(counts: Sequence[int]) -> str:
    """Accessible description of the drawing."""
    seen = " and ".join(words.count(one, "sample") for one in counts)
    form = "Boxes are functions, above them those that they call; the width is the share of samples"
    if len(counts) == 1:
        return f"{seen}. {form}."
    return f"{seen}, before and after. {form}, the mean of both."


def _drawn(box: _Box, counts: Sequence[int], scale: float, y: int) -> str:
    label, kind = box.name, f"f{zlib.crc32(box.name.encode(errors='replace')) % 4}"
    if len(counts) > 1:
        strength = min(_STRENGTHS, 1 + int(_STRENGTHS * abs(box.change) / scale))
        marked = abs(box.change) >= _MARKED
        kind = f"{'h' if box.change > 0 else 'c'}{strength}" if marked else "n"
        if marked:
            label = f"{_mark(box.change)} {box.name}"
    room = int((box.width - 4) / _CHARACTER)
    if room < len(label):
        label = f"{label[: room - 1]}…" if room > 3 else ""  # noqa: PLR2004 - fewer say nothing
    text = f'<text x="{box.x + 2:.1f}" y="{y + 12}">{_safe(label)}</text>' if label else ""
    return (
        f"<g><title>{_safe(_full(box, counts))}</title>"
        f'<rect class="{kind}" x="{box.x:.1f}" y="{y}" width="{box.width:.1f}" '
        f'height="{_ROW - 1}"/>{text}</g>\n'
    )


def _mark(change: float) -> str:
    return f"{'▲' if change > 0 else '▼'}{abs(100 * change):.1f}"


def _full(box: _Box, counts: Sequence[int]) -> str:
    """The tooltip of a box."""
    if len(counts) == 1:
        samples = words.count(round(box.shares[0] * counts[0]), "sample")
        own = f", itself {100 * box.own[0]:.1f} %" if box.own[0] else ""
        return f"{box.name}: {100 * box.shares[0]:.1f} %{own}, {samples}"
    text = f"{box.name}: {100 * box.shares[0]:.1f} % before, {100 * box.shares[1]:.1f} % after"
    if any(box.own):
        text += f"; itself {100 * box.own[0]:.1f} % and {100 * box.own[1]:.1f} % here"
    if box.change:
        text += f"; {100 * box.change:+.1f} percentage points in all places"
    return text


def _safe(text: str) -> str:
    return escape(words.clean(text))
