"""Transitions of alerts and their consequences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from histories import nights
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.alert_lifecycle import (
    AlertStatus,
    StatusChange,
    after_search,
    apply_change,
    is_mailed,
)
from netbisect.bisect.detection.recovery import recovery
from netbisect.bisect.model.alert_state import (
    ALLOWED,
    AlertAction,
    AlertKind,
    AlertState,
    AlertTransitionError,
    action_for,
)
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    Effect,
    NotReproduced,
    Posterior,
    Result,
    SeveralCulprits,
    Suspects,
    Unfinished,
)

DAY = 86400.0
ACTIONS = st.sampled_from(AlertAction)


def status_in(state: AlertState, **properties: object) -> AlertStatus:
    """The status of an alert in this state, with consistent fields."""
    status = AlertStatus(AlertKind.DROP, state)
    if state not in {AlertState.CANDIDATE, AlertState.CONFIRMING}:
        status = replace(status, announced_at=1.0)
    if state.ended:
        status = replace(status, closed_at=2.0)
    if state is AlertState.MUTED:
        status = replace(status, muted_until=10 * DAY)
    if state is AlertState.CULPRIT_FOUND:
        status = replace(status, culprit="r15")
    if state is AlertState.MERGED:
        status = replace(status, merged_into=3)
    return replace(status, **properties)


def change(action: AlertAction, at: float = 100.0, **properties: object) -> StatusChange:
    """An action with all required fields."""
    required: dict[str, object] = {
        AlertAction.NAME: {"culprit": "r15"},
        AlertAction.MUTE: {"until": at + DAY},
        AlertAction.FIX: {"recovery": "r30"},
        AlertAction.MERGE: {"into": 3},
    }.get(action, {})
    return StatusChange(action, at, "olga", "because", **{**required, **properties})


@given(state=st.sampled_from(AlertState), action=ACTIONS)
def test_transition_is_allowed_or_rejected(state: AlertState, action: AlertAction) -> None:
    """Only the ending actions end an alert."""
    status, after = status_in(state), ALLOWED[action].get(state)
    if after is not None:
        assert apply_change(7, status, change(action)).state is after
        if state.standing and not after.standing:
            assert action_for(after) is action
            assert after.ended
        return
    with pytest.raises(AlertTransitionError) as caught:
        apply_change(7, status, change(action))

    message = str(caught.value)
    assert message.startswith("alert 7 ")
    assert "\n" not in message
    if state is AlertState.MERGED:
        assert message == "alert 7 was merged into alert 3; it is alert 3 that can be changed"
    else:
        assert f"is {state.value}; only an alert that is" in message
        assert all(one.value in message for one in ALLOWED[action])


@given(st.lists(st.tuples(ACTIONS, st.floats(0, 40 * DAY)), max_size=25))
def test_status_is_always_consistent(steps: list[tuple[AlertAction, float]]) -> None:
    """Times and revisions match the state after any sequence of changes."""
    status, now = AlertStatus(AlertKind.DROP, AlertState.CANDIDATE), 0.0
    for action, elapsed in steps:
        now += elapsed
        before = status
        try:
            status = apply_change(7, status, change(action, now))
        except AlertTransitionError:
            assert status is before
            continue
        assert status.state in ALLOWED[action].values()
        assert (status.closed_at is not None) == status.state.ended
        assert (status.muted_until is not None) == (status.state is AlertState.MUTED)
        assert (status.merged_into is not None) == (status.state is AlertState.MERGED)
        assert not status.recovery or status.state.ended
        assert not status.state.standing or status.announced_at is not None
        if status.state is AlertState.CULPRIT_FOUND:
            assert status.culprit
        if before.announced_at is not None:
            assert status.announced_at == before.announced_at


def test_states_are_reachable_and_only_merged_is_final() -> None:
    """All states are reachable from `candidate`, and all but `merged` have a transition."""
    reached, waiting = {AlertState.CANDIDATE}, [AlertState.CANDIDATE]
    while waiting:
        state = waiting.pop()
        onward = {row[state] for row in ALLOWED.values() if state in row} - {state}
        assert onward or state is AlertState.MERGED
        waiting += onward - reached
        reached |= onward

    assert reached == set(AlertState)


@pytest.mark.parametrize(
    ("action", "more", "why"),
    [
        (AlertAction.NAME, {"culprit": ""}, "with a revision"),
        (AlertAction.MUTE, {"until": None}, "a time in the future"),
        (AlertAction.MUTE, {"until": 1.0}, "in the future"),
        (AlertAction.MERGE, {"into": None}, "into another alert"),
        (AlertAction.MERGE, {"into": 7}, "into another alert"),
        (AlertAction.FIX, {"why": "  "}, "needs a reason, and none"),
        (AlertAction.FIX, {"who": ""}, "needs an author, and none"),
    ],
)
def test_incomplete_change_is_rejected(
    action: AlertAction, more: dict[str, object], why: str
) -> None:
    wrong = replace(change(action, 1.0), **more)  # type: ignore[arg-type] # on purpose
    with pytest.raises(AlertTransitionError, match=why):
        apply_change(7, status_in(AlertState.OPEN), wrong)


@pytest.mark.parametrize(
    ("before", "after", "mailed"),
    [
        ("candidate", "confirming", False),
        ("confirming", "open", True),
        ("confirming", "withdrawn", False),
        ("bisecting", "culprit-found", True),
        ("bisecting", "no-culprit", True),
        ("open", "acknowledged", False),
        ("acknowledged", "fixed", True),
        ("open", "muted", False),
        ("muted", "fixed", False),
        ("muted", "reopened", True),
        ("fixed", "reopened", True),
        ("open", "invalid", True),
        ("invalid", "infra", False),
        ("culprit-found", "merged", False),
    ],
)
def test_mailed_transitions(before: str, after: str, mailed: bool) -> None:
    assert is_mailed(AlertState(before), AlertState(after)) is mailed


POSTERIOR = Posterior({"r15": 0.99}, 0.01)
CULPRIT = Culprit("r15", "r14", POSTERIOR, (Effect("s", -0.1, -0.2, -0.05, 0.01, 5, 5),))


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (CULPRIT, AlertState.CULPRIT_FOUND),
        (SeveralCulprits((CULPRIT, CULPRIT), POSTERIOR), AlertState.CULPRIT_FOUND),
        (NotReproduced(POSTERIOR, "nothing changed"), AlertState.WITHDRAWN),
        (Suspects(("r14", "r15"), POSTERIOR, "one image"), AlertState.NO_CULPRIT),
        (Drift(POSTERIOR, "bit by bit"), AlertState.NO_CULPRIT),
        (Unfinished("no money"), AlertState.NO_CULPRIT),
    ],
)
def test_state_after_a_search(result: Result, state: AlertState) -> None:
    """A confirmed change keeps the alert open, with or without a culprit."""
    assert after_search(result) is state


QUIET = Noise(boot=0.002, image=0.002)


def levels(*percents: float) -> list[Level]:
    """Levels of three boots, as percentages of 1 Mpps."""
    return nights([math.log(1e4 * percent)] * 3 for percent in percents)


@pytest.mark.parametrize(
    ("after", "noise", "back"),
    [
        ((90, 90, 90, 90), QUIET, None),
        ((90, 90, 100, 100), QUIET, None),
        ((90, 90, 99.4, 100, 99.8), QUIET, "r2"),
        ((90, 100, 100, 90, 100, 100, 100, 100), QUIET, "r4"),
        ((90, 100, 100, 100, 90), QUIET, None),
        ((90, 98, 98, 98), QUIET, None),
        ((90, 98, 98, 98), Noise(boot=0.009, image=0.025), "r1"),
        ((90, 103, 102, 103), QUIET, "r1"),
        ((), QUIET, None),
    ],
)
def test_recovery_after_three_levels(
    after: tuple[float, ...], noise: Noise, back: str | None
) -> None:
    """Tolerance: 1 % or one standard deviation between images, whichever is larger."""
    before, effect = levels(100, 100.1, 99.9, 100, 100.2), math.log(0.9)

    assert recovery(before, levels(*after), noise, effect) == back
    assert recovery([], levels(*after), noise, effect) is None
