"""Where kernels spend their time: flame graphs, and the table of the functions that grew."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from netbisect.bisect.stacks import Shift, shifts
from netbisect.reports import flamegraph, words
from netbisect.reports.case import Compared, Taken
from netbisect.reports.templating import environment
from netbisect.reports.words import Name

_SHOWN = 10
"""Functions in the table."""
_LEAST = 0.0005
"""Change of a share that is shown as one in a table with a digit behind the point."""
BYTES = 120_000
"""Of all drawings of a page that has other things to show as well."""
_BYTES_ALONE = 250_000
"""Of all drawings of a page of their own."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with what stands above and below it."""

    title: str
    drawing: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """What a page shows of profiles that are held against each other; everything for people."""

    title: str
    missing: str
    pictures: tuple[Picture, ...] = ()
    rows: tuple[tuple[str, str, str, str], ...] = ()
    """Function, its own share before, after, and the change in percentage points."""


def sections(found: tuple[Compared, ...], label: Name, most: int = BYTES) -> list[Section]:
    """One for each, drawings within so many bytes together.

    Args:
        found: What is shown.
        label: Names revisions.
        most: Bytes of all drawings.
    """
    drawings = sum(2 * len(one.taken) - 1 for one in found if one.taken)
    share = most // max(1, drawings)
    return [_section(one, label, f"profile{i}", share) for i, one in enumerate(found)]


def page(found: Compared, title: str, label: Name) -> str:
    """A page of its own, as HTML.

    Args:
        found: What is shown.
        title: Its heading.
        label: Names revisions.
    """
    return environment.get_template("profile.html").render(
        title=title, profiles=sections((found,), label, _BYTES_ALONE)
    )


def grown(before: Taken, after: Taken) -> list[Shift]:
    """The functions whose own share grew most, as many as are worth a table."""
    found = shifts(before.stacks, after.stacks)
    return [one for one in found if one.change >= _LEAST][:_SHOWN]


def _section(found: Compared, label: Name, name: str, most: int) -> Section:
    title = " and ".join(label(one) for one in found.revisions)
    if not found.taken:
        return Section(title, found.missing)
    pictures = [
        Picture(
            label(one.profile.revision),
            _drawn(
                flamegraph.flame(
                    one.stacks,
                    name=f"{name}-{number}",
                    title=f"Flame graph of {label(one.profile.revision)}",
                    most=most,
                )
            ),
            _caption(one),
        )
        for number, one in enumerate(found.taken)
    ]
    if len(found.taken) == 1:
        return Section(title, "", tuple(pictures))
    before, after = found.taken
    difference = Picture(
        "The difference",
        _drawn(
            flamegraph.difference(
                before.stacks,
                after.stacks,
                name=f"{name}-difference",
                title=f"What changed from {label(found.revisions[0])} "
                f"to {label(found.revisions[-1])}",
                most=most,
            )
        ),
        "Both brought to equal totals; a box is as wide as its mean share of both. Colour and "
        "number say how the share of the function itself changed, wherever it is called.",
    )
    rows = tuple(
        (words.clean(one.function), _share(one.before), _share(one.after), _points(one.change))
        for one in grown(before, after)
    )
    return Section(title, "", (difference, *pictures), rows)


def _drawn(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - our own drawing, its texts escaped


def _caption(one: Taken) -> str:
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
