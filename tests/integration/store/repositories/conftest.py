"""A ledger with commits, and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect.model.entities import Commit
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger

if TYPE_CHECKING:
    from alert_ledger import Clock


@pytest.fixture
def clock() -> Clock:
    from alert_ledger import Clock  # noqa: PLC0415 - tests/conftest.py sets the path later

    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    """A ledger with commits r1 to r39."""
    engine = open_database(url)
    ledger = Ledger(engine, clock, domain="lab.example.org")
    ledger.commits.learn([Commit(f"r{i}", i, "", "", "", "", 0.0) for i in range(1, 40)], "main")
    yield ledger
    engine.dispose()
