"""A question laid out on a line: the good end, then the candidates, and what is known of each.

Position 0 is the good end, position k the k-th candidate. A culprit k means that the positions
below k are fast and those from k on are slow.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netbisect.bisect.compare import values
from netbisect.bisect.model import Bisection, Evidence, Reading, kernel_name
from netbisect.bisect.turns import barren


@dataclass(frozen=True, slots=True)
class Image:
    """What was measured of one kernel, under however many revisions."""

    position: int
    """The first on the line that builds it."""
    ln_pps: tuple[float, ...]
    """Of the leading scenario, one value per boot, sorted; at least one."""
    runs: tuple[int, ...]
    """Of each of these boots."""
    testbeds: tuple[int, ...]
    """Of each of these boots: where, as an index into `Line.testbeds`."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a testbed lies from another one of its make, on all kernels; ln ratio."""

    mean: float = 0.0
    sd: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """A kernel that can be booted, and the revision to order it by."""

    position: int
    """The first on the line that builds it."""
    revision: str
    boots: int
    """With a sample of the leading scenario, so far."""
    built: bool
    readings: tuple[Reading, ...]
    """Of this kernel, whichever revision was ordered."""
    layout: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """n candidates and the good end, with the evidence sorted onto them."""

    question: Bisection
    evidence: Evidence
    revisions: tuple[str, ...]
    """n + 1, the good end first."""
    possible: NDArray[np.bool_]
    """n + 1 values: whether the culprit can be there. Never at 0, nor between two places that
    build the same kernel."""
    images: tuple[Image, ...]
    """In the order of their positions."""
    places: tuple[Place, ...]
    """In the order of their positions; what is skipped is not among them."""
    at: tuple[Place | None, ...]
    """n + 1: the place that stands for each position, if it can be measured."""
    testbeds: tuple[str, ...]
    """Those that have measured the leading scenario, the one with most boots first; the testbed
    of the question as long as nothing is measured."""
    offsets: tuple[Offset, ...] = ()
    """How far each testbed lies from the first one, once that is inferred."""

    def on(self, place: Place, testbed: str) -> int:
        """Boots of a place that this testbed has measured."""
        return sum(
            self.question.lead in reading.ln_pps and testbed_of(self.question, reading) == testbed
            for reading in place.readings
        )


def lay_out(question: Bisection, evidence: Evidence) -> Line:
    """Sorts the evidence onto the line of a question.

    Readings of revisions that are not on the line count where they are of a kernel that is.

    Raises:
        ValueError: The question has no candidates, or a revision twice, or a weight or an effect
            that cannot be one.
    """
    _check(question)
    revisions = (question.good, *(candidate.revision for candidate in question.candidates))
    keys = _keys(evidence)
    readings: dict[str, list[Reading]] = defaultdict(list)
    measured: dict[str, set[str]] = defaultdict(set)
    for reading in evidence.readings:
        own = kernel_name(keys.get(reading.revision, reading.revision), reading.layout)
        key = reading.identity or own
        readings[key].append(reading)
        measured[reading.revision].add(key)
    positions: dict[str, list[int]] = defaultdict(list)
    for position, revision in enumerate(revisions):
        for key in measured.get(revision, set()) | {keys.get(revision, revision)}:
            positions[key].append(position)
    possible = np.ones(len(revisions), dtype=np.bool_)
    possible[0] = False
    for where in positions.values():
        possible[where[0] + 1 : where[-1] + 1] = False
    testbeds = _testbeds(question, [r for key in positions for r in readings.get(key, [])])
    images = [
        _image(where[0], readings[key], question, testbeds)
        for key, where in positions.items()
        if values(readings.get(key, []), question.lead)
    ]
    places = _places(question, evidence, revisions, positions, readings)
    return Line(
        question,
        evidence,
        revisions,
        possible,
        tuple(sorted(images, key=lambda image: (image.position, image.ln_pps))),
        tuple(sorted(places.values(), key=lambda place: (place.position, place.revision))),
        tuple(places.get(keys.get(revision, revision)) for revision in revisions),
        testbeds,
    )


def testbed_of(question: Bisection, reading: Reading) -> str:
    """Where it was measured."""
    return reading.testbed or question.testbed


def _testbeds(question: Bisection, readings: list[Reading]) -> tuple[str, ...]:
    counts = Counter(testbed_of(question, r) for r in readings if question.lead in r.ln_pps)
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))) or (question.testbed,)


def _image(
    position: int, readings: list[Reading], question: Bisection, testbeds: tuple[str, ...]
) -> Image:
    lead = question.lead
    boots = sorted(
        (r.ln_pps[lead], r.runs, testbeds.index(testbed_of(question, r)))
        for r in readings
        if lead in r.ln_pps
    )
    levels, runs, measured_on = zip(*boots, strict=True)
    return Image(position, levels, runs, measured_on)


def _places(
    question: Bisection,
    evidence: Evidence,
    revisions: tuple[str, ...],
    positions: dict[str, list[int]],
    readings: dict[str, list[Reading]],
) -> dict[str, Place]:
    """What can be booted, by kernel: by the revision that was measured, or built, or is first."""
    keys = _keys(evidence)
    places: dict[str, Place] = {}
    for key, where in positions.items():
        found = readings.get(key, [])
        measured = {reading.revision for reading in found}
        names = sorted(
            (
                name
                for name in (revisions[i] for i in where)
                if name not in evidence.skipped and keys.get(name, name) == key
            ),
            key=lambda name: (name not in measured, name not in evidence.kernels),
        )
        if names and not barren(found, question.lead):
            boots, built = len(values(found, question.lead)), names[0] in evidence.kernels
            places[key] = Place(where[0], names[0], boots, built, tuple(found))
    return places


def _check(question: Bisection) -> None:
    revisions = [question.good, *(candidate.revision for candidate in question.candidates)]
    if len(revisions) == 1:
        raise ValueError(f"a search from {question.good} takes at least one candidate, found none")
    if len(set(revisions)) < len(revisions):
        twice = next(name for name in revisions if revisions.count(name) > 1)
        raise ValueError(f"every revision of a search stands once, found {twice} twice")
    if not all(0 < candidate.weight < math.inf for candidate in question.candidates):
        raise ValueError("the weight of a candidate is a number above 0")
    if not 0 < abs(question.effect) < math.inf:
        raise ValueError(f"the effect to search for is not 0, found {question.effect}")


def _keys(evidence: Evidence) -> dict[str, str]:
    """Names, by revision, the kernel that an order boots; a revision not in it is its own."""
    ordinary = [r for r in evidence.readings if r.identity and not r.layout]
    read = sorted({(r.revision, r.identity) for r in ordinary}, reverse=True)
    built = {name: kernel.identity for name, kernel in evidence.kernels.items() if kernel.identity}
    return dict(read) | built
