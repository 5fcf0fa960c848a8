"""The life of an alert, data in, data out: what a change makes of it, and what follows.

Which changes there are stands in `states.ALLOWED`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from netbisect.bisect.model import Culprit, Finding, Level, Noise, NotReproduced, Several
from netbisect.bisect.robust import location
from netbisect.bisect.states import (
    ALLOWED,
    REVOKED,
    Action,
    AlertKind,
    AlertState,
    LifeError,
)

REOPENING_SECONDS = 30 * 86400.0
"""A change that comes back within this time after its end is the same alert, open again."""

_RECOVERED_LEVELS = 3
"""Levels in a row that must be back: one may be a lucky image."""
_RECOVERED_WITHIN = math.log(1.01)
"""Distance to the earlier level, ln ratio, that counts as back in any series: 1 %."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is so of an alert; times are seconds since the epoch."""

    kind: AlertKind
    state: AlertState
    culprit: str = ""
    """Revision; "" while there is none."""
    muted_until: float | None = None
    announced_at: float | None = None
    """When it was told to people; None while it is a candidate, or if it never was more."""
    closed_at: float | None = None
    recovery: str = ""
    """First revision whose level was back; "" while it is not, or where nobody knows it."""
    merged_into: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is done to an alert: what, when, by whom and why."""

    action: Action
    at: float
    who: str
    why: str
    culprit: str = ""
    """With NAME."""
    until: float | None = None
    """With MUTE: when it ends by itself."""
    recovery: str = ""
    """With FIX."""
    into: int | None = None
    """With MERGE: the earlier alert."""


def changed(number: int, life: Life, change: Change) -> Life:
    """What an alert is after a change.

    Args:
        number: Of the alert, for the sentence.
        life: What it is before.
        change: What is done.

    Raises:
        LifeError: the table has no such change, or something is missing that belongs to it.
    """
    state = ALLOWED[change.action].get(life.state)
    if state is None:
        raise LifeError(_refusal(number, life, change.action))
    if change.action is Action.REOPEN and life.announced_at is None:
        raise LifeError(f"alert {number} was never announced, so there is nothing to reopen")
    if not change.who.strip() or not change.why.strip():
        missing = "an author" if not change.who.strip() else "a reason"
        raise LifeError(f"a change of alert {number} needs {missing}, and none was given")
    if change.action is Action.NAME and not (change.culprit or life.culprit):
        raise LifeError(f"alert {number} can only be given its culprit with a revision")
    if change.action is Action.MUTE and (change.until is None or change.until <= change.at):
        raise LifeError(f"alert {number} can only be muted until a time in the future")
    if change.action is Action.MERGE and (change.into is None or change.into == number):
        raise LifeError(f"alert {number} can only be merged into another alert")
    ends = state.ended and not life.state.ended
    merging = change.action is Action.MERGE
    return replace(
        life,
        state=state,
        culprit=change.culprit or life.culprit,
        muted_until=_muted_until(life, state, change),
        announced_at=change.at if change.action is Action.ANNOUNCE else life.announced_at,
        closed_at=change.at if ends else life.closed_at if state.ended else None,
        recovery=change.recovery if state is AlertState.FIXED and ends else _kept(life, state),
        merged_into=change.into if merging else life.merged_into,
    )


def _muted_until(life: Life, state: AlertState, change: Change) -> float | None:
    if state is not AlertState.MUTED:
        return None
    return change.until if change.action is Action.MUTE else life.muted_until


def _kept(life: Life, state: AlertState) -> str:
    """A recovery stays known as long as the alert is over."""
    return life.recovery if state.ended else ""


def _refusal(number: int, life: Life, action: Action) -> str:
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


# ------------------------------------------------------------------------- what follows from it


def told(before: AlertState, after: AlertState) -> bool:
    """Whether people get a mail of this change.

    What begins, or is back, is told always; how it went on and ended to those only who were
    told before, and have not been spared it since.
    """
    if before is after:
        return False
    if after in {AlertState.OPEN, AlertState.REOPENED}:
        return True
    news = {AlertState.CULPRIT_FOUND, AlertState.NO_CULPRIT, AlertState.FIXED, *REVOKED}
    return after in news and not before.silent


def after_search(finding: Finding) -> AlertState:
    """The state to which the answer of a bisection brings its alert."""
    match finding:
        case Culprit() | Several():
            return AlertState.CULPRIT_FOUND
        case NotReproduced():
            return AlertState.WITHDRAWN
        case _:
            return AlertState.NO_CULPRIT


def one_event(earlier: Life, later: Life) -> bool:
    """Whether two alerts are one event: both stand, and one commit made both changes.

    A commit that made one thing slower and another one faster is two events.
    """
    return (
        earlier.culprit != ""
        and (earlier.culprit, earlier.kind) == (later.culprit, later.kind)
        and earlier.state.standing
        and later.state.standing
    )


def returns(ended: Life, kind: AlertKind, now: float) -> bool:
    """Whether a change of this kind, in the same place, is this alert come back."""
    return (
        ended.state in ALLOWED[Action.REOPEN]
        and ended.kind is kind
        and ended.announced_at is not None
        and ended.closed_at is not None
        and now - ended.closed_at <= REOPENING_SECONDS
    )


def due(life: Life, now: float) -> bool:
    """Whether it is muted, and its date has come."""
    return (
        life.state is AlertState.MUTED and life.muted_until is not None and life.muted_until <= now
    )


# ----------------------------------------------------------------------------------- recovery


def recovery(
    before: Sequence[Level], after: Sequence[Level], noise: Noise, effect: float
) -> str | None:
    """The revision with which a level came back, or None while it is not back.

    It is back when the last three levels are within 1 %, or one standard deviation of a level
    between images if that is more, of the robust level before the alert, and nearer to it than
    to the level of the alert; further than back is back too. The first of the unbroken row of
    such levels at the end is the recovery.

    Args:
        before: The baseline that the alert was held against; no level of it, no recovery.
        after: Levels since the change, in the order of the branch.
        noise: Of the series.
        effect: That the alert announced, ln ratio: the sign says where back is.
    """
    if not before:
        return None
    spread = max(math.sqrt(noise.variance_of_mean(1)), 1e-6)
    level = location([one.mean for one in before], spread)
    sign = 1 if effect < 0 else -1

    def back(one: Level) -> bool:
        sd = math.sqrt(noise.variance_of_mean(len(one.ln_pps)))
        within = min(max(_RECOVERED_WITHIN, sd), abs(effect) / 2)
        return sign * (one.mean - level) >= -within

    row = list(itertools.takewhile(back, reversed(after)))
    return row[-1].revision if len(row) >= _RECOVERED_LEVELS else None
