"""The schema of a database, and its migration by Alembic, which is slow to import."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from netbisect.store.db.database import StoreError, redacted, translated_errors, writer
from netbisect.store.db.records import JobRecord

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "netbisect_version"
"""Table with the number of the schema."""

MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations"


@functools.cache
def known_schemas() -> tuple[str, ...]:
    """Numbers of all schemas that can be migrated, and of the current one, which is last.

    The files of migrations are named after the resulting schemas.
    """
    files = (MIGRATIONS / "versions").glob("v[0-9]*_*.py")
    return tuple(sorted(file.name[1:].partition("_")[0] for file in files))


def schema_of(engine: Engine) -> str:
    """Number of the schema of a database; "" without tables."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return ""
        query = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant
        return connection.scalar(query) or ""


def migrate(engine: Engine) -> None:
    """Creates the tables of an empty database, or upgrades them, in one transaction.

    Raises StoreError if its schema is newer or too old, or the database cannot be changed.
    """
    with translated_errors(engine):
        schema = schema_of(engine)
        if schema == known_schemas()[-1]:
            return
        if schema and schema not in known_schemas():
            raise StoreError(f"the database {redacted(engine.url)} {_unknown(schema)}")
        from alembic import command  # noqa: PLC0415 - slow

        with writer(engine).begin() as connection:
            config = alembic_config(connection)
            if schema:
                command.upgrade(config, "head")
            else:
                JobRecord.metadata.create_all(connection, checkfirst=False)
                command.stamp(config, "head")


def alembic_config(connection: Connection | None = None) -> Config:
    """Configuration of Alembic for a connection.

    To write the next migration: change the tables, then
    `alembic.command.revision(alembic_config(connection), "What changes", autogenerate=True)`.
    """
    from alembic.config import Config  # noqa: PLC0415 - slow

    config = Config()
    # Config interpolates percent signs.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def has_all_migrations(url: str, migrations: Path) -> bool:
    """Whether the database of another program has its newest schema; False if unreadable.

    `migrations` is the folder of the Alembic migrations of that program.
    """
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - slow
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - slow

    try:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError:
        return False
    return found == ScriptDirectory(str(migrations)).get_current_head()


def _unknown(schema: str) -> str:
    oldest, newest = known_schemas()[0], known_schemas()[-1]
    if schema < oldest:
        return (
            f"has schema {schema}, older than {oldest}, the oldest that this netbisect can "
            "migrate; migrate it with commit b418c32 of netbisect first"
        )
    return (
        f"was made by a newer netbisect: its schema is {schema}, this one knows up to {newest}; "
        "update netbisect, or go back to a copy of the database from before"
    )
