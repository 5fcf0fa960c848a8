"""Where alembic starts: on the connection that store/db/schema.py hands it."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy.types import TypeDecorator

from netbisect.store.db.records import JobRecord
from netbisect.store.db.schema import VERSION_TABLE


def _render(kind: str, item: Any, _: AutogenContext) -> str | Literal[False]:  # noqa: ANN401 - alembic gives anything
    """Writes our own types as what they are stored as: a migration outlives its models."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{type(item.impl_instance).__name__}()"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=JobRecord.metadata,
    version_table=VERSION_TABLE,
    # SQLite cannot alter a column: alembic copies the table instead.
    render_as_batch=True,
    render_item=_render,
)
with context.begin_transaction():
    context.run_migrations()
