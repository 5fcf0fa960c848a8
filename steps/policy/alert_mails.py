"""Changes of an alert by users, and the mails about changes."""

from __future__ import annotations

from collections.abc import Callable

from netbisect.bisect.model.alert_state import AlertState
from netbisect.reports.mail import alerts
from netbisect.reports.render import words
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger


def change_by_hand(
    ledger: Ledger, number: int, state: AlertState, *, who: str, why: str, until: float | None
) -> Alert:
    """Changes the state of an alert, and mails the change.

    Args:
        ledger: Database.
        number: Of the alert.
        state: Its new state.
        who: Author.
        why: Reason.
        until: End of a mute.

    Raises:
        NotFoundError: There is no such alert.
        NotAllowedError: Its state does not allow the change, or the reason is empty.
    """
    if until is not None and why.strip():
        why = f"{why} (until {words.day(until)})"
    return ledger.alerts.change(
        number, who=who, what=why, state=state, until=until, tell=change_mail(who, why)
    )


def change_mail(who: str, why: str) -> Callable[[Alert], str]:
    """Returns a function for the ledger that renders the mail about a change."""

    def text(alert: Alert) -> str:
        now = words.state(alert.state, until=alert.muted_until, into=alert.merged_into)
        place = f"{alert.lead} on {alert.testbed}, {alert.branch}"
        return alerts.change(alert.id, now, place, alert.effects[0], who=who, why=why)

    return text
