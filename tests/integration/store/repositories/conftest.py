"""A ledger with commits, and its clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alert_ledger import Clock

from netbisect.bisect.model.entities import Commit
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    """A ledger with commits r1 to r39."""
    engine = open_database(url)
    ledger = Ledger(engine, clock, domain="lab.example.org")
    ledger.commits.learn([Commit(f"r{i}", i, "", "", "", "", 0.0) for i in range(1, 40)], "main")
    yield ledger
    engine.dispose()
