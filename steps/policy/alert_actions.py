"""Changes of alerts by users: names of the actions in commands and forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from netbisect.bisect.mail_commands import WHY_MAX
from netbisect.bisect.model.alert_state import AlertState
from netbisect.errors import UserError
from netbisect.reports.mail import alerts
from netbisect.reports.render import words
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger


class AlertActionError(UserError):
    """The action is incomplete; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class AlertCommand:
    """An action that changes the state of an alert."""

    state: AlertState
    help: str
    example: str


ACTIONS = {
    "ack": AlertCommand(
        AlertState.ACKNOWLEDGED,
        "Accept a change: the new level becomes the baseline.",
        'ack 7 --why "the price of the fix for SA-26:03"',
    ),
    "mute": AlertCommand(
        AlertState.MUTED,
        "Mute an alert until a date, when it opens again.",
        'mute 7 --until 2026-12-31 --why "in review"',
    ),
    "reopen": AlertCommand(
        AlertState.REOPENED,
        "Reopen a closed, muted or acknowledged alert.",
        'reopen 7 --why "it is still there on c2558"',
    ),
    "invalid": AlertCommand(
        AlertState.INVALID,
        "Close an alert: the measurement was wrong.",
        'invalid 7 --why "the generator sent too little"',
    ),
    "infra": AlertCommand(
        AlertState.INFRA,
        "Close an alert: the lab changed, not the code.",
        'infra 7 --why "new firmware on the switch"',
    ),
    "fixed": AlertCommand(
        AlertState.FIXED,
        "Close an alert: the level has recovered, or a fix is committed.",
        'fixed 7 --why "fixed by 0123456789ab"',
    ),
    "withdraw": AlertCommand(
        AlertState.WITHDRAWN,
        "Withdraw an alert: new measurements do not show the change.",
        'withdraw 7 --why "ten more boots show nothing"',
    ),
}


def act(ledger: Ledger, number: int, verb: str, *, who: str, why: str, until: str = "") -> Alert:
    """Changes the state of an alert by one of ACTIONS, with a mail about it; returns the alert.

    `until` is the day on which a muted alert reopens, YYYY-MM-DD in UTC.

    Raises:
        AlertActionError: The verb or the day is wrong, or the reason too long.
        NotFoundError: There is no such alert.
        StoreError: The reason is missing, or the alert cannot change to this state.
    """
    if verb not in ACTIONS:
        raise AlertActionError(f"{verb!r}: expected one of {', '.join(ACTIONS)}")
    if len(why) > WHY_MAX:
        raise AlertActionError(f"a reason of {len(why)} characters; expected at most {WHY_MAX}")
    state = ACTIONS[verb].state
    end = _future_day(until, ledger.clock()) if state is AlertState.MUTED else None
    return change_by_hand(ledger, number, state, who=who, why=why, until=end)


def change_by_hand(
    ledger: Ledger, number: int, state: AlertState, *, who: str, why: str, until: float | None
) -> Alert:
    """As `act`, for a new state; `until` is the end of a mute. Raises StoreError."""
    why = reason(why, until)
    return ledger.alerts.change(
        number, who=who, what=why, state=state, until=until, tell=change_mail(who, why)
    )


def reason(why: str, until: float | None) -> str:
    """The stored reason of a change, with the end of a mute."""
    return f"{why} (until {words.day(until)})" if until is not None and why.strip() else why


def change_mail(who: str, why: str) -> Callable[[Alert], str]:
    """Returns a function for the ledger that renders the mail about a change."""

    def text(alert: Alert) -> str:
        now = words.state(alert.status)
        place = f"{alert.lead} on {alert.testbed}, {alert.branch}"
        return alerts.change(alert.id, now, place, alert.effects[0], who=who, why=why)

    return text


def _future_day(text: str, now: float) -> float:
    """The start of a day after today."""
    try:
        at = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise AlertActionError(f"muted until {text!r}: not a date such as 2026-12-31") from None
    if at <= now:
        raise AlertActionError(f"{text} is not after today, {words.day(now)} (UTC)")
    return at
