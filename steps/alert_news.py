"""What is mailed of an alert besides its beginning and the end of its search."""

from __future__ import annotations

from collections.abc import Callable

from netbisect.reports import mail, words
from netbisect.store.records import Alert


def news(who: str, why: str) -> Callable[[Alert], str]:
    """The text of the mail about a change, for whoever makes it to hand to the ledger."""

    def text(alert: Alert) -> str:
        now = words.state(alert.state, until=alert.muted_until, into=alert.merged_into)
        place = f"{alert.lead} on {alert.testbed}, {alert.branch}"
        return mail.change(alert.id, now, place, alert.effects[0], who=who, why=why)

    return text
