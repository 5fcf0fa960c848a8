"""Programs ask with tokens, and the audit log says from where."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("rights", sa.JSON(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    with op.batch_alter_table("audit") as audit:
        audit.add_column(sa.Column("origin", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("audit") as audit:
        audit.alter_column("origin", server_default=None)


def downgrade() -> None:
    """Goes back."""
    with op.batch_alter_table("audit") as audit:
        audit.drop_column("origin")
    op.drop_table("tokens")
