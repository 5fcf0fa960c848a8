"""A visit may make several runs of each scenario."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.add_column(sa.Column("runs", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    """Goes back."""
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.drop_column("runs")
