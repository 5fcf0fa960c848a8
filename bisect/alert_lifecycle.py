"""Alert lifecycle: applies changes; `alert_state.ALLOWED` lists the transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netbisect.bisect.model.alert_state import (
    ALLOWED,
    REVOKED,
    AlertAction,
    AlertKind,
    AlertState,
    AlertTransitionError,
)
from netbisect.bisect.model.results import Culprit, NotReproduced, Result, SeveralCulprits

REOPENING_SECONDS = 30 * 86400.0
"""A change that recurs within this time reopens its alert."""


@dataclass(frozen=True, slots=True)
class AlertStatus:
    """Status of an alert; times are seconds since the epoch."""

    kind: AlertKind
    state: AlertState
    culprit: str = ""
    """Revision, or ""."""
    muted_until: float | None = None
    announced_at: float | None = None
    """Time of the first mail; None if never announced."""
    closed_at: float | None = None
    recovery: str = ""
    """First recovered revision, or ""."""
    merged_into: int | None = None


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of an alert, with author and reason."""

    action: AlertAction
    at: float
    who: str
    why: str
    culprit: str = ""
    """With NAME."""
    until: float | None = None
    """With MUTE: its end."""
    recovery: str = ""
    """With FIX."""
    into: int | None = None
    """With MERGE: the earlier alert."""


def apply_change(number: int, life: AlertStatus, change: StatusChange) -> AlertStatus:
    """The status after a change.

    Raises:
        AlertTransitionError: The transition is not allowed, or the change is incomplete.
    """
    state = ALLOWED[change.action].get(life.state)
    if state is None:
        raise AlertTransitionError(_refusal(number, life, change.action))
    if change.action is AlertAction.REOPEN and life.announced_at is None:
        raise AlertTransitionError(
            f"alert {number} was never announced, so there is nothing to reopen"
        )
    if not change.who.strip() or not change.why.strip():
        missing = "an author" if not change.who.strip() else "a reason"
        raise AlertTransitionError(
            f"a change of alert {number} needs {missing}, and none was given"
        )
    if change.action is AlertAction.NAME and not (change.culprit or life.culprit):
        raise AlertTransitionError(f"alert {number} can only be given its culprit with a revision")
    if change.action is AlertAction.MUTE and (change.until is None or change.until <= change.at):
        raise AlertTransitionError(f"alert {number} can only be muted until a time in the future")
    if change.action is AlertAction.MERGE and (change.into is None or change.into == number):
        raise AlertTransitionError(f"alert {number} can only be merged into another alert")
    ends = state.ended and not life.state.ended
    recovered = change if ends and state is AlertState.FIXED else life
    merging = change.action is AlertAction.MERGE
    return replace(
        life,
        state=state,
        culprit=change.culprit or life.culprit,
        muted_until=_muted_until(life, state, change),
        announced_at=change.at if change.action is AlertAction.ANNOUNCE else life.announced_at,
        closed_at=change.at if ends else life.closed_at if state.ended else None,
        recovery=recovered.recovery if state.ended else "",
        merged_into=change.into if merging else life.merged_into,
    )


def _muted_until(life: AlertStatus, state: AlertState, change: StatusChange) -> float | None:
    if state is not AlertState.MUTED:
        return None
    return change.until if change.action is AlertAction.MUTE else life.muted_until


def _refusal(number: int, life: AlertStatus, action: AlertAction) -> str:
    if life.state is AlertState.MERGED:
        return (
            f"alert {number} was merged into alert {life.merged_into}; "
            f"it is alert {life.merged_into} that can be changed"
        )
    allowed = [state.value for state in ALLOWED[action]]
    listed = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if allowed[1:] else allowed)
    return (
        f"alert {number} is {life.state.value}; "
        f"only an alert that is {listed} can be {action.value}"
    )


# ------------------------------------------------------------------------------- consequences


def is_mailed(before: AlertState, after: AlertState) -> bool:
    """Whether a change of state is mailed.

    Opening and reopening always; later changes unless the alert is silent.
    """
    if before is after:
        return False
    if after in {AlertState.OPEN, AlertState.REOPENED}:
        return True
    news = {AlertState.CULPRIT_FOUND, AlertState.NO_CULPRIT, AlertState.FIXED, *REVOKED}
    return after in news and not before.silent


def after_search(result: Result) -> AlertState:
    """The state after the result of a bisection."""
    match result:
        case Culprit() | SeveralCulprits():
            return AlertState.CULPRIT_FOUND
        case NotReproduced():
            return AlertState.WITHDRAWN
        case _:
            return AlertState.NO_CULPRIT


def same_event(earlier: AlertStatus, later: AlertStatus) -> bool:
    """Whether two standing alerts have the same kind and culprit."""
    return (
        earlier.culprit != ""
        and (earlier.culprit, earlier.kind) == (later.culprit, later.kind)
        and earlier.state.standing
        and later.state.standing
    )


def recurs(ended: AlertStatus, kind: AlertKind, now: float) -> bool:
    """Whether a new change of the same series reopens this alert."""
    return (
        ended.state in ALLOWED[AlertAction.REOPEN]
        and ended.kind is kind
        and ended.announced_at is not None
        and ended.closed_at is not None
        and now - ended.closed_at <= REOPENING_SECONDS
    )
