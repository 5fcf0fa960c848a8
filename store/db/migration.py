"""Changes the tables of a database by alembic's migrations."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from netbisect.store.db.schema import MIGRATIONS


def upgrade(connection: Connection) -> None:
    """Brings the tables up to date, within the transaction of this connection."""
    command.upgrade(alembic_config(connection), "head")


def alembic_config(connection: Connection) -> Config:
    """What alembic's commands need to work on this connection.

    To write the next migration: change tables.py, then
    `alembic.command.revision(alembic_config(connection), "What changes", autogenerate=True)`.
    """
    config = _config()
    config.attributes["connection"] = connection
    return config


def scripts() -> ScriptDirectory:
    """All migrations that this version knows."""
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    # A percent sign would be an interpolation to the file format that Config stands for.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
