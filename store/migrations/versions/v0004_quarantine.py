"""A testbed may be in quarantine, and a dud names its fault."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    with op.batch_alter_table("duds", schema=None) as batch_op:
        batch_op.add_column(sa.Column("fault", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "quarantines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("wanted_at", sa.Double(), nullable=True),
        sa.Column("wanted_by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.Column("released_at", sa.Double(), nullable=True),
        sa.Column("released_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantines")),
    )
    op.create_index(op.f("ix_quarantines_testbed"), "quarantines", ["testbed"], unique=False)
    op.create_index(
        "ix_quarantines_standing",
        "quarantines",
        ["testbed"],
        unique=True,
        sqlite_where=sa.text("released_at IS NULL"),
        postgresql_where=sa.text("released_at IS NULL"),
    )


def downgrade() -> None:
    """Goes back."""
    op.drop_index("ix_quarantines_standing", "quarantines")
    op.drop_index(op.f("ix_quarantines_testbed"), "quarantines")
    op.drop_table("quarantines")
    with op.batch_alter_table("duds", schema=None) as batch_op:
        batch_op.drop_column("fault")
