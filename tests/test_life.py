"""The life of an alert: which changes there are, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.life import (
    REOPENING_SECONDS,
    Change,
    Life,
    after_search,
    changed,
    due,
    one_event,
    recovery,
    returns,
    told,
)
from netbisect.bisect.model import (
    Belief,
    Culprit,
    Drift,
    Effect,
    Finding,
    Level,
    Noise,
    NotReproduced,
    Several,
    Suspects,
    Unfinished,
)
from netbisect.bisect.states import (
    ALLOWED,
    Action,
    AlertKind,
    AlertState,
    LifeError,
    towards,
)

DAY = 86400.0
STATES = st.sampled_from(AlertState)
ACTIONS = st.sampled_from(Action)
PEOPLE = (
    Action.ACKNOWLEDGE,
    Action.MUTE,
    Action.REOPEN,
    Action.FIX,
    Action.INVALIDATE,
    Action.INFRA,
)


def alive(state: AlertState, **properties: object) -> Life:
    """An alert in this state, with what goes with it."""
    life = Life(AlertKind.DROP, state)
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


def change(action: Action, at: float = 100.0, **properties: object) -> Change:
    """An action with all that belongs to it."""
    given: dict[str, object] = {
        Action.NAME: {"culprit": "r15"},
        Action.MUTE: {"until": at + DAY},
        Action.FIX: {"recovery": "r30"},
        Action.MERGE: {"into": 3},
    }.get(action, {})
    return Change(action, at, "olga", "because", **{**given, **properties})


# -------------------------------------------------------------------------------- the table


@given(state=STATES, action=ACTIONS)
def test_a_change_is_in_the_table_or_refused_with_a_sentence(
    state: AlertState, action: Action
) -> None:
    """And the sentence says what would be allowed."""
    life = alive(state)
    if state in ALLOWED[action]:
        assert changed(7, life, change(action)).state is ALLOWED[action][state]
        return
    with pytest.raises(LifeError) as caught:
        changed(7, life, change(action))

    said = str(caught.value)
    assert said.startswith("alert 7 ")
    assert "\n" not in said
    if state is AlertState.MERGED:
        assert said == "alert 7 was merged into alert 3; it is alert 3 that can be changed"
    else:
        assert f"is {state.value}; only an alert that is" in said
        assert all(one.value in said for one in ALLOWED[action])


def test_a_refusal_names_the_states_that_would_do() -> None:
    """Such as this one."""
    with pytest.raises(LifeError) as caught:
        changed(7, alive(AlertState.FIXED), change(Action.SEARCH))

    assert str(caught.value) == (
        "alert 7 is fixed; only an alert that is open, bisecting, no-culprit or reopened "
        "can be searched"
    )


@given(st.lists(st.tuples(ACTIONS, st.floats(0, 40 * DAY)), max_size=25))
def test_whatever_is_done_an_alert_is_whole(steps: list[tuple[Action, float]]) -> None:
    """Its times and names fit its state, after any sequence of changes."""
    life, now = Life(AlertKind.DROP, AlertState.CANDIDATE), 0.0
    for action, passes in steps:
        now += passes
        before = life
        try:
            life = changed(7, life, change(action, now))
        except LifeError:
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
def test_a_standing_alert_is_lost_only_by_an_action_that_ends_it(
    state: AlertState, action: Action
) -> None:
    """A search that finds nothing, a date or an acknowledgement does not."""
    after = ALLOWED[action].get(state)
    if state.standing and after is not None and not after.standing:
        assert after is action.aim
        assert after.ended


@given(state=STATES)
def test_a_search_that_ends_late_is_never_refused_once_it_was_announced(state: AlertState) -> None:
    """What people have decided meanwhile, and an end, stay as they are."""
    if state in {AlertState.CANDIDATE, AlertState.CONFIRMING}:
        return
    for action in (Action.NAME, Action.GIVE_UP, Action.WITHDRAW):
        after = changed(7, alive(state), change(action)).state
        if state.ended:
            assert after is state
        if action is not Action.WITHDRAW and state in {AlertState.ACKNOWLEDGED, AlertState.MUTED}:
            assert after is state


def test_a_late_name_is_remembered() -> None:
    """Of a muted alert the culprit is known all the same."""
    life = changed(7, alive(AlertState.MUTED), change(Action.NAME))

    assert (life.state, life.culprit, life.muted_until) == (AlertState.MUTED, "r15", 10 * DAY)


def test_every_state_can_be_reached_and_nothing_is_a_trap_but_a_merger() -> None:
    """From the first suspicion on; and from everywhere something leads on."""
    reached, waiting = {AlertState.CANDIDATE}, [AlertState.CANDIDATE]
    while waiting:
        state = waiting.pop()
        onward = {row[state] for row in ALLOWED.values() if state in row} - {state}
        assert onward or state is AlertState.MERGED
        waiting += onward - reached
        reached |= onward

    assert reached == set(AlertState)


def test_each_state_is_the_aim_of_one_action() -> None:
    """By which it is asked for; nothing leads to a candidate."""
    for state in set(AlertState) - {AlertState.CANDIDATE}:
        assert towards(state).aim is state
    assert towards(None) is Action.NOTE
    assert Action.NOTE.aim is None
    with pytest.raises(LifeError, match="no alert becomes a candidate"):
        towards(AlertState.CANDIDATE)


@pytest.mark.parametrize(
    ("state", "wrong", "why"),
    [
        (AlertState.OPEN, Change(Action.NAME, 1.0, "me", "why"), "with a revision"),
        (AlertState.OPEN, Change(Action.MUTE, 1.0, "me", "why"), "a time in the future"),
        (AlertState.OPEN, Change(Action.MUTE, 1.0, "me", "why", until=1.0), "in the future"),
        (AlertState.OPEN, Change(Action.MERGE, 1.0, "me", "why"), "into another alert"),
        (AlertState.OPEN, Change(Action.MERGE, 1.0, "me", "why", into=7), "into another alert"),
        (AlertState.OPEN, Change(Action.FIX, 1.0, "me", "  "), "needs a reason, and none"),
        (AlertState.OPEN, Change(Action.FIX, 1.0, "", "why"), "needs an author, and none"),
    ],
)
def test_what_belongs_to_a_change_must_be_there(state: AlertState, wrong: Change, why: str) -> None:
    """Said in a sentence, and nothing is changed."""
    with pytest.raises(LifeError, match=why):
        changed(7, alive(state), wrong)


def test_what_was_never_announced_cannot_be_reopened() -> None:
    """A candidate that was withdrawn has no numbers to stand for."""
    life = changed(7, alive(AlertState.CANDIDATE), change(Action.WITHDRAW))

    with pytest.raises(LifeError, match="alert 7 was never announced"):
        changed(7, life, change(Action.REOPEN))


def test_a_fixed_alert_keeps_its_end_until_it_is_open_again() -> None:
    """Then it has neither end nor recovery."""
    fixed = changed(7, alive(AlertState.OPEN), change(Action.FIX, 50.0))
    assert (fixed.closed_at, fixed.recovery) == (50.0, "r30")
    noted = changed(7, fixed, change(Action.NAME, 60.0))
    assert (noted.closed_at, noted.recovery, noted.culprit) == (50.0, "r30", "r15")

    again = changed(7, noted, change(Action.REOPEN, 70.0))
    assert (again.state, again.closed_at, again.recovery) == (AlertState.REOPENED, None, "")


# ------------------------------------------------------------------------------- what follows


def test_which_states_stand_are_silent_and_may_be_searched() -> None:
    """As docs/alerts.md has it."""
    standing = {one.value for one in AlertState if one.standing}
    silent = {one.value for one in AlertState if one.silent}
    searchable = {one.value for one in AlertState if one.searchable}

    assert standing == {
        "open",
        "bisecting",
        "culprit-found",
        "no-culprit",
        "reopened",
        "acknowledged",
        "muted",
    }
    assert silent == {
        "candidate",
        "confirming",
        "muted",
        "invalid",
        "infra",
        "withdrawn",
        "merged",
    }
    assert searchable == {"open", "bisecting", "no-culprit", "reopened"}


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
def test_who_was_told_of_the_beginning_is_told_of_the_end(
    before: str, after: str, mailed: bool
) -> None:
    """Unless it was muted; and what nobody heard of ends in silence."""
    assert told(AlertState(before), AlertState(after)) is mailed


BELIEF = Belief({"r15": 0.99}, 0.01)
CULPRIT = Culprit("r15", "r14", BELIEF, (Effect("s", -0.1, -0.2, -0.05, 0.01, 5, 5),))


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (CULPRIT, AlertState.CULPRIT_FOUND),
        (Several((CULPRIT, CULPRIT), BELIEF), AlertState.CULPRIT_FOUND),
        (NotReproduced(BELIEF, "nothing changed"), AlertState.WITHDRAWN),
        (Suspects(("r14", "r15"), BELIEF, "twins"), AlertState.NO_CULPRIT),
        (Drift(BELIEF, "bit by bit"), AlertState.NO_CULPRIT),
        (Unfinished("no money"), AlertState.NO_CULPRIT),
    ],
)
def test_what_a_search_finds_says_what_becomes_of_the_alert(
    finding: Finding, state: AlertState
) -> None:
    """A change that is there stands, with or without a commit."""
    assert after_search(finding) is state


def test_the_kind_of_a_step_is_its_sign() -> None:
    """Slower is a drop."""
    drop = Effect("s", -0.1, -0.2, -0.05, 0.01, 5, 5)
    assert AlertKind.of(drop) is AlertKind.DROP
    assert AlertKind.of(replace(drop, ln_ratio=0.1)) is AlertKind.IMPROVEMENT


def test_two_series_with_one_culprit_are_one_event() -> None:
    """Of one kind, and while both stand."""
    known = alive(AlertState.CULPRIT_FOUND)

    assert one_event(known, known)
    assert one_event(replace(known, state=AlertState.ACKNOWLEDGED), known)
    assert not one_event(known, replace(known, culprit="r16"))
    assert not one_event(known, replace(known, kind=AlertKind.IMPROVEMENT))
    assert not one_event(replace(known, state=AlertState.FIXED), known)
    assert not one_event(alive(AlertState.OPEN), alive(AlertState.OPEN))


@pytest.mark.parametrize("state", [one for one in AlertState if one.ended])
def test_what_comes_back_within_thirty_days_is_the_same(state: AlertState) -> None:
    """Afterwards, and for another kind, it is a new one."""
    over = alive(state, closed_at=1000.0)
    back = state is not AlertState.MERGED

    assert returns(over, AlertKind.DROP, 1000.0 + REOPENING_SECONDS) is back
    assert not returns(over, AlertKind.DROP, 1001.0 + REOPENING_SECONDS)
    assert not returns(over, AlertKind.IMPROVEMENT, 1001.0)
    assert not returns(replace(over, announced_at=None), AlertKind.DROP, 1001.0)


def test_what_stands_does_not_come_back() -> None:
    """It is there."""
    assert not returns(alive(AlertState.ACKNOWLEDGED), AlertKind.DROP, 10.0)


def test_muting_ends_by_itself_at_its_date() -> None:
    """Not before; and only muting does."""
    muted = alive(AlertState.MUTED, muted_until=50.0)

    assert not due(muted, 49.9)
    assert due(muted, 50.0)
    assert not due(alive(AlertState.OPEN), 50.0)


# ----------------------------------------------------------------------------------- recovery

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
def test_a_level_is_back_after_three_in_a_row(
    after: tuple[float, ...], noise: Noise, back: str | None
) -> None:
    """Within 1 % or one standard deviation between images, whichever is more."""
    effect = math.log(0.9)

    assert recovery(BEFORE, levels(*after), noise, effect) == back


def test_a_gain_is_lost_when_the_level_is_down_again() -> None:
    """Seen from the other side."""
    gain = math.log(1.1)

    assert recovery(BEFORE, levels(110, 100, 100.5, 99), QUIET, gain) == "r1"
    assert recovery(BEFORE, levels(110, 109, 111, 110), QUIET, gain) is None


@given(
    drop=st.floats(0.005, 0.5),
    image=st.floats(0, 0.1),
    boots=st.integers(1, 5),
)
def test_a_level_that_stays_is_never_back(drop: float, image: float, boots: int) -> None:
    """However noisy the series, and however small the drop."""
    after = levels(*[100 * math.exp(-drop)] * 5, boots=boots)

    assert recovery(levels(100, 100, 100), after, Noise(image=image), -drop) is None


@given(st.permutations(range(5)), st.floats(0.02, 0.5))
def test_the_order_of_the_baseline_does_not_matter(order: list[int], drop: float) -> None:
    """Only the levels in it."""
    after = levels(100, 100, 100)
    shuffled = [BEFORE[i] for i in order]

    assert recovery(shuffled, after, QUIET, -drop) == recovery(BEFORE, after, QUIET, -drop)


def test_without_a_baseline_nothing_is_back() -> None:
    """There is nothing to come back to."""
    assert recovery([], levels(100, 100, 100), QUIET, -0.1) is None


@pytest.mark.parametrize("action", [one for one in PEOPLE if one is not Action.REOPEN])
def test_people_can_do_what_they_are_offered_to_an_open_alert(action: Action) -> None:
    """Everything but to open it again."""
    assert changed(7, alive(AlertState.OPEN), change(action)).state is action.aim
