"""What the ledger remembers of alerts: their life, their series, their frozen numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from alert_ledger import DAY, DROP, FORWARDING, GAIN, PF, STILL, Clock, announce, named, suspect, to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netbisect.bisect.alert_lifecycle import REOPENING_SECONDS
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import Confirmed, NightlyResult, NotConfirmed
from netbisect.steps.policy.alert_recovery import end_mutes
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger

# --------------------------------------------------------------------------- what is written


@pytest.mark.both_databases
def test_every_change_has_a_time_a_reason_an_author_and_a_state(
    ledger: Ledger, clock: Clock
) -> None:
    """In the history, and among the events."""
    alert = announce(ledger)
    clock.now = 2000.0
    to(ledger, alert, AlertState.MUTED, until=5000.0)

    changes = [(one.at, one.who, one.what, one.state) for one in ledger.alerts.changes(alert.id)]
    assert changes == [
        (1000.0, "netbisect", "confirmed", AlertState.OPEN),
        (2000.0, "olga", "because", AlertState.MUTED),
    ]
    events, _ = ledger.events.since(0)
    told = [event.data for event in events if event.kind == "alert"]
    assert [(one["state"], one["who"]) for one in told] == [
        ("open", "netbisect"),
        ("muted", "olga"),
    ]


@pytest.mark.both_databases
def test_a_change_that_the_table_lacks_is_refused_and_leaves_no_trace(ledger: Ledger) -> None:
    """With a sentence that says what would do."""
    alert = announce(ledger)
    fixed = to(ledger, alert, AlertState.FIXED)
    marker = ledger.events.last()

    with pytest.raises(StoreError, match="alert 1 is fixed; only an alert that is open,"):
        to(ledger, alert, AlertState.ACKNOWLEDGED)
    with pytest.raises(StoreError, match="needs a reason, and none was given"):
        ledger.alerts.change(1, who="olga", what=" ", state=AlertState.REOPENED)
    with pytest.raises(StoreError, match="until a time in the future"):
        to(ledger, announce(ledger, testbed="apu2"), AlertState.MUTED, until=5.0)

    assert ledger.alerts.get(alert.id) == fixed
    assert len(ledger.alerts.changes(alert.id)) == 2
    events, _ = ledger.events.since(marker)
    assert [event.data["alert"] for event in events if event.kind == "alert"] == [2]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(AlertState), st.integers(0, 1), st.integers(1, 20)), max_size=12
    )
)
def test_whatever_is_tried_is_recorded_or_refused(
    ledger: Ledger, clock: Clock, steps: list[tuple[AlertState, int, int]]
) -> None:
    """No sequence loses a change, a standing alert or an announced number."""
    clock.now += 1
    pair = [
        announce(ledger, f"r{10 + i}", f"r{20 + i}", testbed=f"{clock.now} {i}") for i in (0, 1)
    ]
    for state, which, days in steps:
        clock.now += days * DAY
        before = ledger.alerts.get(pair[which].id)
        written = len(ledger.alerts.changes(before.id))
        try:
            after = to(ledger, before, state, culprit="r15", until=clock.now + DAY)
        except StoreError:
            assert ledger.alerts.get(before.id) == before
            assert len(ledger.alerts.changes(before.id)) == written
            continue
        last = ledger.alerts.changes(before.id)[-1]
        assert len(ledger.alerts.changes(before.id)) == written + 1
        assert (last.at, last.state) == (clock.now, after.state)
        assert (after.effects, after.series) == (before.effects, before.series)
        assert (after in ledger.alerts.all_open()) == after.state.standing


# ---------------------------------------------------------------------------------- series


def test_the_series_of_an_alert_have_their_numbers_and_range(ledger: Ledger) -> None:
    """All that were measured; and which of them moved."""
    alert = announce(ledger)

    assert [
        (one.testbed, one.scenario, one.branch, one.good, one.bad, one.effect, one.moved)
        for one in alert.series
    ] == [
        ("c2558", FORWARDING, "main", "r10", "r20", DROP, True),
        ("c2558", PF, "main", "r10", "r20", STILL, False),
    ]
    assert ledger.alerts.of_series("c2558", PF, "main") == [alert]
    assert ledger.alerts.of_series("c2558", PF, "stable/15") == []


@pytest.mark.both_databases
def test_numbers_are_frozen_when_they_are_announced(ledger: Ledger, clock: Clock) -> None:
    """What is said later of the same series stands beside them."""
    alert = announce(ledger)
    clock.now = 2000.0
    other = ledger.jobs.add(NightlyJob("main", "apu2", "r20", (PF,), 3), key="night")
    with ledger.jobs.closing(other, NightlyResult(3)) as closing:
        place = {"scenario": FORWARDING, "branch": "main", "good": "r10", "bad": "r20"}
        closing.add_series(alert.id, testbed="apu2", **place)
        closing.add_series(alert.id, testbed="apu2", **place, effect=GAIN)
        closing.add_series(alert.id, testbed="c2558", **place, effect=GAIN)

    after = ledger.alerts.get(alert.id)
    assert after.effects == alert.effects
    assert after.series[:2] == alert.series
    assert [(one.testbed, one.effect, one.at) for one in after.series[2:]] == [
        ("apu2", None, 2000.0)
    ]
    assert [one.what for one in ledger.alerts.changes(alert.id)] == [
        "confirmed",
        "seen in inet4-forwarding on apu2, main too",
    ]


# ------------------------------------------------------------------------------ candidates


def test_a_candidate_is_nobodys_business_until_it_is_confirmed(
    ledger: Ledger, clock: Clock
) -> None:
    """Then it is announced under its number, with the numbers of the confirmation alone."""
    candidate, comparison = suspect(ledger)
    assert (candidate.state, candidate.effects) == (AlertState.CANDIDATE, ())
    assert ledger.alerts.all() == []
    assert ledger.alerts.all_open() == []
    assert ledger.alerts.all(candidates=True) == [candidate]
    assert ledger.alerts.of_job(comparison) == candidate

    to(ledger, candidate, AlertState.CONFIRMING)
    clock.now = 2000.0
    with ledger.jobs.closing(ledger.jobs.get(comparison), Confirmed((DROP,))) as closing:
        alert = closing.open_alert([DROP], what="confirmed")

    assert (alert.id, alert.state, alert.announced_at) == (candidate.id, AlertState.OPEN, 2000.0)
    assert alert.effects == (DROP,)
    assert [one.effect for one in alert.series] == [None, DROP]
    assert ledger.alerts.all() == [alert]


@pytest.mark.both_databases
def test_alerts_are_found_by_how_they_are_and_by_when_something_was_done(
    ledger: Ledger, clock: Clock
) -> None:
    """No candidate is among those that were announced, wherever it is asked for them."""
    clock.now = 1 * DAY
    first = announce(ledger, "r1", "r5", DROP)
    clock.now = 2 * DAY
    second = announce(ledger, "r6", "r9", DROP)
    clock.now = 3 * DAY
    candidate, _ = suspect(ledger)
    clock.now = 50 * DAY
    to(ledger, first, AlertState.ACKNOWLEDGED)
    over = to(ledger, second, AlertState.INVALID)

    def ids(alerts: Sequence[Alert]) -> list[int]:
        return [one.id for one in alerts]

    assert ids(ledger.alerts.pending()) == [first.id, candidate.id]
    assert ids(ledger.alerts.current(50 * DAY)) == [first.id, over.id]
    assert ids(ledger.alerts.current(50 * DAY + 1)) == [first.id]
    assert ids(ledger.alerts.begun(2 * DAY)) == [over.id, candidate.id]
    assert ids(ledger.alerts.latest(9)) == [over.id, first.id]  # that with the higher number first
    assert ids(ledger.alerts.latest(1)) == [over.id]
    oldest = ledger.alerts.first()
    assert oldest is not None
    assert oldest.id == first.id
    assert set(ledger.alerts.change_counts([over.id])) == {over.id}
    assert set(ledger.alerts.change_counts()) == {first.id, over.id, candidate.id}


def test_nothing_was_announced_yet(ledger: Ledger) -> None:
    suspect(ledger)

    assert ledger.alerts.first() is None
    assert ledger.alerts.latest(9) == []


def test_a_candidate_that_is_not_confirmed_is_withdrawn_in_silence(ledger: Ledger) -> None:
    """It was never an alert, and cannot be reopened."""
    candidate, comparison = suspect(ledger)
    with ledger.jobs.closing(ledger.jobs.get(comparison), NotConfirmed((), "gone")) as closing:
        closing.change_alert(candidate.id, what="gone", state=AlertState.WITHDRAWN)

    assert ledger.alerts.all() == []
    with pytest.raises(StoreError, match="was never announced"):
        to(ledger, candidate, AlertState.REOPENED)


def test_only_a_comparison_confirms_a_candidate(ledger: Ledger) -> None:
    """A night does not."""
    night = ledger.jobs.add(NightlyJob("main", "c2558", "r20", (PF,), 3), key="night")
    with (
        pytest.raises(StoreError, match="is no comparison"),
        ledger.jobs.closing(night, NightlyResult(3)) as closing,
    ):
        closing.open_candidate(night, kind=AlertKind.DROP, what="?")


def test_nothing_measured_is_nothing_to_announce(ledger: Ledger) -> None:
    """An alert has numbers."""
    record = ledger.jobs.add(CompareJob("main", "t", "r1", "r2", (PF,), PF, -0.1), key="c")
    with (
        pytest.raises(StoreError, match="measured no effect to announce"),
        ledger.jobs.closing(record, Confirmed(())) as closing,
    ):
        closing.open_alert([], what="?")

    assert ledger.alerts.all(candidates=True) == []


# -------------------------------------------------------------------------------- one event


@pytest.mark.both_databases
def test_one_culprit_is_one_event(ledger: Ledger, clock: Clock) -> None:
    """The alert that was announced first has the series of both from then on."""
    first = named(ledger, announce(ledger))
    clock.now = 2000.0
    second = named(ledger, announce(ledger, "r12", "r18", testbed="apu2"))
    night = ledger.jobs.add(NightlyJob("main", "apu2", "r20", (PF,), 3), key="night")
    with ledger.jobs.closing(night, NightlyResult(3)) as closing:
        stands = closing.join_same_culprit(second.id)

    later = ledger.alerts.get(second.id)
    assert stands == ledger.alerts.get(first.id)
    assert (later.state, later.merged_into) == (AlertState.MERGED, first.id)
    assert stands.series == first.series + second.series
    assert later.series == second.series
    assert ledger.alerts.all_open() == [stands]
    assert ledger.alerts.of_culprit("r15") == [stands, later]
    assert "alert 2 is the same event" in ledger.alerts.changes(first.id)[-1].what
    with pytest.raises(StoreError, match="alert 2 was merged into alert 1; it is alert 1 that"):
        to(ledger, second, AlertState.MUTED, until=9000.0)


def test_an_alert_alone_with_its_culprit_stays_what_it_is(ledger: Ledger) -> None:
    """Another culprit, another kind, or none at all: nothing is merged."""
    alert = named(ledger, announce(ledger))
    gain = named(ledger, announce(ledger, "r10", "r20", GAIN, testbed="apu2"))
    none = announce(ledger, testbed="other")
    night = ledger.jobs.add(NightlyJob("main", "apu2", "r20", (PF,), 3), key="night")
    with ledger.jobs.closing(night, NightlyResult(3)) as closing:
        for one in (alert, gain, none):
            assert closing.join_same_culprit(one.id) == one


def test_a_chain_of_mergers_leads_to_its_root(ledger: Ledger) -> None:
    """Whatever their order."""
    one, two, three = (named(ledger, announce(ledger, testbed=f"t{i}")) for i in range(3))
    ledger.alerts.merge(three.id, two.id, who="olga", what="same commit")
    root = ledger.alerts.merge(two.id, one.id, who="olga", what="same commit")

    assert ledger.alerts.get(three.id).merged_into == one.id
    assert {series.testbed for series in root.series} == {"t0", "t1", "t2"}


def test_what_is_not_one_event_is_not_merged(ledger: Ledger) -> None:
    """Nor is an alert with itself."""
    one, two = named(ledger, announce(ledger)), announce(ledger, testbed="apu2")

    for later, earlier in ((two.id, one.id), (one.id, one.id)):
        with pytest.raises(StoreError, match="are not one event: only two standing alerts"):
            ledger.alerts.merge(later, earlier, who="olga", what="?")
    assert ledger.alerts.all_open() == [one, two]


# ---------------------------------------------------------------------------- coming back


@pytest.mark.both_databases
def test_what_comes_back_within_thirty_days_opens_its_alert_again(
    ledger: Ledger, clock: Clock
) -> None:
    """With its new numbers beside the old ones, and its culprit to be found anew."""
    alert = named(ledger, announce(ledger))
    clock.now = 2000.0
    to(ledger, alert, AlertState.FIXED, recovery="r25")
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
    assert [one.state for one in ledger.alerts.changes(alert.id)] == [
        AlertState.OPEN,
        AlertState.CULPRIT_FOUND,
        AlertState.FIXED,
        AlertState.REOPENED,
    ]


def test_afterwards_and_elsewhere_it_is_a_new_one(ledger: Ledger, clock: Clock) -> None:
    """Another testbed, kind, or scenario and range, or a day too late."""
    alert = announce(ledger)
    to(ledger, alert, AlertState.FIXED)
    clock.now += DAY

    others = [
        announce(ledger, testbed="apu2"),
        announce(ledger, "r10", "r20", GAIN),
        announce(ledger, "r25", "r30", replace(DROP, scenario=PF)),
    ]
    clock.now += REOPENING_SECONDS
    others.append(announce(ledger, "r30", "r31"))

    assert [one.id for one in others] == [2, 3, 4, 5]
    assert all(one.state is AlertState.OPEN for one in others)


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
    alert = to(ledger, announce(ledger), AlertState.WITHDRAWN)

    again = announce(ledger, good, bad, replace(DROP, scenario=PF))

    assert (again.id == alert.id) == reopened


def test_muting_ends_by_itself(ledger: Ledger, clock: Clock) -> None:
    """At its date, and only then."""
    alert = to(ledger, announce(ledger), AlertState.MUTED, until=5000.0)
    other = announce(ledger, testbed="apu2")

    assert end_mutes(ledger) == []
    clock.now = 5000.0
    [again] = end_mutes(ledger)

    assert (again.id, again.state, again.muted_until) == (alert.id, AlertState.REOPENED, None)
    assert end_mutes(ledger) == []
    assert ledger.alerts.all_open() == [again, other]


def test_a_change_is_told_in_the_thread_to_those_who_were_told_before(
    ledger: Ledger, clock: Clock
) -> None:
    """With its reason; what nobody needs to know, or never heard of, is not mailed."""
    alert, unheard = announce(ledger), announce(ledger, testbed="apu2")
    first = ledger.mails.post(
        "first", subject="-9.5 %", recipients=["net@example.org"], body="", alert=alert.id
    )

    def tell(now: Alert) -> str:
        return f"now {now.state.value}"

    to(ledger, alert, AlertState.MUTED, until=5000.0, tell=tell)
    to(ledger, unheard, AlertState.FIXED, tell=tell)
    assert len(ledger.mails.waiting()) == 1

    clock.now = 5000.0
    end_mutes(ledger)
    to(ledger, alert, AlertState.INVALID, tell=tell)
    _, reopened, invalid = ledger.mails.waiting()
    assert "Alert 1 is reopened." in reopened.body
    assert (invalid.body, invalid.subject) == ("now invalid", "Re: -9.5 %")
    assert invalid.recipients == first.recipients
    assert invalid.references == (first.message_id, reopened.message_id)


def test_what_happened_lately_can_be_looked_up(ledger: Ledger, clock: Clock) -> None:
    """By the time of the last changes."""
    old, new = announce(ledger), announce(ledger, testbed="apu2")
    clock.now = 2000.0
    fixed = to(ledger, new, AlertState.FIXED)

    assert ledger.alerts.changed_since(1000.0) == [old, fixed]
    assert ledger.alerts.changed_since(1000.1) == [fixed]
    assert ledger.alerts.changed_since(2000.1) == []
