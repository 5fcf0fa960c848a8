"""Alerts in the ledger: changes, series and effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from alert_ledger import DAY, DROP, PF, Clock, announce, set_culprit, set_state, suspect
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netbisect.bisect.alert_lifecycle import REOPENING_SECONDS
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger


@pytest.mark.both_databases
def test_every_change_has_a_time_a_reason_an_author_and_a_state(
    ledger: Ledger, clock: Clock
) -> None:
    """The change is in the history of the alert and in an event."""
    alert = announce(ledger)
    clock.now = 2000.0
    set_state(ledger, alert, AlertState.MUTED, until=5000.0)

    changes = [(one.at, one.who, one.what, one.state) for one in ledger.alerts.changes(alert.id)]
    assert changes == [
        (1000.0, "netbisect", "confirmed", AlertState.OPEN),
        (2000.0, "olga", "because", AlertState.MUTED),
    ]
    events, _ = ledger.events.since(0)
    assert [event.data["state"] for event in events if event.kind == "alert"] == ["open", "muted"]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(AlertState), st.integers(0, 1), st.integers(1, 20)), max_size=12
    )
)
def test_any_sequence_of_changes_is_recorded_or_rejected(
    ledger: Ledger, clock: Clock, steps: list[tuple[AlertState, int, int]]
) -> None:
    """No sequence loses a change, an open alert or its effects."""
    clock.now += 1
    pair = [
        announce(ledger, f"r{10 + i}", f"r{20 + i}", testbed=f"{clock.now} {i}") for i in (0, 1)
    ]
    for state, index, days in steps:
        clock.now += days * DAY
        before = ledger.alerts.get(pair[index].id)
        written = len(ledger.alerts.changes(before.id))
        try:
            after = set_state(ledger, before, state, culprit="r15", until=clock.now + DAY)
        except StoreError:
            assert ledger.alerts.get(before.id) == before
            assert len(ledger.alerts.changes(before.id)) == written
            continue
        last = ledger.alerts.changes(before.id)[-1]
        assert len(ledger.alerts.changes(before.id)) == written + 1
        assert (last.at, last.state) == (clock.now, after.state)
        assert (after.effects, after.series) == (before.effects, before.series)
        assert (after in ledger.alerts.all_open()) == after.state.standing


@pytest.mark.both_databases
def test_alerts_are_filtered_by_state_and_time(ledger: Ledger, clock: Clock) -> None:
    """Queries of announced alerts exclude candidates."""
    clock.now = 1 * DAY
    first = announce(ledger, "r1", "r5", DROP)
    clock.now = 2 * DAY
    second = announce(ledger, "r6", "r9", DROP)
    clock.now = 3 * DAY
    candidate, _ = suspect(ledger)
    clock.now = 50 * DAY
    set_state(ledger, first, AlertState.ACKNOWLEDGED)
    over = set_state(ledger, second, AlertState.INVALID)

    def ids(alerts: Sequence[Alert]) -> list[int]:
        return [one.id for one in alerts]

    assert ids(ledger.alerts.pending()) == [first.id, candidate.id]
    assert ids(ledger.alerts.begun(2 * DAY)) == [over.id, candidate.id]
    assert ids(ledger.alerts.latest(9)) == [over.id, first.id]  # descending ids
    assert ids(ledger.alerts.latest(1)) == [over.id]
    assert ledger.alerts.first() == ledger.alerts.get(first.id)
    assert set(ledger.alerts.change_counts([over.id])) == {over.id}
    assert set(ledger.alerts.change_counts()) == {first.id, over.id, candidate.id}


@pytest.mark.both_databases
def test_one_culprit_is_one_event(ledger: Ledger, clock: Clock) -> None:
    """The earlier alert gets the series of both; an alert is not merged with itself."""
    first = set_culprit(ledger, announce(ledger))
    clock.now = 2000.0
    second = set_culprit(ledger, announce(ledger, "r12", "r18", testbed="apu2"))
    other = announce(ledger, testbed="e5-2650")
    night = ledger.jobs.add(NightlyJob("main", "apu2", "r20", (PF,), 3), key="night")
    with ledger.jobs.closing(night, NightlyResult(3)) as closing:
        merged = closing.join_same_culprit(second.id)
        assert [closing.join_same_culprit(one.id) for one in (first, other)] == [merged, other]

    later = ledger.alerts.get(second.id)
    assert merged == ledger.alerts.get(first.id)
    assert (later.state, later.merged_into) == (AlertState.MERGED, first.id)
    assert merged.series == first.series + second.series
    assert later.series == second.series
    assert ledger.alerts.all_open() == [merged, other]
    assert ledger.alerts.of_culprit("r15") == [merged, later]
    assert "alert 2 is the same event" in ledger.alerts.changes(first.id)[-1].what
    with pytest.raises(StoreError, match="alert 2 was merged into alert 1; it is alert 1 that"):
        set_state(ledger, second, AlertState.MUTED, until=9000.0)


@pytest.mark.both_databases
def test_a_drop_that_returns_within_thirty_days_reopens_its_alert(
    ledger: Ledger, clock: Clock
) -> None:
    """The alert gets the new effects and series, and no culprit."""
    alert = set_culprit(ledger, announce(ledger))
    clock.now = 2000.0
    set_state(ledger, alert, AlertState.FIXED, recovery="r25")
    clock.now += REOPENING_SECONDS
    worse = replace(DROP, ln_ratio=-0.2, low=-0.22)
    again = announce(ledger, "r25", "r30", worse, what="confirmed again")

    assert (again.id, again.state) == (alert.id, AlertState.REOPENED)
    assert (again.good, again.bad, again.culprit) == ("r25", "r30", "")
    assert (again.closed_at, again.recovery) == (None, "")
    assert again.comparison != alert.comparison
    assert again.effects == (worse,)
    assert again.series[: len(alert.series)] == alert.series
    assert again.series[-1].effect == worse
    states = [one.state.value for one in ledger.alerts.changes(alert.id)]
    assert states == ["open", "culprit-found", "fixed", "reopened"]


@pytest.mark.parametrize(
    ("good", "bad", "reopened"),
    [
        ("r12", "r14", True),
        ("r5", "r11", True),
        ("r5", "r30", True),
        ("r20", "r30", False),
        ("r5", "r10", False),
        ("r19", "never learned", False),
    ],
)
def test_an_alert_reopens_for_a_range_with_a_common_commit(
    ledger: Ledger, good: str, bad: str, reopened: bool
) -> None:
    alert = set_state(ledger, announce(ledger), AlertState.WITHDRAWN)

    again = announce(ledger, good, bad, replace(DROP, scenario=PF))

    assert (again.id == alert.id) == reopened
