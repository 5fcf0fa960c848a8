"""Testbeds that measured the same commits without a change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from netbisect.bisect.model.entities import Commit
from netbisect.reports.render import words
from netbisect.steps.service.numeric import unaffected
from netbisect.store.ledger import Ledger

_NAMED = 4
"""Most scenarios named per testbed."""


def unaffected_testbeds(
    ledger: Ledger,
    title: Callable[[str], str],
    place: tuple[str, str],
    ends: tuple[Commit, Commit],
    change: float,
    until: float = math.inf,
) -> tuple[str, ...]:
    """Names the unaffected testbeds, each with its scenarios.

    Args:
        ledger: With the series.
        title: Title of a scenario.
        place: Branch, and the testbed that changed.
        ends: The last good and the first bad commit; a series has levels on both sides.
        change: Size of the change, as a ln ratio; series too noisy for it are left out.
        until: Time of the last measurement used, seconds since the epoch.
    """
    branch, testbed = place
    good, bad = ends
    measured: defaultdict[str, int] = defaultdict(int)
    still: defaultdict[str, list[str]] = defaultdict(list)
    found = ledger.neighbour_series.around(branch, testbed, (good.number, bad.number), until)
    for (name, scenario), sides in found.items():
        measured[name] += 1
        if not sides.saturated and unaffected.is_unaffected(sides.before, sides.since, abs(change)):
            still[name].append(title(scenario))
    return tuple(f"{name} ({_several(titles, measured[name])})" for name, titles in still.items())


def _several(titles: list[str], measured: int) -> str:
    """Titles of scenarios, or their number if many."""
    if len(titles) <= _NAMED:
        return words.listing(titles)
    share = "all" if len(titles) == measured else f"{len(titles)} of"
    return f"{share} {measured} scenarios"
