"""The database: how it is opened, and how it gets its tables."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, Table, inspect, text

from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.results import Culprit, Effect, NotReproduced, Posterior, Suspects
from netbisect.store.db.database import StoreError, open_database, writer
from netbisect.store.db.migration import alembic_config, scripts
from netbisect.store.db.schema import VERSION_TABLE, known_schemas, migrate, schema_of
from netbisect.store.db.tables import Base
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.both_databases


def on_postgresql(schema: str) -> Any:
    return pytest.param("postgresql", schema, marks=pytest.mark.xdist_group("postgresql"))


@pytest.fixture
def engine(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Of a database without tables."""
    if database == "sqlite":
        url = f"sqlite:///{tmp_path}/ledger.sqlite"
    else:
        url = request.getfixturevalue("empty_postgresql")
    engine = open_database(url)
    yield engine
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


FINDINGS = {
    "culprit": Culprit("r2", "r1", Posterior({}, 0.0), ()),
    "suspects": Suspects((), Posterior({}, 0.0), ""),
    "notreproduced": NotReproduced(Posterior({}, 1.0), ""),
}
OLD_ALERTS = [
    # state, ln ratio, finding of its search, closed at; and what it is in this version
    ("open", -0.1, "", None, ("open", "drop", None)),
    ("culprit-found", -0.1, "culprit", None, ("culprit-found", "drop", None)),
    ("no-culprit", -0.1, "suspects", 7.0, ("no-culprit", "drop", None)),
    ("no-culprit", -0.1, "notreproduced", 7.0, ("withdrawn", "drop", 7.0)),
    ("recovered", -0.1, "culprit", 7.0, ("fixed", "drop", 7.0)),
    ("open", 0.1, "", None, ("open", "improvement", None)),
]


def write_old_alerts(engine: Engine) -> None:
    """Into the tables of the first version."""
    job = text(
        "INSERT INTO questions (id, kind, noun, key, branch, testbed, priority, requested_by, "
        "state, finding, opened_at) "
        "VALUES (:id, 'bisection', '{}', :key, 'main', 'c2558', 1, '', 'closed', :finding, 1.0)"
    )
    alert = text(
        "INSERT INTO alerts (id, testbed, branch, lead, good, bad, effects, state, culprit, "
        "bisection_id, thread, opened_at, closed_at) "
        "VALUES (:id, 'c2558', 'main', 's', 'r1', 'r2', :effects, :state, '', :id, '<1@x>', "
        "5.0, :closed)"
    )
    with writer(engine).begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        for number, (state, ln_ratio, finding, closed, _) in enumerate(OLD_ALERTS, 1):
            effect = Effect("s", ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 0.001, 5, 6)
            other = Effect("other", 0.0, -0.01, 0.01, 0.9, 5, 6)
            found = serialization.dumps(FINDINGS[finding]) if finding else None
            connection.execute(job, {"id": number, "key": str(number), "finding": found})
            effects = json.dumps([asdict(effect), asdict(other)])
            connection.execute(
                alert, {"id": number, "effects": effects, "state": state, "closed": closed}
            )
            connection.execute(
                text(
                    "INSERT INTO alert_changes (alert_id, at, who, what) "
                    "VALUES (:id, 5.0, 'netbisect', 'confirmed')"
                ),
                {"id": number},
            )


def test_the_alerts_of_an_older_netbisect_live_on(engine: Engine) -> None:
    """With their numbers as those of their series, and the states of this version."""
    write_old_alerts(engine)

    migrate(engine)

    assert differences(engine) == []
    ledger = Ledger(engine)
    alerts = ledger.alerts.all()
    assert [(one.state.value, one.kind.value, one.closed_at) for one in alerts] == [
        expected for *_, expected in OLD_ALERTS
    ]
    for one in alerts:
        assert one.announced_at == one.opened_at == 5.0
        assert [series.effect for series in one.series] == list(one.effects)
        assert {
            (series.testbed, series.branch, series.good, series.bad, series.at)
            for series in one.series
        } == {("c2558", "main", "r1", "r2", 5.0)}
        assert one.thread == "<1@x>"
        [change] = ledger.alerts.changes(one.id)
        assert (change.at, change.what, change.state) == (5.0, "confirmed", None)
    assert [one.id for one in ledger.alerts.all_open()] == [1, 2, 3, 6]
    ledger.alerts.change(3, who="me", what="as it is", state=AlertState.ACKNOWLEDGED)


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


def test_a_directory_is_refused_as_database(tmp_path: Path) -> None:
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


# ------------------------------------------------------------------- from every schema there was

RELEASED = sorted(script.revision for script in scripts().walk_revisions())
EFFECTS = [asdict(Effect("s", -0.1, -0.11, -0.09, 0.001, 5, 6))]
WORDS = {("alerts", "effects"): EFFECTS, ("alerts", "state"): "open"}
"""What a migration reads must be what it was; all else is any text."""


def row_of(table: Table) -> dict[str, object]:
    """A value for every column; those that refer to each other are equal."""
    values: dict[type, object] = {int: 1, float: 1.5, str: "text", bool: True, object: {}}
    return {
        column.name: WORDS.get((table.name, column.name), values[column.type.python_type])
        for column in table.columns
    }


def rows_in(engine: Engine) -> dict[str, dict[str, object]]:
    """The one row that is in each table; tables with none are left out."""
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
    # The way from the first one leads through all of them.
    [*(("sqlite", schema) for schema in RELEASED), on_postgresql("0001"), on_postgresql("0005")],
    indirect=["database"],
)
def test_a_ledger_of_every_schema_keeps_every_value_of_every_table(
    engine: Engine, schema: str
) -> None:
    """Whatever the version that filled it, its columns are there afterwards with what they had."""
    with writer(engine).begin() as connection:
        command.upgrade(alembic_config(connection), schema)
    metadata = MetaData()
    metadata.reflect(engine)
    with writer(engine).begin() as connection:
        for table in metadata.sorted_tables:
            if table.name != VERSION_TABLE:
                connection.execute(table.insert(), row_of(table))
    before = rows_in(engine)

    migrate(engine)

    after = rows_in(engine)
    assert len(before) >= 10
    assert before == {
        table: {column: after[table][column] for column in row} for table, row in before.items()
    }
    assert differences(engine) == []
    assert schema_of(engine) == RELEASED[-1]


def test_every_schema_follows_the_one_before() -> None:
    """One line, so that there is one way from each to the newest."""
    found = {script.revision: script.down_revision for script in scripts().walk_revisions()}
    assert sorted(found) == list(known_schemas())

    assert [found[one] for one in RELEASED] == [None, *RELEASED[:-1]]
