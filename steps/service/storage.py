"""Opens the database of a service, and the history of its tree."""

from __future__ import annotations

from collections.abc import Callable

from netbisect.steps.service.settings import Settings
from netbisect.store.git.history import History
from netbisect.store.ledger import Ledger, open_ledger
from netbisect.workers.config.lab import Lab


def open_history(
    settings: Settings, lab: Lab, progress: Callable[[str], None] | None = None
) -> History:
    """Opens the history of the tree; `progress` gets lines about a long fetch."""
    source = lab.source
    return History(settings.mirror, source.repository, source.revisions, progress=progress)


def open_service_ledger(settings: Settings) -> Ledger:
    """Opens the database of a service. Raises StoreError."""
    return open_ledger(settings.database, settings.mail.sender.rpartition("@")[2])
