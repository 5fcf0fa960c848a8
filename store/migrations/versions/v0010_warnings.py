"""Samples have warnings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    with op.batch_alter_table("samples") as samples:
        samples.add_column(sa.Column("warnings", sa.JSON(), nullable=False, server_default="[]"))
    with op.batch_alter_table("samples") as samples:
        samples.alter_column("warnings", server_default=None)


def downgrade() -> None:
    """Goes back."""
    with op.batch_alter_table("samples") as samples:
        samples.drop_column("warnings")
