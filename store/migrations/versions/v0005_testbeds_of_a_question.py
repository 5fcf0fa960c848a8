"""A question may wait for several decisions, one for each testbed that measures for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INDEX = "ix_decisions_open"
_decisions = sa.table(
    "decisions",
    sa.column("id", sa.Integer()),
    sa.column("question_id", sa.Integer()),
    sa.column("testbed", sa.Text()),
    sa.column("outcome", sa.Text()),
    sa.column("note", sa.Text()),
)
_questions = sa.table("questions", sa.column("id", sa.Integer()), sa.column("testbed", sa.Text()))


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    # Not as a batch, which would copy the table: all facts refer to its rows.
    op.add_column("decisions", sa.Column("testbed", sa.Text(), nullable=False, server_default=""))
    asked_of = (
        sa.select(_questions.c.testbed)
        .where(_questions.c.id == _decisions.c.question_id)
        .scalar_subquery()
    )
    op.execute(_decisions.update().values(testbed=asked_of))
    _make_index("question_id", "testbed")


def downgrade() -> None:
    """Goes back; of the decisions that a question waits for, the oldest stays open."""
    other = _decisions.alias()
    oldest = (
        sa.select(sa.func.min(other.c.id))
        .where(other.c.question_id == _decisions.c.question_id, other.c.outcome.is_(None))
        .scalar_subquery()
    )
    op.execute(
        _decisions.update()
        .where(_decisions.c.outcome.is_(None), _decisions.c.id != oldest)
        .values(outcome="cancelled", note="this netbisect waits for one testbed at a time")
    )
    withdrawn = _decisions.c.outcome == "withdrawn"
    op.execute(_decisions.update().where(withdrawn).values(outcome="cancelled"))
    _make_index("question_id")
    op.drop_column("decisions", "testbed")


def _make_index(*columns: str) -> None:
    op.drop_index(_INDEX, "decisions")
    op.create_index(
        _INDEX,
        "decisions",
        list(columns),
        unique=True,
        sqlite_where=sa.text("outcome IS NULL"),
        postgresql_where=sa.text("outcome IS NULL"),
    )
