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
    commit_link: str = ""
    lab: Lab | None = None
    min_effect: float | None = None
    """Smallest change worth an alert, as |ln ratio|; None for the default."""
    home: Settings | None = None
    """Settings of the service, if its folders exist."""

    def ledger(self) -> Ledger:
        """The ledger in the database, which is migrated first.

        Raises:
            StoreError: The database cannot be used.
        """
        engine = open_database(self.database)
        migrate(engine)
        return Ledger(engine)
