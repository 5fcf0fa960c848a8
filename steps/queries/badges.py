"""Conditions of branches, on one testbed or on all, for badges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.plots.badge import Condition
from netbisect.reports.render import words
from netbisect.steps.queries.documents import alert_summaries
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.samples import Coverage

_DAY = 86400.0
_SUSPECTED = {AlertState.CANDIDATE, AlertState.CONFIRMING}

Place = tuple[str, str]
"""A branch and a testbed; "" for all testbeds."""


def conditions(ledger: Ledger, branches: Iterable[str] = ()) -> dict[Place, Condition]:
    """Condition of each branch, on all testbeds and on each that has measured it.

    The given branches may have no measurements.
    """
    covered = ledger.samples.coverage()
    alerts = alert_summaries(ledger, ledger.alerts.pending())
    now = ledger.clock()
    names = dict.fromkeys([*branches, *sorted({branch for _, branch in covered})])
    found: dict[Place, Condition] = {}
    for branch in names:
        mine = {testbed: one for (testbed, name), one in covered.items() if name == branch}
        for testbed in ("", *mine):
            levels = [one for on, one in mine.items() if testbed in ("", on)]
            about = [one for one in alerts if one.is_on(testbed=testbed, branch=branch)]
            found[branch, testbed] = _condition(levels, about, now)
    return found


def _condition(covered: Sequence[Coverage], about: Sequence[AlertSummary], now: float) -> Condition:
    latest = max((one.latest for one in covered), default=0.0)
    return Condition(
        drops=sum(one.kind is AlertKind.DROP and one.state.active for one in about),
        suspected=sum(one.state in _SUSPECTED for one in about),
        levels=max((one.revisions for one in covered), default=0),
        days=(now - latest) / _DAY if latest >= words.FIRST_TIME else None,
    )


def named(name: str, found: Mapping[Place, Condition]) -> Place | None:
    """The place of a badge, by its name `main` or `main/c2558`; None if unknown.

    Names of branches have slashes too: a branch goes before a testbed of another one.
    """
    if (name, "") in found:
        return name, ""
    branch, _, testbed = name.rpartition("/")
    return (branch, testbed) if testbed and (branch, testbed) in found else None


def title(place: Place) -> str:
    """Name of a badge."""
    branch, testbed = place
    return f"{branch} on {testbed}" if testbed else branch
