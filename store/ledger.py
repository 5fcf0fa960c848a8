"""The ledger: all stored data behind one interface.

Every method is one short transaction, so that threads and processes may share a ledger. SQL is
only in this folder.
"""

from __future__ import annotations

from netbisect.store.db.sessions import EventRepository
from netbisect.store.repositories.actions import ActionRepository
from netbisect.store.repositories.alerts import AlertRepository
from netbisect.store.repositories.evidence import EvidenceRepository
from netbisect.store.repositories.facts import FactRepository
from netbisect.store.repositories.jobs import JobRepository
from netbisect.store.repositories.lookup import LookupRepository
from netbisect.store.repositories.metrics import MetricsRepository
from netbisect.store.repositories.neighbour_series import NeighbourSeriesRepository
from netbisect.store.repositories.nights import NightRepository
from netbisect.store.repositories.outbox import OutboxRepository
from netbisect.store.repositories.quarantines import QuarantineRepository
from netbisect.store.repositories.requests import RequestRepository
from netbisect.store.repositories.samples import SampleRepository
from netbisect.store.repositories.series import SeriesRepository
from netbisect.store.repositories.series_history import SeriesHistoryRepository
from netbisect.store.repositories.tokens import TokenRepository


class Ledger(
    FactRepository,
    JobRepository,
    ActionRepository,
    EvidenceRepository,
    SeriesRepository,
    SampleRepository,
    SeriesHistoryRepository,
    NeighbourSeriesRepository,
    NightRepository,
    AlertRepository,
    OutboxRepository,
    EventRepository,
    LookupRepository,
    QuarantineRepository,
    RequestRepository,
    TokenRepository,
    MetricsRepository,
):
    """Stores and reads data; create it with `Ledger(open_database(url))` after `migrate`."""
