"""Opening and migrating a database."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, create_engine, inspect, text

from netbisect.store.db.database import StoreError, open_database, writer
from netbisect.store.db.schema import (
    MIGRATIONS,
    VERSION_TABLE,
    alembic_config,
    has_all_migrations,
    known_schemas,
    migrate,
    schema_of,
)
from netbisect.store.db.tables import Base

pytestmark = pytest.mark.both_databases


@pytest.fixture
def engine(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine of a database without tables."""
    if database == "sqlite":
        url = f"sqlite:///{tmp_path}/ledger.sqlite"
    else:
        url = request.getfixturevalue("empty_postgresql")
    engine = open_database(url)
    yield engine
    engine.dispose()


def differences(engine: Engine) -> list[object]:
    """Differences between the database and tables.py, according to alembic."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return list(compare_metadata(context, Base.metadata))


def test_an_empty_database_gets_the_tables_of_the_models(engine: Engine) -> None:
    """Migrations have no branches."""
    found = {script.revision: script.down_revision for script in SCRIPTS.walk_revisions()}
    assert sorted(found) == list(known_schemas())
    assert [found[one] for one in RELEASED] == [None, *RELEASED[:-1]]
    assert differences(engine)

    migrate(engine)

    assert differences(engine) == []
    assert schema_of(engine) == known_schemas()[-1]


def test_migrations_of_other_programs_are_compared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.sqlite"
    for schema in RELEASED:
        assert not has_all_migrations(url, MIGRATIONS)
        with create_engine(url).begin() as connection:
            MigrationContext.configure(connection).stamp(SCRIPTS, schema)
    assert has_all_migrations(url, MIGRATIONS)


def test_a_failed_migration_is_rolled_back(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/ledger.sqlite")
    with writer(engine).begin() as connection:
        connection.execute(text("CREATE TABLE samples (unrelated INTEGER)"))

    with pytest.raises(StoreError, match="samples already exists"):
        migrate(engine)

    assert inspect(engine).get_table_names() == ["samples"]
    engine.dispose()


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("9999", "made by a newer netbisect: its schema is 9999"),
        ("0007", "has schema 0007, older than 0008, the oldest that"),
    ],
)
def test_database_with_an_unknown_schema_is_rejected(
    engine: Engine, version: str, why: str
) -> None:
    migrate(engine)
    with writer(engine).begin() as connection:
        connection.execute(text(f"UPDATE netbisect_version SET version_num = '{version}'"))  # noqa: S608

    with pytest.raises(StoreError, match=why):
        migrate(engine)
    assert schema_of(engine) == version


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/var/db/netbisect.sqlite", "is not a database URL; expected sqlite:////path/to/file or"),
        ("nosuchdb://host/name", "names an unknown kind of database"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////no/such/directory/x.sqlite", "no directory /no/such/directory"),
        ("mysql+pymysql://me:secret@host/name", "mysql"),
    ],
)
def test_an_invalid_url_is_reported(url: str, why: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_database(url)

    assert why in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_file_is_rejected_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)

    with pytest.raises(StoreError, match="is a directory; expected a file"):
        open_database(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreError, match="file is not a database"):
        open_database(f"sqlite:///{path}")
    assert not has_all_migrations(f"sqlite:///{path}", MIGRATIONS)

    assert path.read_text() == "not a database\n" * 100


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StoreError, match="unable to open database file"):
            open_database(f"sqlite:///{tmp_path}/ledger.sqlite")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


SCRIPTS = ScriptDirectory.from_config(alembic_config())
RELEASED = sorted(script.revision for script in SCRIPTS.walk_revisions())


def rows_in(engine: Engine) -> dict[str, dict[str, object]]:
    """The only row of each table, without empty tables."""
    metadata = MetaData()
    metadata.reflect(engine)
    found = {}
    with engine.connect() as connection:
        for table in metadata.tables.values():
            rows = connection.execute(table.select()).mappings().all()
            if rows and table.name != VERSION_TABLE:
                [row] = rows
                found[table.name] = dict(row)
    return found


@pytest.mark.parametrize(
    ("database", "schema"),
    [
        *(("sqlite", schema) for schema in RELEASED),
        pytest.param("postgresql", RELEASED[0], marks=pytest.mark.xdist_group("postgresql")),
    ],
    indirect=["database"],
)
def test_a_ledger_of_any_schema_keeps_all_values(engine: Engine, schema: str) -> None:
    """Every column has a value; those of foreign keys match."""
    values: dict[type, object] = {int: 1, float: 1.5, str: "text", bool: True, object: {}}
    migrate(engine)
    with writer(engine).begin() as connection:
        command.downgrade(alembic_config(connection), schema)
    metadata = MetaData()
    metadata.reflect(engine)
    with writer(engine).begin() as connection:
        for table in metadata.sorted_tables:
            if table.name != VERSION_TABLE:
                row = {one.name: values[one.type.python_type] for one in table.columns}
                connection.execute(table.insert(), row)
    before = rows_in(engine)

    migrate(engine)

    after = rows_in(engine)
    assert len(before) >= 10
    assert before == {
        table: {column: after[table][column] for column in row} for table, row in before.items()
    }
    assert differences(engine) == []
    assert schema_of(engine) == RELEASED[-1]
