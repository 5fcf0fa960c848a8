"""The mails about changes of alerts."""

from __future__ import annotations

from collections.abc import Callable

from netbisect.reports.mail import alerts
from netbisect.reports.render import words
from netbisect.store.db.records import Alert


def change_mail(who: str, why: str) -> Callable[[Alert], str]:
    """Returns a function for the ledger that renders the mail about a change."""

    def text(alert: Alert) -> str:
        now = words.state(alert)
        place = f"{alert.lead} on {alert.testbed}, {alert.branch}"
        return alerts.change(alert.id, now, place, alert.effects[0], who=who, why=why)

    return text
