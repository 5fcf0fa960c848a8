"""Other testbeds that measured the same commits and did not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netbisect.bisect.detect import noise_of
from netbisect.bisect.family import screened
from netbisect.bisect.model import Commit, Level
from netbisect.bisect.states import AlertKind
from netbisect.reports import words
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import Lab, load_scenario


def unmoved(
    ledger: Ledger,
    lab: Lab,
    place: tuple[str, str],
    ends: tuple[Commit, Commit],
    change: float,
) -> tuple[str, ...]:
    """Names what did not move, for people: each testbed with its scenarios.

    Args:
        ledger: With the series.
        lab: Whose testbeds they are.
        place: Branch and testbed that changed; the testbed is left out.
        ends: The last good and the first bad commit. A series says something of them when it has
            a level at or before the first and one at or after the second.
        change: That was seen there, as a ln ratio. A series in which as much would not be seen
            says nothing of it either.
    """
    branch, testbed = place
    numbers = ledger.numbers().get(branch, {})
    found = []
    for other in lab.testbeds:
        titles = [
            load_scenario(scenario, lab.scenario_directories).title
            for scenario in (other.scenarios if other.name != testbed else ())
            if _stood(ledger.series(other.name, scenario, branch), numbers, ends, abs(change))
        ]
        if titles:
            found.append(f"{other.name} ({words.listing(titles)})")
    return tuple(found)


def _stood(
    levels: Sequence[Level],
    numbers: Mapping[str, int],
    ends: tuple[Commit, Commit],
    change: float,
) -> bool:
    good, bad = ends
    before = [level for level in levels if numbers.get(level.revision, bad.number) <= good.number]
    since = [level for level in levels if numbers.get(level.revision, 0) >= bad.number]
    if not before or not since or since[-1].saturated:
        return False
    noise = noise_of(levels[:-1])
    found = screened([*before, since[-1]], change, noise)
    moved = found.suspicious or found.kind is AlertKind.IMPROVEMENT
    return not moved and found.threshold <= change
