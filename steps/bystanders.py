"""Other testbeds that measured the same commits and did not change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from netbisect.bisect.model import Commit
from netbisect.bisect.stood import stood
from netbisect.reports import words
from netbisect.store.ledger import Ledger

_NAMED = 4
"""Scenarios of a testbed that are named."""


def unmoved(
    ledger: Ledger,
    title: Callable[[str], str],
    place: tuple[str, str],
    ends: tuple[Commit, Commit],
    change: float,
    until: float = math.inf,
) -> tuple[str, ...]:
    """Names what did not move, for people: each testbed with its scenarios.

    Args:
        ledger: With the series.
        title: Names scenarios.
        place: Branch and testbed that changed; the testbed is left out.
        ends: The last good and the first bad commit. A series says something of them when it has
            levels at or before the first and one at or after the second.
        change: That was seen there, as a ln ratio. A series in which as much would not be seen
            says nothing of it either.
        until: What was measured later is left out, seconds since the epoch.
    """
    branch, testbed = place
    good, bad = ends
    measured: defaultdict[str, int] = defaultdict(int)
    still: defaultdict[str, list[str]] = defaultdict(list)
    found = ledger.beside(branch, testbed, (good.number, bad.number), until)
    for (name, scenario), sides in found.items():
        measured[name] += 1
        if not sides.saturated and stood(sides.before, sides.since, abs(change)):
            still[name].append(title(scenario))
    return tuple(f"{name} ({_several(titles, measured[name])})" for name, titles in still.items())


def _several(titles: list[str], measured: int) -> str:
    """Their names; of many, how many of the testbed's they are."""
    if len(titles) <= _NAMED:
        return words.listing(titles)
    share = "all" if len(titles) == measured else f"{len(titles)} of"
    return f"{share} {measured} scenarios"
