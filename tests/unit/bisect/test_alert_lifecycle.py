"""Transitions of alerts and their consequences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
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
STATES = st.sampled_from(AlertState)
ACTIONS = st.sampled_from(AlertAction)


def alive(state: AlertState, **properties: object) -> AlertStatus:
    """An alert in this state, with what goes with it."""
    life = AlertStatus(AlertKind.DROP, state)
    if state not in {AlertState.CANDIDATE, AlertState.CONFIRMING}:
        life = replace(life, announced_at=1.0)
    if state.ended:
        life = replace(life, closed_at=2.0)
    if state is AlertState.MUTED:
        life = replace(life, muted_until=10 * DAY)
    if state is AlertState.CULPRIT_FOUND:
        life = replace(life, culprit="r15")
    if state is AlertState.MERGED:
        life = replace(life, merged_into=3)
    return replace(life, **properties)


def change(action: AlertAction, at: float = 100.0, **properties: object) -> StatusChange:
    """An action with all that belongs to it."""
    given: dict[str, object] = {
        AlertAction.NAME: {"culprit": "r15"},
        AlertAction.MUTE: {"until": at + DAY},
        AlertAction.FIX: {"recovery": "r30"},
        AlertAction.MERGE: {"into": 3},
    }.get(action, {})
    return StatusChange(action, at, "olga", "because", **{**given, **properties})


@given(state=STATES, action=ACTIONS)
def test_transition_is_allowed_or_rejected(state: AlertState, action: AlertAction) -> None:
    life = alive(state)
    if state in ALLOWED[action]:
        assert apply_change(7, life, change(action)).state is ALLOWED[action][state]
        return
    with pytest.raises(AlertTransitionError) as caught:
        apply_change(7, life, change(action))

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
    """Its times and names fit its state, after any sequence of changes."""
    life, now = AlertStatus(AlertKind.DROP, AlertState.CANDIDATE), 0.0
    for action, passes in steps:
        now += passes
        before = life
        try:
            life = apply_change(7, life, change(action, now))
        except AlertTransitionError:
            assert life is before
            continue
        assert life.state in ALLOWED[action].values()
        assert (life.closed_at is not None) == life.state.ended
        assert (life.muted_until is not None) == (life.state is AlertState.MUTED)
        assert (life.merged_into is not None) == (life.state is AlertState.MERGED)
        assert not life.recovery or life.state.ended
        assert not life.state.standing or life.announced_at is not None
        if life.state is AlertState.CULPRIT_FOUND:
            assert life.culprit
        if before.announced_at is not None:
            assert life.announced_at == before.announced_at


@given(state=STATES, action=ACTIONS)
def test_only_ending_actions_end_an_alert(state: AlertState, action: AlertAction) -> None:
    after = ALLOWED[action].get(state)
    if state.standing and after is not None and not after.standing:
        assert action_for(after) is action
        assert after.ended


def test_states_are_reachable_and_only_merged_is_final() -> None:
    """From the first suspicion on; and from everywhere something leads on."""
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
        apply_change(7, alive(AlertState.OPEN), wrong)


@pytest.mark.parametrize(
    ("before", "after", "mailed"),
    [
        ("candidate", "confirming", False),
        ("confirming", "open", True),
        ("confirming", "withdrawn", False),
        ("open", "bisecting", False),
        ("bisecting", "culprit-found", True),
        ("bisecting", "no-culprit", True),
        ("bisecting", "withdrawn", True),
        ("open", "acknowledged", False),
        ("acknowledged", "fixed", True),
        ("open", "muted", False),
        ("muted", "fixed", False),
        ("muted", "reopened", True),
        ("muted", "muted", False),
        ("fixed", "reopened", True),
        ("open", "invalid", True),
        ("invalid", "infra", False),
        ("culprit-found", "merged", False),
    ],
)
def test_end_is_mailed_if_the_beginning_was(before: str, after: str, mailed: bool) -> None:
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
    """A change that is there stands, with or without a commit."""
    assert after_search(result) is state


QUIET = Noise(boot=0.002, image=0.002)


def levels(*percents: float, boots: int = 3) -> list[Level]:
    """Levels as percentages of 1 Mpps."""
    return [
        Level(f"r{i}", f"image {i}", float(i), (math.log(1e4 * percent),) * boots)
        for i, percent in enumerate(percents)
    ]


BEFORE = levels(100, 100.1, 99.9, 100, 100.2)


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
    """Within 1 % or one standard deviation between images, whichever is more."""
    effect = math.log(0.9)

    assert recovery(BEFORE, levels(*after), noise, effect) == back


def test_no_recovery_without_a_baseline() -> None:
    assert recovery([], levels(100, 100, 100), QUIET, -0.1) is None
