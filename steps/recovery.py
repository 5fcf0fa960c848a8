"""Closes the alerts whose level is back."""

from __future__ import annotations

from netbisect.bisect import detect
from netbisect.bisect.life import recovery
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert


def close_recovered(ledger: Ledger, testbed: str, branch: str) -> list[Alert]:
    """Closes the standing alerts that lead with a series there, and whose level is back.

    Improvements stay: what is lost of one is a drop, with an alert of its own.

    Returns:
        Those that were closed, as they are now.
    """
    closed = []
    for alert in ledger.open_alerts():
        here = (alert.testbed, alert.branch) == (testbed, branch)
        if not here or alert.kind is AlertKind.IMPROVEMENT:
            continue
        before, since = ledger.around(alert)
        noise = detect.noise_of(before)
        back = recovery(before, since, noise, alert.effects[0].ln_ratio)
        if back is not None:
            closed.append(
                ledger.change_alert(
                    alert.id,
                    who="netbisect",
                    what=f"the level is back since {back[:12]}",
                    state=AlertState.FIXED,
                    recovery=back,
                )
            )
    return closed
