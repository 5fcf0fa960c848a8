"""Closes recovered alerts after a nightly job, and ends mutes."""

from __future__ import annotations

from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.steps.policy.alert_actions import change_mail
from netbisect.steps.service.numeric import histories, recovery
from netbisect.store.db.records import Alert
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.alert_changes import SERVICE

_SHORT = 12
"""Characters of a hash."""


def close_recovered(ledger: Ledger, testbed: str, branch: str) -> list[Alert]:
    """Closes the open alerts of a testbed and branch whose level has recovered; returns them.

    The digest lists them. Alerts about improvements stay: a loss is a drop with an alert of its
    own. Alerts about modes are closed by users.
    """
    closed = []
    for alert in ledger.alerts.all_open():
        here = (alert.testbed, alert.branch) == (testbed, branch)
        if not here or alert.kind in {AlertKind.IMPROVEMENT, AlertKind.MODES}:
            continue
        before, since = ledger.series.around(alert)
        noise = histories.estimate_noise(before)
        back = recovery.recovery(before, since, noise, alert.retest[0].ln_ratio)
        if back is not None:
            why = f"the level has recovered since {back[:_SHORT]}"
            closed.append(
                ledger.alerts.change(alert.id, what=why, state=AlertState.FIXED, recovery=back)
            )
    return closed


def end_mutes(ledger: Ledger) -> list[Alert]:
    """Reopens the alerts whose mute has ended; returns them."""
    why = "its mute has ended"
    return ledger.alerts.end_mutes(ledger.clock(), what=why, tell=change_mail(SERVICE, why))
