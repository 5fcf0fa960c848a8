"""All series of a night together: what is worth a retest, and in which order.

With hundreds of series some are off every night without a reason. Family-wise control comes from
the retest, whose error is per retest and not per series: so few are made, the most surprising
ones first, one for all series that point at the same revisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from netbisect.bisect.detect import noise_of
from netbisect.bisect.model import Comparison, Effect, Level, Night, Noise
from netbisect.bisect.screen import (
    MIN_EFFECT,
    MIX_IMAGES,
    SCREEN_SD,
    Screen,
    levels_of,
    screen,
)
from netbisect.bisect.segments import boots_of, by_image, weighted
from netbisect.bisect.states import AlertKind

RETESTS = 5
"""In a night, of all groups together."""
_KNOWN = 12.0
"""Degrees of freedom from which an image noise is believed rather than the usual one."""
_NEAR = 8
"""Latest images of the baseline among which a further good one is looked for."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A series that is off tonight."""

    testbed: str
    scenario: str
    found: Screen


@dataclass(frozen=True, slots=True)
class Group:
    """Suspicious series of one branch whose ranges of revisions have a commit in common."""

    members: tuple[Suspicion, ...]
    """The most surprising one first: it is the one to be retested."""

    @property
    def lead(self) -> Suspicion:
        """The one to be retested."""
        return self.members[0]


def groups(suspicions: Sequence[Suspicion], order: Mapping[str, int]) -> list[Group]:
    """Puts together what may have one reason, the most surprising group first.

    Args:
        suspicions: Of one branch, in any order.
        order: Place of every revision on the branch; a revision that is not there makes a group
            of its own.
    """
    waiting = sorted(suspicions, key=_surprise)
    found: list[list[Suspicion]] = []
    for one in waiting:
        for group in found:
            if group[0].found.kind is one.found.kind and _overlap(group[0], one, order):
                group.append(one)
                break
        else:
            found.append([one])
    return [Group(tuple(group)) for group in found]


def _surprise(one: Suspicion) -> tuple[float, float]:
    return one.found.p, -abs(one.found.ln_ratio)


def _overlap(one: Suspicion, other: Suspicion, order: Mapping[str, int]) -> bool:
    ranges = []
    for suspicion in (one, other):
        bad = suspicion.found.suspects[-1] if suspicion.found.suspects else ""
        if suspicion.found.good not in order or bad not in order:
            return False
        ranges.append((order[suspicion.found.good], order[bad]))
    (first, last), (begin, end) = ranges
    return max(first, begin) < min(last, end)


def choose(found: Sequence[Group], retests: int = RETESTS) -> list[Group]:
    """Returns the groups to be retested tonight: at most `retests`, drops before gains."""
    kinds = (AlertKind.DROP, AlertKind.IMPROVEMENT)
    worth = [group for group in found if group.lead.found.kind in kinds]
    worth.sort(key=lambda group: (kinds.index(group.lead.found.kind), _surprise(group.lead)))
    return worth[:retests]


def q_values(p: Sequence[float]) -> list[float]:
    """Tells for each p of a night how many such findings would be false, as a share.

    Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical Society B 57, 1995. For people
    to see; nothing is decided by it.
    """
    if not len(p):
        return []
    from scipy import stats  # noqa: PLC0415 - long to load, and pages of one series need it not

    return [float(q) for q in stats.false_discovery_control(p)]


@dataclass(frozen=True, slots=True)
class Tonight:
    """What the series of one night say, screened once each."""

    wanted: Comparison | None
    """Tonight and the last good revision, led by the most surprising scenario; a drop goes
    before a gain. None when nothing is suspicious."""
    mixes: tuple[tuple[str, Effect], ...]
    """Where the slow mode occurs more often or less often since a few nights, which a retest of
    a few boots cannot show: the last revision before them, and how the mean of all boots moved."""


def tonight(
    night: Night,
    series: Mapping[str, Sequence[Level]],
    min_effect: float = MIN_EFFECT,
    noises: Mapping[str, Noise] | None = None,
) -> Tonight:
    """Looks at all series of a night.

    Args:
        night: What was measured.
        series: By scenario, the levels of the baseline, oldest first, tonight's last. A scenario
            without a level of tonight's revision, or without an earlier one, is passed over.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
        noises: By scenario, how it scatters, where more than the baseline tells it.
    """
    known = noises or {}
    found = {
        scenario: screened(levels, min_effect, known.get(scenario))
        for scenario in night.scenarios
        if len(levels := series.get(scenario, ())) > 1 and levels[-1].revision == night.revision
    }
    mixes = [
        (_before_mix(series[scenario]), replace(one.mix, scenario=scenario))
        for scenario, one in found.items()
        if one.mix is not None
    ]
    return Tonight(_wanted(night, series, found, min_effect, known), tuple(mixes))


def _before_mix(levels: Sequence[Level]) -> str:
    """The last revision before those whose slow boots are counted."""
    images = by_image(levels)
    return images[-min(MIX_IMAGES + 1, len(images))][-1].revision


def _wanted(
    night: Night,
    series: Mapping[str, Sequence[Level]],
    found: Mapping[str, Screen],
    min_effect: float,
    known: Mapping[str, Noise],
) -> Comparison | None:
    suspicions = [
        Suspicion(night.testbed, scenario, one) for scenario, one in found.items() if one.asks
    ]
    longest = max(series.values(), key=len, default=())
    order = {level.revision: place for place, level in enumerate(longest)}
    for group in choose(groups(suspicions, order), 1):
        lead = group.lead
        return Comparison(
            branch=night.branch,
            testbed=night.testbed,
            good=lead.found.good,
            bad=night.revision,
            scenarios=night.scenarios,
            lead=lead.scenario,
            suspected=lead.found.ln_ratio,
            min_effect=min_effect,
            noise=known.get(lead.scenario) or noise_of(series[lead.scenario][:-1]),
        )
    return None


def screened(levels: Sequence[Level], min_effect: float, noise: Noise | None) -> Screen:
    """Screens the latest level with what is known of the noise.

    Args:
        levels: Of the baseline, oldest first, the latest one last; at least two.
        min_effect: Smallest change worth an alert, as a positive ln ratio.
        noise: Of the series, where more than the baseline tells it.
    """
    told = noise is not None and noise.image_weight >= _KNOWN
    image_sd = noise.image if noise is not None and told else SCREEN_SD
    return screen(levels[:-1], levels[-1], min_effect, image_sd=image_sd)


def next_pair(
    pairs: Sequence[Comparison], levels: Sequence[Level], noise: Noise
) -> Comparison | None:
    """Finds two further images for a change that one pair, or a few, left in doubt.

    Args:
        pairs: What was compared so far, the first one first; at least one.
        levels: Of the leading series, oldest first, with those since the suspicion.
        noise: Of the series before it.

    Returns:
        The comparison of the newest image since the suspicion that was not compared yet with
        the image of the baseline that lies nearest to its level and was not either, where there
        is one; None as long as there is no such image.
    """
    first = pairs[0]
    used = {revision for pair in pairs for revision in (pair.good, pair.bad)}
    kernels = {level.identity for level in levels if level.revision in used} - {""}
    used |= {level.revision for level in levels if level.identity in kernels}
    place = {level.revision: i for i, level in enumerate(levels)}
    if first.good not in place or first.bad not in place:
        return None
    before = [level for level in levels if place[level.revision] <= place[first.good]]
    after = [level for level in levels if place[level.revision] > place[first.good]]
    y, variance = levels_of(boots_of(before), noise)
    baseline, _ = weighted(y, variance)
    near = sorted(
        range(max(len(before) - _NEAR, 0), len(before)), key=lambda i: abs(y[i] - baseline)
    )
    good = next((before[i].revision for i in near if before[i].revision not in used), first.good)
    bad = next((one.revision for one in reversed(after) if one.revision not in used), None)
    return None if bad is None else replace(first, good=good, bad=bad)
