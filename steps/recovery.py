"""What a night does to the alerts there are: some end, some are open again."""

from __future__ import annotations

from netbisect.bisect import detect
from netbisect.bisect.life import recovery
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.steps.alert_news import news
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert

_WHO = "netbisect"
_SHORT = 12
"""Letters of a hash."""


def close_recovered(ledger: Ledger, testbed: str, branch: str) -> list[Alert]:
    """Closes the standing alerts that lead with a series there, and whose level is back.

    Improvements stay: what is lost of one is a drop, with an alert of its own. How often a mode
    occurs is not seen in a level: people close such an alert.

    Returns:
        Those that were closed, as they are now.
    """
    closed = []
    for alert in ledger.open_alerts():
        here = (alert.testbed, alert.branch) == (testbed, branch)
        if not here or alert.kind in {AlertKind.IMPROVEMENT, AlertKind.MODES}:
            continue
        before, since = ledger.around(alert)
        noise = detect.noise_of(before)
        back = recovery(before, since, noise, alert.effects[0].ln_ratio)
        if back is not None:
            why = f"the level is back since {back[:_SHORT]}"
            closed.append(
                ledger.change_alert(
                    alert.id,
                    who=_WHO,
                    what=why,
                    state=AlertState.FIXED,
                    recovery=back,
                    tell=news(_WHO, why),
                )
            )
    return closed


def end_mutes(ledger: Ledger) -> list[Alert]:
    """Opens the muted alerts whose date has come again; returns them as they are now."""
    why = "the date has come until which it was muted"
    return ledger.end_mutes(who=_WHO, what=why, tell=news(_WHO, why))
