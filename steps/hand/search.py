"""What a search by hand asks of the engine; pure, so that a log alone repeats it.

What the engine calls a kernel is a tree of files that is checked out and set up: commits with one
tree are measured as one. A boot is a visit to it, one run of the user's command; where a set-up
takes much longer than a run, a visit may have several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import TypeAlias

from netbisect.bisect.meanwhile import Meanwhile
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Boot,
    Candidate,
    Comparison,
    Confirmed,
    Dud,
    Evidence,
    Fact,
    Finding,
    Kernel,
    Move,
    Noise,
    Prices,
    Question,
    Reaction,
    Reading,
    Sample,
    Visit,
    kernel_name,
)

METRIC = "number"
"""The engine's name of what the command prints."""
_NOISE, _NOISE_WEIGHT = 0.009, 2
"""Scatter of a run that is expected until the ends have shown theirs, as a standard deviation of
ln, and how many degrees of freedom that is worth."""
_GIVEN_WEIGHT = 8
"""The same for a scatter that the user knows."""
_LONG_SETUP = 4.0
"""Runs that a set-up lasts from which on several runs of one visit are cheaper than more visits."""
_VISIT_SHARE = 0.1
"""Of the variance of a run, what all runs of one visit share: the state of the machine by then."""
_IMAGE_SHARE, _IMAGE_MOST = 0.1, 0.005
"""Revisions that do the same work differ a little, by alignment for one: by a tenth of the effect,
and by no more than half a percent."""
_IMAGE_SHUFFLED, _IMAGE_WEIGHT = 0.01, 4.0
"""The same, and the degrees of freedom that it counts for, where layouts can be asked for: who
offers them has seen more than that."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A commit that may have made the change."""

    revision: str
    subject: str
    weight: float


@dataclass(frozen=True, slots=True)
class Overlay:
    """A patch that is put on top of revisions that lack it."""

    name: str
    """Of its file, without the folder."""
    digest: str
    """SHA-256 of its content."""
    first: str = ""
    """First revision that it is for; from the good end on when empty."""
    last: str = ""
    """Last revision that it is for; to the bad end when empty."""

    def __str__(self) -> str:
        """Short, for people."""
        stretch = f" for {self.first[:12]}..{self.last[:12]}" if self.first else ""
        return f"{self.name} ({self.digest[:12]}){stretch}"


@dataclass(frozen=True, slots=True)
class Search:
    """What was asked, and the line of commits it is asked of."""

    good: str
    bad: str
    command: tuple[str, ...]
    line: tuple[Spot, ...]
    """Oldest first, each with a tree of its own; the last one has the tree of `bad`."""
    commits: int
    """From good, which is left out, to bad."""
    good_subject: str = ""
    metric: str = ""
    """Regular expression; the last number when empty."""
    direction: str = "higher"
    """Which numbers are better, `higher` or `lower`."""
    min_effect: float = 2.0
    """Percent."""
    effect: float | None = None
    """Percent; what the ends show when None."""
    setup: str = ""
    noise: float | None = None
    """Percent."""
    paths: tuple[str, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    duts: int = 1
    """Devices that are measured on at once, each with a level of its own."""
    layouts: int = 0
    """Further layouts of a revision that the set-up can make."""
    image_noise: float | None = None
    """Percent: how revisions that do the same work differ."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the devices; a single one has none."""
        if self.duts == 1:
            return ("",)
        return tuple(str(number) for number in range(1, self.duts + 1))

    @property
    def sign(self) -> int:
        """From ln of the number to the engine's ln pps, of which more is better."""
        return -1 if self.direction == "lower" else 1

    def drop(self, percent: float) -> float:
        """A change for the worse as the engine counts it, a positive ln ratio."""
        return self.sign * -math.log1p(-self.sign * percent / 100)

    @property
    def subjects(self) -> dict[str, str]:
        """By revision."""
        return {self.good: self.good_subject} | {one.revision: one.subject for one in self.line}

    def is_for(self, overlay: Overlay, revision: str) -> bool:
        """Whether a patch is meant for a revision of the line."""
        order = [self.good, *(one.revision for one in self.line)]
        first, last = overlay.first or order[0], overlay.last or order[-1]
        return order.index(first) <= order.index(revision) <= order.index(last)


Entry: TypeAlias = Search | Question | Move | Fact


# ------------------------------------------------------------------------------- the questions


def last_question(entries: Sequence[Entry]) -> Question | None:
    """What the engine was asked last."""
    return next((entry for entry in reversed(entries) if isinstance(entry, Question)), None)


def first_question(search: Search) -> Comparison:
    """Is the bad end worse at all?"""
    return Comparison(
        branch="",
        testbed=search.names[0],
        good=search.good,
        bad=search.line[-1].revision,
        scenarios=(METRIC,),
        lead=METRIC,
        suspected=-search.drop(search.effect or search.min_effect),
        min_effect=search.drop(search.min_effect),
    )


def next_question(search: Search, finding: Finding, entries: Sequence[Entry]) -> Bisection | None:
    """Which commit did it? Asked when the ends were found to differ; None at the end.

    Args:
        search: What was asked.
        finding: The answer to the last question.
        entries: The log up to it.
    """
    if not isinstance(finding, Confirmed):
        return None
    effect = finding.effects[0].ln_ratio
    if search.effect is not None:
        effect = -search.drop(search.effect)
    return which(search, effect, entries)


def which(search: Search, effect: float, entries: Sequence[Entry]) -> Bisection:
    """Which commit made an effect, as an ln ratio that is negative for the worse?"""
    noise = _noise(search, effect, entries)
    return Bisection(
        branch="",
        testbed=search.names[0],
        good=search.good,
        candidates=tuple(Candidate(one.revision, one.weight) for one in search.line),
        scenarios=(METRIC,),
        lead=METRIC,
        effect=effect,
        noise=noise,
        others=dict.fromkeys(search.names[1:], noise),
        layouts=search.layouts,
    )


def _noise(search: Search, effect: float, entries: Sequence[Entry]) -> Noise:
    """How visits scatter. The engine wants several runs of one only if they scatter by themselves.

    That saves set-ups. Where these are short, single runs are better: each is answered by a
    decision.
    """
    scatter, known = _scatter(search, entries), prices(search, entries)
    noise = _image_noise(search, effect)
    if search.setup and known.build > _LONG_SETUP * known.run:
        share = _VISIT_SHARE
        boot, run = math.sqrt(share) * scatter, math.sqrt(1 - share) * scatter
        return replace(noise, boot=boot, run=run)
    return replace(noise, boot=scatter)


def _image_noise(search: Search, effect: float) -> Noise:
    """How revisions differ that do the same work."""
    if search.image_noise is not None:
        return Noise(image=search.image_noise / 100)
    if search.layouts:
        return Noise(image=_IMAGE_SHUFFLED, image_weight=_IMAGE_WEIGHT)
    return Noise(image=min(_IMAGE_MOST, _IMAGE_SHARE * abs(effect)))


def _scatter(search: Search, entries: Sequence[Entry]) -> float:
    """Standard deviation of ln between runs of one revision: expected and seen, pooled."""
    seen: dict[tuple[str, str], list[float]] = {}
    for reading in evidence(search, entries).readings:
        alike = reading.identity, reading.testbed
        seen.setdefault(alike, []).append(reading.ln_pps[METRIC])
    given = search.noise is not None
    weight = _GIVEN_WEIGHT if given else _NOISE_WEIGHT
    squares = weight * ((search.noise or 0) / 100 if given else _NOISE) ** 2
    for values in seen.values():
        if len(values) > 1:
            squares += (len(values) - 1) * variance(values)
            weight += len(values) - 1
    return math.sqrt(squares / weight)


# -------------------------------------------------------------------------------- the evidence


def evidence(search: Search, entries: Sequence[Entry], dut: str = "") -> Evidence:
    """What a log says about the last question in it.

    Only what is checked out counts as built: a device has one worktree. Runs that were made for
    an earlier question are not fresh. All runs of a visit are one reading.

    Args:
        search: What was asked.
        entries: The log.
        dut: The device whose worktree it is.
    """
    asked = max(
        (i for i, entry in enumerate(entries) if isinstance(entry, Comparison | Bisection)),
        default=0,
    )
    boots: dict[str, tuple[Boot, bool]] = {}
    kernels: dict[str, Kernel] = {}
    layouts: dict[str, int] = {}
    skipped: dict[str, str] = {}
    values: dict[str, list[float]] = {}
    for place, entry in enumerate(entries):
        match entry:
            case Kernel():
                layouts[entry.key] = entry.layout
                if entry.arch == dut:
                    kernels = {kernel_name(entry.revision, entry.layout): entry}
            case Boot():
                boots[entry.id] = entry, place > asked
            case Dud(reaction=Reaction.SKIP):
                skipped[kernel_name(entry.revision, entry.layout)] = entry.why
            case Sample():
                values.setdefault(entry.boot, []).append(search.sign * math.log(entry.pps))
            case _:
                pass
    readings = []
    for name, found in values.items():
        boot, fresh = boots[name]
        layout = layouts.get(boot.kernel, 0)
        # An interruption may have left fewer runs than were ordered.
        told = {METRIC: fmean(found)}
        of_boot = (boot.id, boot.revision, boot.kernel, told, fresh, len(found), boot.testbed)
        readings.append(Reading(*of_boot, layout))
    return Evidence(tuple(readings), kernels, skipped)


@dataclass(frozen=True, slots=True)
class Order:
    """A visit that was decided, and how far it is."""

    visit: Visit
    runs: int
    """That were made."""


def under_way(entries: Sequence[Entry]) -> dict[str, Order]:
    """By device: what was decided for it and has not come to its end, the oldest first.

    An answer ends all that is under way, and so does a question.
    """
    orders: dict[str, Order] = {}
    for entry in entries:
        match entry:
            case Visit():
                orders[entry.testbed] = Order(entry, 0)
            case Sample() if (order := orders.get(entry.testbed)) is not None:
                orders[entry.testbed] = Order(order.visit, order.runs + 1)
                if order.runs + 1 >= order.visit.runs:
                    del orders[entry.testbed]
            case Dud(reaction=Reaction.SKIP):
                orders.pop(entry.testbed, None)
            case _ if isinstance(entry, Question | Finding):
                orders.clear()
            case _:
                pass
    return orders


def meanwhile(entries: Sequence[Entry], dut: str) -> Meanwhile:
    """What an idle device is to know of the others."""
    others = under_way(entries)
    visits = tuple(order.visit for name, order in others.items() if name != dut)
    return Meanwhile(testbed=dut, under_way=visits)


def prices(search: Search, entries: Sequence[Entry]) -> Prices:
    """What a change of revision and a run of the command take, as far as they are known."""
    kernels = [entry for entry in entries if isinstance(entry, Kernel)]
    builds = [kernel.seconds for kernel in kernels if not kernel.layout]
    relinks = [kernel.seconds for kernel in kernels if kernel.layout]
    runs = [entry.seconds for entry in entries if isinstance(entry, Sample)]
    return Prices(
        build=fmean(builds) if builds else float(bool(search.setup)),
        boot=0.0,
        run=fmean(runs) if runs else 1.0,
        relink=fmean(relinks) if relinks else None,
    )


def nobody() -> Belief:
    """That nothing changed, for certain."""
    return Belief({}, 1.0)


def spent(entries: Sequence[Entry]) -> float:
    """Seconds that all attempts took, those that failed among them."""
    return math.fsum(e.seconds for e in entries if isinstance(e, Kernel | Sample | Dud))
