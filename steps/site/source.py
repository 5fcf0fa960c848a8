"""Source of a site."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.database_thread import open_ledger
from netbisect.steps.service.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab


@dataclass(frozen=True)
class SiteSource:
    """Source of a site."""

    database: str
    lab: Lab | None = None
    home: Settings | None = None
    """Settings of the service; None without one."""

    def context(self) -> LabContext:
        """The lab of the pages."""
        return LabContext(self.lab, self.home)

    def ledger(self) -> Ledger:
        """The ledger in the database, which is migrated first. Raises StoreError."""
        return open_ledger(self.database)
