"""Levels before and after an alert, and recovery of its series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from alert_ledger import DAY, DROP, FORWARDING, GAIN, Clock, announce, set_state
from ledger_facts import measured as facts

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.mail import Mail
from netbisect.steps.policy.alert_recovery import close_recovered
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger


def measured(
    ledger: Ledger,
    testbed: str = "c2558",
    numbers: Sequence[int] = range(5, 36, 5),
    pps: float = 1e6,
) -> None:
    """Records levels of FORWARDING at these revisions, one per day."""
    for number in numbers:
        name = f"{testbed} r{number}"
        ledger.facts.record(Kernel(f"r{number}", "c", "a", name, name, "v", 1, 0.0, 1.0))
        for fact in facts(name, testbed, name, f"r{number}", number * DAY, {FORWARDING: pps}):
            ledger.facts.record(fact)


def baseline(ledger: Ledger, testbed: str = "c2558") -> list[int]:
    levels = ledger.series.with_baseline(testbed, FORWARDING, "main").baseline
    return [int(level.revision.removeprefix("r")) for level in levels]


ALL = [5, 10, 15, 20, 25, 30, 35]
SINCE_CULPRIT = [15, 20, 25, 30, 35]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (AlertState.CULPRIT_FOUND, SINCE_CULPRIT),
        (AlertState.MUTED, SINCE_CULPRIT),
        (AlertState.FIXED, [5, 10, 30, 35]),
        (AlertState.INVALID, ALL),
        (AlertState.WITHDRAWN, ALL),
    ],
)
def test_a_baseline_begins_with_a_lasting_change(
    ledger: Ledger, state: AlertState, expected: list[int]
) -> None:
    """A fixed alert leaves a gap; invalid and withdrawn alerts have no effect."""
    measured(ledger)
    alert = announce(ledger)
    assert baseline(ledger) == [20, 25, 30, 35]

    set_state(ledger, alert, state, culprit="r15", until=DAY, recovery="r30")
    assert baseline(ledger) == expected
    if state.ended:
        reopened = set_state(ledger, alert, AlertState.REOPENED)
        assert reopened.culprit == "r15"
        assert baseline(ledger) == SINCE_CULPRIT


def test_gain_with_a_drop_belongs_to_the_alert(ledger: Ledger) -> None:
    """The series of the gain also begins a new baseline, so that the gain is not retested."""
    measured(ledger)
    cpu = replace(DROP, scenario="inet4-forwarding~cpu.percent.lower")
    announce(ledger, "r10", "r20", cpu, GAIN)
    assert baseline(ledger) == [20, 25, 30, 35]


def around(ledger: Ledger, alert: Alert) -> tuple[list[str], list[str]]:
    before, since = ledger.series.around(ledger.alerts.get(alert.id))
    return [one.revision for one in before], [one.revision for one in since]


@pytest.mark.both_databases
def test_levels_before_an_alert_begin_with_the_previous_change(ledger: Ledger) -> None:
    """Later alerts do not affect the levels before an alert, nor do ends on no branch."""
    measured(ledger)
    announce(ledger, "r5", "r10")
    alert = announce(ledger, "r15", "r20")
    announce(ledger, "r25", "r30")

    assert around(ledger, alert) == (["r10", "r15"], ["r20", "r25", "r30", "r35"])
    assert around(ledger, announce(ledger, "other", "another")) == ([], [])


@pytest.mark.both_databases
def test_recovered_level_closes_its_alert(ledger: Ledger, clock: Clock) -> None:
    """Three recovered levels are needed; the first one is recorded."""
    measured(ledger, numbers=range(1, 11))
    measured(ledger, numbers=(20, 22), pps=9e5)
    alert = announce(ledger)
    mail = ledger.mails.post("alert", Mail("", ""), ["p@q.invalid"], alert=alert.id)
    measured(ledger, numbers=(25, 27))
    clock.now = 30 * DAY
    assert close_recovered(ledger, "c2558", "main") == []
    measured(ledger, numbers=(29,))
    assert close_recovered(ledger, "apu2", "main") == []
    assert close_recovered(ledger, "c2558", "stable/15") == []

    [fixed] = close_recovered(ledger, "c2558", "main")

    assert (fixed.id, fixed.state, fixed.recovery) == (alert.id, AlertState.FIXED, "r25")
    assert ledger.alerts.changes(alert.id)[-1].what == "the level has recovered since r25"
    assert baseline(ledger) == [*range(1, 11), 25, 27, 29]
    assert close_recovered(ledger, "c2558", "main") == []
    assert ledger.mails.waiting() == [mail], "recoveries are in the digest"
