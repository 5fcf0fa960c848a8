"""The ledger: all stored data, with one repository per noun.

Every method of a repository is one short transaction, so threads and processes may share a ledger.
"""

from __future__ import annotations

from netbisect.store.db.database import StoreError, database_exists, open_database
from netbisect.store.db.schema import migrate
from netbisect.store.db.sessions import EventRepository, Transactions
from netbisect.store.repositories.actions import ActionRepository
from netbisect.store.repositories.alerts import AlertRepository
from netbisect.store.repositories.commits import CommitRepository
from netbisect.store.repositories.costs import CostRepository
from netbisect.store.repositories.evidence import EvidenceRepository
from netbisect.store.repositories.facts import FactRepository
from netbisect.store.repositories.jobs import JobRepository
from netbisect.store.repositories.marks import MarkRepository
from netbisect.store.repositories.metrics import MetricsRepository
from netbisect.store.repositories.neighbour_series import NeighbourSeriesRepository
from netbisect.store.repositories.nights import NightRepository
from netbisect.store.repositories.outbox import OutboxRepository
from netbisect.store.repositories.quarantines import QuarantineRepository
from netbisect.store.repositories.requests import RequestRepository
from netbisect.store.repositories.samples import SampleRepository
from netbisect.store.repositories.series import SeriesRepository
from netbisect.store.repositories.tokens import TokenRepository


class Ledger(Transactions):
    """Stores and reads data; `open_ledger` opens it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.actions = ActionRepository(self)
        self.alerts = AlertRepository(self)
        self.commits = CommitRepository(self)
        self.costs = CostRepository(self)
        self.events = EventRepository(self)
        self.evidence = EvidenceRepository(self)
        self.facts = FactRepository(self)
        self.jobs = JobRepository(self)
        self.mails = OutboxRepository(self)
        self.marks = MarkRepository(self)
        self.metrics = MetricsRepository(self)
        self.neighbour_series = NeighbourSeriesRepository(self)
        self.nights = NightRepository(self)
        self.quarantines = QuarantineRepository(self)
        self.requests = RequestRepository(self)
        self.samples = SampleRepository(self)
        self.series = SeriesRepository(self)
        self.tokens = TokenRepository(self)


def open_ledger(url: str, domain: str = "netbisect.invalid") -> Ledger:
    """Opens a database and migrates it; new Message-IDs have this domain. Raises StoreError."""
    engine = open_database(url)
    migrate(engine)
    return Ledger(engine, domain=domain)


def open_existing_ledger(url: str) -> Ledger:
    """The same for a database that must exist: a mistyped name is no empty database."""
    if not database_exists(url):
        raise StoreError(f"there is no database {url}")
    return open_ledger(url)
