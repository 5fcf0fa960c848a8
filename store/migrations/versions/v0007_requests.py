"""People ask for measurements, and what they do is written down."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    op.create_table(
        "requests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("wish", sa.JSON(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
    )
    op.create_index(op.f("ix_requests_who"), "requests", ["who"], unique=False)
    op.create_index(op.f("ix_requests_state"), "requests", ["state"], unique=False)
    op.create_table(
        "request_questions",
        sa.Column("question_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("request_id", sa.Integer(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name=op.f("fk_request_questions_question_id_questions"),
        ),
        sa.ForeignKeyConstraint(
            ["request_id"], ["requests.id"], name=op.f("fk_request_questions_request_id_requests")
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_request_questions")),
    )
    op.create_index(
        op.f("ix_request_questions_request_id"), "request_questions", ["request_id"], unique=False
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Integer(), nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["request_id"], ["requests.id"], name=op.f("fk_audit_request_id_requests")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index(op.f("ix_audit_request_id"), "audit", ["request_id"], unique=False)


def downgrade() -> None:
    """Goes back."""
    op.drop_index(op.f("ix_audit_request_id"), "audit")
    op.drop_index(op.f("ix_audit_at"), "audit")
    op.drop_table("audit")
    op.drop_index(op.f("ix_request_questions_request_id"), "request_questions")
    op.drop_table("request_questions")
    op.drop_index(op.f("ix_requests_state"), "requests")
    op.drop_index(op.f("ix_requests_who"), "requests")
    op.drop_table("requests")
