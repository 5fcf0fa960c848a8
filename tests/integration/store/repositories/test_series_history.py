"""Series as a whole: the same levels and baselines as one at a time, and earlier epochs too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine)
    engine.dispose()
