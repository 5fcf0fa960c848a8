"""The database: how it is opened, and how it gets its tables."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from netbisect.bisect.model import Boot
from netbisect.store.database import (
    VERSION_TABLE,
    StoreError,
    alembic_config,
    migrate,
    open_database,
    writer,
)
from netbisect.store.ledger import Ledger
from netbisect.store.tables import Base

_POSTGRESQL = os.environ.get("NETBISECT_TEST_POSTGRESQL", "")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgresql",
            marks=pytest.mark.skipif(
                not _POSTGRESQL, reason="NETBISECT_TEST_POSTGRESQL names no empty database"
            ),
        ),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/ledger.sqlite" if request.param == "sqlite" else _POSTGRESQL
    engine = open_database(url)
    yield engine
    with writer(engine).begin() as connection:
        Base.metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {VERSION_TABLE}"))
    engine.dispose()


def differences(engine: Engine) -> list[object]:
    """What alembic would change to make the database's tables those of tables.py."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return list(compare_metadata(context, Base.metadata))


def test_the_migrations_make_the_tables_that_the_models_describe(engine: Engine) -> None:
    assert differences(engine)

    migrate(engine)

    assert differences(engine) == []


def test_going_back_leaves_nothing_and_going_on_again_makes_the_same(engine: Engine) -> None:
    migrate(engine)

    with writer(engine).begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert set(inspect(engine).get_table_names()) == {VERSION_TABLE}

    migrate(engine)
    assert differences(engine) == []


def test_migrating_again_changes_nothing_and_keeps_what_is_there(engine: Engine) -> None:
    migrate(engine)
    ledger = Ledger(engine)
    ledger.record(Boot("b1", "c2558", "key", "r1", 1.0, 2.0))
    marker = ledger.last_event()

    migrate(engine)

    events, _ = ledger.events_since(0)
    assert [event.kind for event in events] == ["boot"]
    assert ledger.last_event() == marker


def test_migrating_leaves_the_logging_of_its_caller_alone(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("netbisect").disabled)
    engine = open_database(f"sqlite:///{tmp_path}/ledger.sqlite")

    migrate(engine)
    engine.dispose()

    assert (root.level, list(root.handlers), logging.getLogger("netbisect").disabled) == before


def test_a_migration_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/ledger.sqlite")
    with writer(engine).begin() as connection:
        connection.execute(text("CREATE TABLE samples (somebody_elses INTEGER)"))

    with pytest.raises(StoreError, match="samples already exists"):
        migrate(engine)

    assert inspect(engine).get_table_names() == ["samples"]
    engine.dispose()


def test_a_database_of_a_newer_version_is_left_alone_with_a_sentence(engine: Engine) -> None:
    migrate(engine)
    with writer(engine).begin() as connection:
        connection.execute(text("UPDATE netbisect_version SET version_num = '9999'"))

    with pytest.raises(StoreError, match="made by a newer netbisect: its schema is 9999"):
        migrate(engine)


def test_sqlite_keeps_what_it_was_told_and_minds_references(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/ledger.sqlite")
    with engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    engine.dispose()

    full = 2
    assert settings == {
        "journal_mode": "wal",
        "synchronous": full,
        "foreign_keys": 1,
        "busy_timeout": 60_000,
    }


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/var/db/netbisect.sqlite", "is no database url; sqlite:////path/to/file or"),
        ("nosuchdb://host/name", "names no database that is known here"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////no/such/directory/x.sqlite", "there is no directory /no/such/directory"),
        ("mysql+pymysql://me:secret@host/name", "mysql"),
    ],
)
def test_a_url_that_cannot_be_used_gets_a_sentence(url: str, why: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_database(url)

    assert why in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory; a file would be right"):
        open_database(f"sqlite:///{tmp_path}")


def test_a_file_that_is_something_else_gets_a_sentence_and_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)

    with pytest.raises(StoreError, match="file is not a database"):
        open_database(f"sqlite:///{path}")

    assert path.read_text() == "not a database\n" * 100


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StoreError, match="unable to open database file"):
            open_database(f"sqlite:///{tmp_path}/ledger.sqlite")
    finally:
        tmp_path.chmod(stat.S_IRWXU)
