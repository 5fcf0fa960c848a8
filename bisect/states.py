"""The states of an alert, and the table of the changes between them.

An alert is a confirmed change of level, from the first suspicion until it is over. Nothing gets
round `ALLOWED`; docs/alerts.md draws it.
"""

from __future__ import annotations

from enum import StrEnum

from netbisect.bisect.model import Effect


class LifeError(Exception):
    """This cannot be done to this alert; the text says why, in one sentence."""


class AlertKind(StrEnum):
    """What changed."""

    DROP = "drop"
    IMPROVEMENT = "improvement"
    MODES = "modes"
    """How often the boots come up in a slower mode."""
    DRIFT = "drift"
    """The level, bit by bit."""

    @classmethod
    def of(cls, effect: Effect) -> AlertKind:
        """A step of level: a drop, or an improvement."""
        return cls.IMPROVEMENT if effect.ln_ratio > 0 else cls.DROP


class AlertState(StrEnum):
    """How far an alert has come."""

    CANDIDATE = "candidate"
    """Seen by the screen; nobody was told."""
    CONFIRMING = "confirming"
    """Measured again, in turns."""
    OPEN = "open"
    """Confirmed and announced."""
    BISECTING = "bisecting"
    """Its commit is searched for."""
    CULPRIT_FOUND = "culprit-found"
    NO_CULPRIT = "no-culprit"
    """The change is there, and the search could not name a commit."""
    ACKNOWLEDGED = "acknowledged"
    """Known and accepted: the level after it is the new normal."""
    MUTED = "muted"
    """Nothing is told of it until a date."""
    REOPENED = "reopened"
    """It was over, or muted, and is there again."""
    FIXED = "fixed"
    """The level is back."""
    INVALID = "invalid"
    """There was no such change: the measurement was wrong."""
    INFRA = "infra"
    """The lab changed, not the code."""
    WITHDRAWN = "withdrawn"
    """Measured again, it was not there."""
    MERGED = "merged"
    """It is one event with an earlier alert, which stands for both."""

    @property
    def standing(self) -> bool:
        """The change is there and counts: levels from before it are no baseline."""
        return self in _STANDING

    @property
    def ended(self) -> bool:
        """Over, for one reason or another."""
        return self in _ENDED

    @property
    def silent(self) -> bool:
        """Nothing is mailed while it is in this state."""
        return self in {*_BEFORE, *_ENDED, AlertState.MUTED} - {AlertState.FIXED}

    @property
    def searchable(self) -> bool:
        """A search for its commit may begin."""
        return self in ALLOWED[Action.SEARCH]


_BEFORE = (AlertState.CANDIDATE, AlertState.CONFIRMING)
_UNSETTLED = (
    AlertState.OPEN,
    AlertState.BISECTING,
    AlertState.CULPRIT_FOUND,
    AlertState.NO_CULPRIT,
    AlertState.REOPENED,
)
_STANDING = (*_UNSETTLED, AlertState.ACKNOWLEDGED, AlertState.MUTED)
REVOKED = (AlertState.INVALID, AlertState.INFRA, AlertState.WITHDRAWN)
_ENDED = (AlertState.FIXED, *REVOKED, AlertState.MERGED)


class Action(StrEnum):
    """What can be done to an alert, as the verb of a sentence about it: it can be ..."""

    CONFIRM = "confirmed"
    ANNOUNCE = "announced"
    SEARCH = "searched"
    NAME = "given its culprit"
    GIVE_UP = "left without a culprit"
    ACKNOWLEDGE = "acknowledged"
    MUTE = "muted"
    REOPEN = "reopened"
    FIX = "closed as fixed"
    INVALIDATE = "called invalid"
    INFRA = "called the lab's own"
    WITHDRAW = "withdrawn"
    MERGE = "merged"
    NOTE = "noted on"
    """Only remarked; any state stays what it is."""

    @property
    def aim(self) -> AlertState | None:
        """The state it is for; a late answer to a search can leave an alert where it is."""
        return next((state for state, action in _TOWARDS.items() if action is self), None)


_TOWARDS = {
    AlertState.CONFIRMING: Action.CONFIRM,
    AlertState.OPEN: Action.ANNOUNCE,
    AlertState.BISECTING: Action.SEARCH,
    AlertState.CULPRIT_FOUND: Action.NAME,
    AlertState.NO_CULPRIT: Action.GIVE_UP,
    AlertState.ACKNOWLEDGED: Action.ACKNOWLEDGE,
    AlertState.MUTED: Action.MUTE,
    AlertState.REOPENED: Action.REOPEN,
    AlertState.FIXED: Action.FIX,
    AlertState.INVALID: Action.INVALIDATE,
    AlertState.INFRA: Action.INFRA,
    AlertState.WITHDRAWN: Action.WITHDRAW,
    AlertState.MERGED: Action.MERGE,
}


def towards(state: AlertState | None) -> Action:
    """The action that leads to a state; for None the one that leads nowhere.

    Raises:
        LifeError: alerts begin there, and nothing leads back.
    """
    if state is None:
        return Action.NOTE
    if state not in _TOWARDS:
        raise LifeError(f"no alert becomes a {state.value}: it begins as one")
    return _TOWARDS[state]


def _all_to(goal: AlertState, *before: AlertState) -> dict[AlertState, AlertState]:
    return dict.fromkeys(before, goal)


def _staying(*states: AlertState) -> dict[AlertState, AlertState]:
    return {state: state for state in states}


# What people decide and what ended is not undone by a search that ends later: its answer is
# recorded, and the state stays.
ALLOWED: dict[Action, dict[AlertState, AlertState]] = {
    Action.CONFIRM: _all_to(AlertState.CONFIRMING, AlertState.CANDIDATE),
    Action.ANNOUNCE: _all_to(AlertState.OPEN, *_BEFORE),
    Action.SEARCH: _all_to(
        AlertState.BISECTING,
        AlertState.OPEN,
        AlertState.BISECTING,
        AlertState.NO_CULPRIT,
        AlertState.REOPENED,
    ),
    Action.NAME: {
        **_all_to(AlertState.CULPRIT_FOUND, *_UNSETTLED),
        **_staying(AlertState.ACKNOWLEDGED, AlertState.MUTED, *_ENDED),
    },
    Action.GIVE_UP: {
        **_all_to(AlertState.NO_CULPRIT, *_UNSETTLED),
        **_staying(AlertState.CULPRIT_FOUND, AlertState.ACKNOWLEDGED, AlertState.MUTED, *_ENDED),
    },
    Action.ACKNOWLEDGE: _all_to(AlertState.ACKNOWLEDGED, *_UNSETTLED, AlertState.MUTED),
    Action.MUTE: _all_to(AlertState.MUTED, *_STANDING),
    Action.REOPEN: _all_to(
        AlertState.REOPENED,
        AlertState.ACKNOWLEDGED,
        AlertState.MUTED,
        AlertState.FIXED,
        *REVOKED,
    ),
    Action.FIX: _all_to(AlertState.FIXED, *_STANDING),
    Action.INVALIDATE: _all_to(
        AlertState.INVALID,
        *_BEFORE,
        *_STANDING,
        AlertState.FIXED,
        AlertState.INFRA,
        AlertState.WITHDRAWN,
    ),
    Action.INFRA: _all_to(
        AlertState.INFRA,
        *_BEFORE,
        *_STANDING,
        AlertState.FIXED,
        AlertState.INVALID,
        AlertState.WITHDRAWN,
    ),
    Action.WITHDRAW: {
        **_all_to(AlertState.WITHDRAWN, *_BEFORE, *_STANDING),
        **_staying(*_ENDED),
    },
    Action.MERGE: _all_to(AlertState.MERGED, *_STANDING),
    Action.NOTE: _staying(*AlertState),
}
