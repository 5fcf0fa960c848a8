"""States of an alert, and the allowed transitions; see docs/alerts.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from netbisect.bisect.model.results import Effect


class AlertTransitionError(Exception):
    """The transition is not allowed; the message gives the reason."""


class AlertKind(StrEnum):
    """Kind of change."""

    DROP = "drop"
    IMPROVEMENT = "improvement"
    MODES = "modes"
    """Frequency of the slow mode."""
    DRIFT = "drift"
    """Gradual change of the level."""

    @classmethod
    def of(cls, effect: Effect) -> AlertKind:
        """Drop or improvement, by sign."""
        return cls.IMPROVEMENT if effect.ln_ratio > 0 else cls.DROP


class AlertState(StrEnum):
    """State of an alert."""

    CANDIDATE = "candidate"
    """Suspicious in the screen; not mailed."""
    CONFIRMING = "confirming"
    """In retest."""
    OPEN = "open"
    """Confirmed and announced."""
    BISECTING = "bisecting"
    """In search for its culprit."""
    CULPRIT_FOUND = "culprit-found"
    NO_CULPRIT = "no-culprit"
    """The search found no culprit."""
    ACKNOWLEDGED = "acknowledged"
    """Accepted: the new level becomes the baseline."""
    MUTED = "muted"
    """No mails until a date."""
    REOPENED = "reopened"
    """The change recurred after its end or during a mute."""
    FIXED = "fixed"
    """The level recovered."""
    INVALID = "invalid"
    """Measurement error."""
    INFRA = "infra"
    """The lab changed, not the code."""
    WITHDRAWN = "withdrawn"
    """Not reproduced."""
    MERGED = "merged"
    """Merged into an earlier alert."""

    @property
    def standing(self) -> bool:
        """Whether the change is in effect: earlier levels are no baseline."""
        return self in _STANDING

    @property
    def active(self) -> bool:
        """Whether the change is in effect, and neither acknowledged nor muted."""
        return self in _UNSETTLED

    @property
    def ended(self) -> bool:
        """Whether the alert has ended."""
        return self in _ENDED

    @property
    def silent(self) -> bool:
        """Whether mails are suppressed."""
        return self in {*_BEFORE, *_ENDED, AlertState.MUTED} - {AlertState.FIXED}


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


class AlertAction(StrEnum):
    """Actions on an alert; the value completes the sentence "it can be ..."."""

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
    """A remark, without a change of state."""


def _all_to(goal: AlertState, *before: AlertState) -> dict[AlertState, AlertState]:
    return dict.fromkeys(before, goal)


def _revoked_as(goal: AlertState) -> dict[AlertState, AlertState]:
    """From all other states but that of a merged alert."""
    states = (*_BEFORE, *_STANDING, AlertState.FIXED, *REVOKED)
    return _all_to(goal, *(state for state in states if state is not goal))


def _staying(*states: AlertState) -> dict[AlertState, AlertState]:
    return {state: state for state in states}


# A late search result does not undo decisions or ends: it is recorded, and the state stays.
ALLOWED: dict[AlertAction, dict[AlertState, AlertState]] = {
    AlertAction.CONFIRM: _all_to(AlertState.CONFIRMING, AlertState.CANDIDATE),
    AlertAction.ANNOUNCE: _all_to(AlertState.OPEN, *_BEFORE),
    AlertAction.SEARCH: _all_to(
        AlertState.BISECTING,
        AlertState.OPEN,
        AlertState.BISECTING,
        AlertState.NO_CULPRIT,
        AlertState.REOPENED,
    ),
    AlertAction.NAME: {
        **_all_to(AlertState.CULPRIT_FOUND, *_UNSETTLED),
        **_staying(AlertState.ACKNOWLEDGED, AlertState.MUTED, *_ENDED),
    },
    AlertAction.GIVE_UP: {
        **_all_to(AlertState.NO_CULPRIT, *_UNSETTLED),
        **_staying(AlertState.CULPRIT_FOUND, AlertState.ACKNOWLEDGED, AlertState.MUTED, *_ENDED),
    },
    AlertAction.ACKNOWLEDGE: _all_to(AlertState.ACKNOWLEDGED, *_UNSETTLED, AlertState.MUTED),
    AlertAction.MUTE: _all_to(AlertState.MUTED, *_STANDING),
    AlertAction.REOPEN: _all_to(
        AlertState.REOPENED,
        AlertState.ACKNOWLEDGED,
        AlertState.MUTED,
        AlertState.FIXED,
        *REVOKED,
    ),
    AlertAction.FIX: _all_to(AlertState.FIXED, *_STANDING),
    AlertAction.INVALIDATE: _revoked_as(AlertState.INVALID),
    AlertAction.INFRA: _revoked_as(AlertState.INFRA),
    AlertAction.WITHDRAW: {
        **_all_to(AlertState.WITHDRAWN, *_BEFORE, *_STANDING),
        **_staying(*_ENDED),
    },
    AlertAction.MERGE: _all_to(AlertState.MERGED, *_STANDING),
    AlertAction.NOTE: _staying(*AlertState),
}
"""By action: the states that it leads from, and to."""

_TOWARDS = {
    to: action
    for action, moves in ALLOWED.items()
    for state, to in moves.items()
    if to is not state
}


def action_for(state: AlertState | None) -> AlertAction:
    """The action that leads to a state; for None the one that changes no state.

    Raises:
        AlertTransitionError: Alerts begin there, and nothing leads back.
    """
    if state is None:
        return AlertAction.NOTE
    if state not in _TOWARDS:
        raise AlertTransitionError(f"an alert cannot become a {state.value}: it begins as one")
    return _TOWARDS[state]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of the history of an alert."""

    at: Annotated[float, "Seconds since the epoch, UTC."]
    who: str
    what: Annotated[str, "Reason, in words."]
    state: Annotated[AlertState | None, "New state of the alert; null if not recorded."]
