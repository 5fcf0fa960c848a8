"""Two writers of one ledger on PostgreSQL."""

from __future__ import annotations

import threading

import pytest
from ledger_facts import NIGHT
from sqlalchemy import text
from waiting import wait_until

from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger

pytestmark = [
    pytest.mark.xdist_group("postgresql"),
    pytest.mark.parametrize("database", ["postgresql"], indirect=True),
]


def test_a_writer_waits_for_the_end_of_the_other(url: str) -> None:
    """Its event follows those of the other, although it began before they were written."""
    one, other = Ledger(open_database(url)), Ledger(open_database(url))
    writer = threading.Thread(target=lambda: other.jobs.add(NIGHT, key="night"))

    def waits() -> bool:
        with one.engine.connect() as connection:
            query = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return bool(connection.scalar(query))

    with one.writing() as writing:
        writer.start()
        wait_until(lambda: waits() or not writer.is_alive())
        writing.note("noted")
    writer.join()

    assert [event.kind for event in one.events.since(0)[0]] == ["noted", "asked"]
    for ledger in (one, other):
        ledger.engine.dispose()
