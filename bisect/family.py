"""All series of a night together: what is worth a retest, and in which order.

With hundreds of series some are off every night without a reason. Family-wise control comes from
the retest, whose error is per retest and not per series: so few are made, the most surprising
ones first, one for all series that point at the same revisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from scipy import stats

from netbisect.bisect.model import Comparison, Level, Night
from netbisect.bisect.screen import MIN_EFFECT, Screen, screen
from netbisect.bisect.states import AlertKind

RETESTS = 5
"""In a night, of all groups together."""


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
    return [float(q) for q in stats.false_discovery_control(p)] if len(p) else []


def suspicion(
    night: Night, series: Mapping[str, Sequence[Level]], min_effect: float = MIN_EFFECT
) -> Comparison | None:
    """Turns tonight's levels into the question of a retest, when one of them is suspicious.

    Args:
        night: What was measured.
        series: By scenario, the levels of the baseline, oldest first, tonight's last. A scenario
            without a level of tonight's revision, or without an earlier one, is passed over.
        min_effect: Smallest drop worth an alert, as a positive ln ratio.

    Returns:
        The comparison of tonight with the last good revision, led by the scenario with the
        highest score; None when nothing is suspicious.
    """
    held = [
        (found.score, scenario, found)
        for scenario in night.scenarios
        if (levels := series.get(scenario, ()))
        and len(levels) > 1
        and levels[-1].revision == night.revision
        and (found := screen(levels[:-1], levels[-1], min_effect)).suspicious
        and found.kind is AlertKind.DROP
    ]
    if not held:
        return None
    _, lead, found = max(held, key=itemgetter(0))
    return Comparison(
        branch=night.branch,
        testbed=night.testbed,
        good=found.good,
        bad=night.revision,
        scenarios=night.scenarios,
        lead=lead,
        suspected=found.ln_ratio,
        min_effect=min_effect,
    )
