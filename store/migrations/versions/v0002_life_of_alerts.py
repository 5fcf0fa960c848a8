"""Alerts have a kind, a life and a set of series."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_alerts = sa.table(
    "alerts",
    sa.column("id", sa.Integer()),
    sa.column("testbed", sa.Text()),
    sa.column("branch", sa.Text()),
    sa.column("good", sa.Text()),
    sa.column("bad", sa.Text()),
    sa.column("effects", sa.JSON()),
    sa.column("state", sa.Text()),
    sa.column("bisection_id", sa.Integer()),
    sa.column("opened_at", sa.Double()),
    sa.column("closed_at", sa.Double()),
    sa.column("kind", sa.Text()),
    sa.column("announced_at", sa.Double()),
)
_questions = sa.table("questions", sa.column("id", sa.Integer()), sa.column("finding", sa.Text()))


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    series = op.create_table(
        "alert_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("good", sa.Text(), nullable=False),
        sa.Column("bad", sa.Text(), nullable=False),
        sa.Column("effect", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert_id"], ["alerts.id"], name=op.f("fk_alert_series_alert_id_alerts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_series")),
    )
    op.create_index(op.f("ix_alert_series_alert_id"), "alert_series", ["alert_id"])
    op.create_index(
        op.f("ix_alert_series_testbed_scenario_branch"),
        "alert_series",
        ["testbed", "scenario", "branch"],
    )
    # Not as a batch, which would copy the table: mails and changes refer to its rows.
    op.add_column("alerts", sa.Column("kind", sa.Text(), nullable=False, server_default="drop"))
    op.add_column("alerts", sa.Column("announced_at", sa.Double(), nullable=True))
    op.add_column("alerts", sa.Column("muted_until", sa.Double(), nullable=True))
    op.add_column("alerts", sa.Column("recovery", sa.Text(), nullable=False, server_default=""))
    op.execute(
        "ALTER TABLE alerts ADD COLUMN merged_into INTEGER "
        "CONSTRAINT fk_alerts_merged_into_alerts REFERENCES alerts (id)"
    )
    op.add_column("alert_changes", sa.Column("state", sa.Text(), nullable=False, server_default=""))
    _fill(series)


def _fill(series: sa.Table) -> None:
    """Says of every alert there is what the new columns ask."""
    connection = op.get_bind()
    for alert in connection.execute(sa.select(_alerts)).mappings().all():
        effects: list[dict[str, Any]] = alert["effects"]
        rows = [
            {
                "alert_id": alert["id"],
                "testbed": alert["testbed"],
                "scenario": effect["scenario"],
                "branch": alert["branch"],
                "good": alert["good"],
                "bad": alert["bad"],
                "effect": effect,
                "at": alert["opened_at"],
            }
            for effect in effects
        ]
        if rows:
            connection.execute(series.insert(), rows)
        improved = bool(effects) and effects[0]["ln_ratio"] > 0
        connection.execute(
            _alerts.update()
            .where(_alerts.c.id == alert["id"])
            .values(kind="improvement" if improved else "drop", announced_at=alert["opened_at"])
        )
    connection.execute(_alerts.update().where(_alerts.c.state == "recovered").values(state="fixed"))
    # "No culprit" was said of two things: of a change that stands, and of one that is not there.
    gone = sa.select(_questions.c.id).where(
        _questions.c.finding.startswith('{"is":"notreproduced"')
    )
    without = _alerts.c.state == "no-culprit"
    connection.execute(
        _alerts.update().where(without, _alerts.c.bisection_id.in_(gone)).values(state="withdrawn")
    )
    connection.execute(_alerts.update().where(without).values(closed_at=None))


def downgrade() -> None:
    """Goes back."""
    connection = op.get_bind()
    for before, after in (
        (["bisecting", "acknowledged", "muted", "reopened"], "open"),
        (["fixed"], "recovered"),
        (["candidate", "confirming", "invalid", "infra", "withdrawn", "merged"], "no-culprit"),
    ):
        connection.execute(_alerts.update().where(_alerts.c.state.in_(before)).values(state=after))
    op.drop_column("alert_changes", "state")
    for column in ("merged_into", "recovery", "muted_until", "announced_at", "kind"):
        op.drop_column("alerts", column)
    op.drop_index(op.f("ix_alert_series_testbed_scenario_branch"), "alert_series")
    op.drop_index(op.f("ix_alert_series_alert_id"), "alert_series")
    op.drop_table("alert_series")
