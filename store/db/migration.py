"""Runs the migrations of Alembic."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from netbisect.store.db.schema import MIGRATIONS
from netbisect.store.db.tables import Base


def create(connection: Connection) -> None:
    """Creates the tables of the current schema within the transaction of the connection."""
    Base.metadata.create_all(connection, checkfirst=False)
    command.stamp(alembic_config(connection), "head")


def upgrade(connection: Connection) -> None:
    """Upgrades the tables within the transaction of the connection."""
    command.upgrade(alembic_config(connection), "head")


def alembic_config(connection: Connection) -> Config:
    """Configuration of Alembic for a connection.

    To write the next migration: change tables.py, then
    `alembic.command.revision(alembic_config(connection), "What changes", autogenerate=True)`.
    """
    config = _config()
    config.attributes["connection"] = connection
    return config


def scripts() -> ScriptDirectory:
    """All migrations."""
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    # Config interpolates percent signs.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
