"""Other layouts of a revision: linked once more, with its code at other addresses.

An image has an offset of its own, because of where the linker happened to put things (T. Mytkowicz
et al., ASPLOS 2009), and no number of boots averages it out. Another order of the sections draws
another offset (C. Curtsinger and E. D. Berger, STABILIZER, ASPLOS 2013), so that the mean over
several layouts of one revision comes nearer to what its code does. The offsets of layouts are taken
to scatter as those of neighbouring commits do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from netbisect.bisect import compare
from netbisect.bisect.compare import values
from netbisect.bisect.levels import LEAST_BOOT_SD, aligned
from netbisect.bisect.line import Image, Line, Place
from netbisect.bisect.meanwhile import Meanwhile
from netbisect.bisect.model import Bisection, Effect, Reading, kernel_name, split_kernel_name
from netbisect.bisect.robust import location
from netbisect.bisect.turns import barren

Effects = tuple[Effect, ...]
_CLEAR = 3.0
"""Standard errors of the difference of two mean levels that the effect should be."""
_UPPER = 0.975
"""Of the 95 % interval of an effect."""
_FEWEST_IMAGES = 2
"""Of each side, from which the offsets of images count in the interval of an effect."""


def averages(question: Bisection) -> bool:
    """Tells whether further layouts are of use: images have offsets, and the lab can link them."""
    return question.layouts > 0 and question.noise.image > 0


def of_place(line: Line, place: Place) -> tuple[Reading, ...]:
    """Returns the readings of all layouts of what is built at a place."""
    if not averages(line.question):
        return place.readings
    own = {id(reading) for reading in place.readings}
    names = _revisions(line, place)
    further = (r for r in line.evidence.readings if r.layout and r.revision in names)
    return (*place.readings, *(r for r in further if id(r) not in own))


def _revisions(line: Line, place: Place) -> set[str]:
    """The revisions that build the kernel of a place."""
    return {name for name, one in zip(line.revisions, line.at, strict=True) if one is place}


def further(line: Line, meanwhile: Meanwhile) -> list[Place]:
    """Finds the further layouts that can be booted: those that exist, and one more of each kernel.

    A kernel is linked anew only when its ordinary layout has been measured, and only as long as
    every layout of it could be linked. Where two layouts turn out to be the same image, the linker
    takes no orders, and no further ones are asked for.

    Args:
        line: The question and its evidence.
        meanwhile: What is being built and measured elsewhere; other numbers are taken there.
    """
    if not averages(line.question):
        return []
    known = _known(line, meanwhile)
    found, deaf = [], _takes_no_orders(line)
    for place in line.places:
        if not place.boots:
            continue
        names = _revisions(line, place)
        own = {key: readings for key, readings in known.items() if key[0] in names}
        failed = [key for key in own if kernel_name(*key) in line.evidence.skipped]
        dead = [key for key, readings in own.items() if barren(readings, line.question.lead)]
        left = sorted(own.keys() - {*failed, *dead}, key=lambda key: (key[1], key[0]))
        found += [_place(line, place, *key, own[key]) for key in left]
        free = set(range(1, line.question.layouts + 1)) - {layout for _, layout in own}
        if free and not (failed or dead or deaf):
            found.append(_place(line, place, place.revision, min(free), []))
    return found


def _known(line: Line, meanwhile: Meanwhile) -> dict[tuple[str, int], list[Reading]]:
    """Readings of the further layouts, by revision and layout; of what is only ordered, none."""
    evidence = line.evidence
    found: defaultdict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading in evidence.readings:
        if reading.layout:
            found[reading.revision, reading.layout].append(reading)
    ordered = (*evidence.kernels, *evidence.skipped, *meanwhile.building)
    keys = [split_kernel_name(name) for name in ordered if "#" in name]
    keys += [(visit.revision, visit.layout) for visit in meanwhile.under_way if visit.layout]
    return dict(found) | {key: found.get(key, []) for key in keys}


def _place(line: Line, place: Place, revision: str, layout: int, readings: list[Reading]) -> Place:
    built = kernel_name(revision, layout) in line.evidence.kernels
    boots = len(values(readings, line.question.lead))
    return Place(place.position, revision, boots, built, tuple(readings), layout)


def _takes_no_orders(line: Line) -> bool:
    seen: defaultdict[str, set[int]] = defaultdict(set)
    for kernel in line.evidence.kernels.values():
        seen[kernel.identity].add(kernel.layout)
    for reading in line.evidence.readings:
        seen[reading.identity].add(reading.layout)
    return any(len(layouts) > 1 for identity, layouts in seen.items() if identity)


# -------------------------------------------------------------------------------- for a proof


def wanted(line: Line, apart: float) -> int:
    """Tells of how many layouts each side of a proof is measured, at least.

    As many as make the difference of their means clear of the offsets of images.

    Args:
        line: The question and its evidence.
        apart: How far the two sides should lie apart, ln ratio.
    """
    noise = line.question.noise
    variance = 2 * (noise.image**2 + noise.variance_of_boot())
    most = line.question.layouts + 1
    return max(1, min(most, math.ceil(variance * (_CLEAR / apart) ** 2)))


def next_of(line: Line, place: Place, layouts: int, meanwhile: Meanwhile) -> Place:
    """Picks the layout of a place that its proof boots next.

    One that was never booted for this question as long as fewer than `layouts` were, a built one
    before others; then that of the fewest boots.
    """
    own = [place, *(one for one in further(line, meanwhile) if one.position == place.position)]

    def boots(one: Place) -> int:
        return sum(r.fresh and line.question.lead in r.ln_pps for r in one.readings)

    seen = [one for one in own if boots(one)]
    unseen = [one for one in own if not boots(one)]
    if unseen and len(seen) < layouts:
        return min(unseen, key=lambda one: (not one.built, one.layout))
    return min(seen or own, key=lambda one: (boots(one), one.layout))


def difference(line: Line, good: Place, bad: Place) -> Effect | None:
    """Tells how far two revisions lie apart, their images taken for the samples.

    The difference of the mean levels of all their layouts, held against the image noise that is
    known and what the layouts show of it, pooled (as in `compare.difference`), by Student's t.

    Args:
        line: The question and its evidence.
        good: The parent.
        bad: The culprit.

    Returns:
        The effect in the leading scenario with its 95 % interval, images in the place of boots;
        None unless both have been measured.
    """
    fast, slow = (
        level_of(line, [image for image in line.images if line.at[image.position] is place])
        for place in (good, bad)
    )
    if fast is None or slow is None:
        return None
    known = max(line.question.noise.image_weight, 1.0)
    freedom = known + fast.images + slow.images - 2
    scale = (known + fast.squares + slow.squares) / freedom
    variance = scale * (fast.variance + slow.variance) + between(line, fast, slow)
    shift = slow.mean - fast.mean
    reach = float(special.stdtrit(freedom, _UPPER)) * math.sqrt(variance)
    p = 2 * float(special.stdtr(freedom, -abs(shift) / math.sqrt(variance)))
    low, high = shift - reach, shift + reach
    return Effect(line.question.lead, shift, low, high, min(1.0, p), fast.images, slow.images)


@dataclass(frozen=True, slots=True)
class MeanLevel:
    """Of some images, each with an offset of its own."""

    mean: float
    """ln pps."""
    variance: float
    """Of the mean, by the noise that the question names."""
    squares: float
    """Squared distances of the images from it, in units of their variances."""
    images: int
    shares: tuple[float, ...]
    """Of each testbed in it."""


def level_of(line: Line, images: Sequence[Image]) -> MeanLevel | None:
    """Computes the mean level of some images; None if there are none."""
    if not images:
        return None
    noise = line.question.noise
    sd = max(math.sqrt(noise.variance_of_boot()), LEAST_BOOT_SD)
    y = np.array([location(aligned(line, image), sd) for image in images])
    least = LEAST_BOOT_SD**2
    own = [
        1 / math.fsum(1 / max(noise.variance_of_boot(runs), least) for runs in image.runs)
        for image in images
    ]
    weight = 1 / (noise.image**2 + np.array(own))
    weight_of = [(np.array(image.testbeds), w) for image, w in zip(images, weight, strict=True)]
    shares = [
        math.fsum(float((where == i).mean() * w) for where, w in weight_of) / float(weight.sum())
        for i in range(len(line.testbeds))
    ]
    mean = float(weight @ y / weight.sum())
    squares = float(weight @ (y - mean) ** 2)
    return MeanLevel(mean, float(1 / weight.sum()), squares, len(images), tuple(shares))


def between(line: Line, one: MeanLevel, other: MeanLevel) -> float:
    """Computes the variance that unknown distances of testbeds bring into a difference."""
    parts = zip(one.shares, other.shares, line.offsets, strict=False)
    return math.fsum(((late - early) * offset.sd) ** 2 for early, late, offset in parts)


def effects(question: Bisection, good: Sequence[Reading], bad: Sequence[Reading]) -> Effects:
    """Compares the boots of several layouts on each side, in every scenario, the lead first.

    Boots of one layout share its offset: each image counts once, by the mean of its boots, and
    scatters by image noise too.

    Returns:
        The effects; none where a side has fewer than two images.
    """
    sides = [_by_image(question, side) for side in (good, bad)]
    if min(len({(r.identity, r.layout) for r in side}) for side in sides) < _FEWEST_IMAGES:
        return ()
    noise = question.noise
    sd = max(math.sqrt(noise.image**2 + noise.variance_of_boot()), LEAST_BOOT_SD)
    known = compare.Known(sd, max(noise.image_weight, 1.0))
    found = compare.effects(sides[0], sides[1], question.lead, question.scenarios, known)
    return tuple(
        replace(
            effect,
            good_boots=len(values(good, effect.scenario)),
            bad_boots=len(values(bad, effect.scenario)),
        )
        for effect in found
    )


def _by_image(question: Bisection, readings: Sequence[Reading]) -> list[Reading]:
    """One reading of all boots that an image had on a testbed."""
    found: defaultdict[tuple[str, str, int, str], list[Reading]] = defaultdict(list)
    for r in readings:
        found[r.revision if not r.identity else "", r.identity, r.layout, r.testbed].append(r)
    return [_mean(question, boots) for boots in found.values()]


def _mean(question: Bisection, boots: Sequence[Reading]) -> Reading:
    sd = max(math.sqrt(question.noise.variance_of_boot()), LEAST_BOOT_SD)
    told: defaultdict[str, list[float]] = defaultdict(list)
    for reading in boots:
        for name, level in reading.ln_pps.items():
            told[name].append(level)
    return replace(boots[0], ln_pps={name: location(own, sd) for name, own in told.items()})
