"""The write-ahead log of Buildbot's database."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from netbisect.steps.master import sqlite_wal


def test_log_remains_after_a_transaction_while_a_connection_is_open(tmp_path: Path) -> None:
    database = tmp_path / "state.sqlite"
    log = tmp_path / "state.sqlite-wal"

    def transaction() -> None:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.commit()

    sqlite_wal.keep_open(database)
    transaction()
    assert not log.exists()
    sqlite_wal.keep_open(database)
    transaction()
    assert log.exists()
    sqlite_wal._connections.pop(database).close()
