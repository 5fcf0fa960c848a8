"""Source of a site; quick to import."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import open_database
from netbisect.store.db.schema import migrate
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab


@dataclass(frozen=True)
class SiteSource:
    """Source of a site."""

    database: str
    lab: Lab | None = None
    home: Settings | None = None
    """Settings of the service; None without one."""

    def ledger(self) -> Ledger:
        """The ledger in the database, which is migrated first.

        Raises:
            StoreError: The database cannot be used.
        """
        engine = open_database(self.database)
        migrate(engine)
        return Ledger(engine)
