"""Profiles of kernels: flame graphs, and the table of functions that grew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from netbisect.bisect.model.profile_stacks import StackShift, share_shifts
from netbisect.reports.model.profiles import ProfilePair, StoredProfile
from netbisect.reports.plots import flamegraph
from netbisect.reports.render import words
from netbisect.reports.render.words import Name

_SHOWN = 10
"""Functions in the table."""
_LEAST = 0.0005
"""Least change of a share that a table shows."""
BYTES = 120_000
"""Maximum bytes of all drawings of a page with other content."""
BYTES_ALONE = 250_000
"""Maximum bytes of all drawings of a profile page."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with title and caption."""

    title: str
    drawing: Callable[[], Markup]
    caption: str
    file: str = ""
    """File of the full graph; "" if none."""


@dataclass(frozen=True, slots=True)
class Section:
    """A comparison of profiles on a page."""

    title: str
    missing: str
    pictures: tuple[Picture, ...] = ()
    rows: tuple[tuple[str, str, str, str], ...] = ()
    """Function, its own share before, after, and the change in percentage points."""


def sections(
    found: tuple[ProfilePair, ...], label: Name, most: int = BYTES, stem: str = ""
) -> list[Section]:
    """One for each, drawings within so many bytes together.

    `stem` is the prefix of the names of `files`; "" without files.
    """
    drawings = sum(2 * len(one.taken) - 1 for one in found if one.taken)
    share = most // max(1, drawings)
    return [_section(one, label, i, share, stem) for i, one in enumerate(found)]


def files(found: tuple[ProfilePair, ...], label: Name, stem: str) -> dict[str, Callable[[], str]]:
    """The same drawings as separate files in full size; `stem` is the prefix of their names."""
    return {
        picture.file: partial(_document, picture)
        for i, one in enumerate(found)
        for picture in _pictures(one, label, i, flamegraph.MOST_BYTES, stem)
    }


def _document(picture: Picture) -> str:
    return flamegraph.document(picture.drawing()).decode()


def grown(before: StoredProfile, after: StoredProfile) -> list[StackShift]:
    """The functions whose own share grew most, for the table."""
    found = share_shifts(before.stacks, after.stacks)
    return [one for one in found if one.change >= _LEAST][:_SHOWN]


def _pictures(
    found: ProfilePair, label: Name, place: int, most: int, stem: str
) -> Iterator[Picture]:
    """The graphs of a pair at a place of the page, each in so many bytes; the difference first."""

    def picture(
        name: str, heading: str, caption: str, title: str, *profiles: StoredProfile
    ) -> Picture:
        stacks = [one.stacks for one in profiles]
        drawing = partial(
            flamegraph.draw, stacks, name=f"profile{place}-{name}", title=title, most=most
        )
        file = f"{stem}.flames-{place + 1}-{name}.svg" if stem else ""
        return Picture(heading, drawing, caption, file)

    if len(found.taken) > 1:
        title = f"What changed from {label(found.revisions[0])} to {label(found.revisions[-1])}"
        yield picture("difference", "The difference", _COMPARED, title, *found.taken)
    for name, one in zip(("before", "after"), found.taken, strict=False):
        heading = label(one.profile.revision)
        yield picture(name, heading, _caption(one), f"Flame graph of {heading}", one)


def _section(found: ProfilePair, label: Name, place: int, most: int, stem: str) -> Section:
    title = " and ".join(label(one) for one in found.revisions)
    if not found.taken:
        return Section(title, found.missing)
    pictures = tuple(_pictures(found, label, place, most, stem))
    if len(found.taken) == 1:
        return Section(title, "", pictures)
    rows = tuple(
        (words.clean(one.function), _share(one.before), _share(one.after), _points(one.change))
        for one in grown(*found.taken)
    )
    return Section(title, "", pictures, rows)


_COMPARED = (
    "Both profiles are scaled to equal totals; the width of a box is its mean share. Colour and "
    "number show the change of the function's own share, in percentage points over all its places."
)


def _caption(one: StoredProfile) -> str:
    profile = one.profile
    lost = f" ({profile.lost:,} lost)" if profile.lost else ""
    return (
        f"{profile.samples:,} samples{lost} by {words.clean(profile.event)} in "
        f"{words.duration(profile.seconds)} at {words.pps(profile.pps)}, in a boot of its own."
    )


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(change: float) -> str:
    return f"{100 * change:+.1f}".replace("-", "\N{MINUS SIGN}")
