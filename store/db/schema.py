"""Which tables a database has, and how it gets those of this version.

Most databases have them, and most commands end sooner than alembic is loaded: it is loaded only
where there is something for it to do (migration.py).
"""

from __future__ import annotations

import functools
from pathlib import Path

from sqlalchemy import Engine, inspect, text

from netbisect.store.db.database import StoreError, redacted, translated_errors, writer

VERSION_TABLE = "netbisect_version"
"""Where the database keeps the number of its schema."""

MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations"


@functools.cache
def known_schemas() -> tuple[str, ...]:
    """Numbers of all schemas that this version can bring up to date, its own last.

    The file of each migration is called after the schema that it leads to.
    """
    files = (MIGRATIONS / "versions").glob("v[0-9]*_*.py")
    return tuple(sorted(file.name[1:].partition("_")[0] for file in files))


def schema_of(engine: Engine) -> str:
    """Number of the version of the database's tables; "" when it has none."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return ""
        # One row, or none after the way back to the very beginning.
        query = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant
        return connection.scalar(query) or ""


def migrate(engine: Engine) -> None:
    """Gives the database the tables of this version; does nothing to one that has them.

    All or nothing, and two processes may do it at once.

    Raises:
        StoreError: a newer netbisect made the database, or it cannot be changed.
    """
    with translated_errors(engine):
        schema = schema_of(engine)
        if schema == known_schemas()[-1]:
            return
        if schema and schema not in known_schemas():
            raise StoreError(
                f"the database {redacted(engine.url)} was made by a newer netbisect: its schema "
                f"is {schema}, this one knows up to {known_schemas()[-1]}; update "
                "netbisect, or go back to a copy of the database from before"
            )
        from netbisect.store.db.migration import upgrade  # noqa: PLC0415 - see above

        with writer(engine).begin() as connection:
            upgrade(connection)
