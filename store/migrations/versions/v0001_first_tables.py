"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Goes from the schema before this one to this one."""
    op.create_table(
        "commits",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("paths", sa.JSON(), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_commits")),
    )
    with op.batch_alter_table("commits", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_commits_number"), ["number"], unique=False)

    op.create_table(
        "conditions",
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("testbed", "scenario", "digest", name=op.f("pk_conditions")),
    )
    op.create_table(
        "questions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("noun", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=True),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["questions.id"], name=op.f("fk_questions_parent_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
        sa.UniqueConstraint("key", name=op.f("uq_questions_key")),
    )
    with op.batch_alter_table("questions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_questions_parent_id"), ["parent_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_questions_state"), ["state"], unique=False)

    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("lead", sa.Text(), nullable=False),
        sa.Column("good", sa.Text(), nullable=False),
        sa.Column("bad", sa.Text(), nullable=False),
        sa.Column("effects", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("culprit", sa.Text(), nullable=False),
        sa.Column("comparison_id", sa.Integer(), nullable=True),
        sa.Column("bisection_id", sa.Integer(), nullable=True),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["bisection_id"], ["questions.id"], name=op.f("fk_alerts_bisection_id_questions")
        ),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["questions.id"], name=op.f("fk_alerts_comparison_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("comparison_id", name=op.f("uq_alerts_comparison_id")),
    )
    with op.batch_alter_table("alerts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_alerts_bisection_id"), ["bisection_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_alerts_testbed_branch_state"),
            ["testbed", "branch", "state"],
            unique=False,
        )

    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("belief", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("buildset", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("intended_at", sa.Double(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_decisions_question_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.UniqueConstraint("external_id", name=op.f("uq_decisions_external_id")),
        sa.UniqueConstraint(
            "question_id", "seq", "attempt", name=op.f("uq_decisions_question_id_seq_attempt")
        ),
    )
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.create_index(
            "ix_decisions_open",
            ["question_id"],
            unique=True,
            sqlite_where=sa.text("outcome IS NULL"),
            postgresql_where=sa.text("outcome IS NULL"),
        )

    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=True),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_events_question_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_events_question_id"), ["question_id"], unique=False)

    op.create_table(
        "places",
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"], ["commits.revision"], name=op.f("fk_places_revision_commits")
        ),
        sa.PrimaryKeyConstraint("branch", "number", name=op.f("pk_places")),
    )
    with op.batch_alter_table("places", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_places_revision"), ["revision"], unique=False)

    op.create_table(
        "alert_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert_id"], ["alerts.id"], name=op.f("fk_alert_changes_alert_id_alerts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_changes")),
    )
    with op.batch_alter_table("alert_changes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_alert_changes_alert_id"), ["alert_id"], unique=False)

    op.create_table(
        "boots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("decision_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decisions.id"], name=op.f("fk_boots_decision_id_decisions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_boots")),
    )
    with op.batch_alter_table("boots", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_boots_decision_id"), ["decision_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_boots_testbed_revision"), ["testbed", "revision"], unique=False
        )

    op.create_table(
        "duds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("reaction", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decisions.id"], name=op.f("fk_duds_decision_id_decisions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_duds")),
    )
    with op.batch_alter_table("duds", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_duds_decision_id"), ["decision_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_duds_revision"), ["revision"], unique=False)

    op.create_table(
        "kernels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("decision_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decisions.id"], name=op.f("fk_kernels_decision_id_decisions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernels")),
        sa.UniqueConstraint(
            "revision",
            "config",
            "arch",
            "key",
            "at",
            name=op.f("uq_kernels_revision_config_arch_key_at"),
        ),
    )
    with op.batch_alter_table("kernels", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_kernels_decision_id"), ["decision_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_kernels_key_revision"), ["key", "revision"], unique=False
        )

    op.create_table(
        "mails",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("alert_id", sa.Integer(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("in_reply_to", sa.Text(), nullable=False),
        sa.Column("refers_to", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("sent_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name=op.f("fk_mails_alert_id_alerts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
        sa.UniqueConstraint("key", name=op.f("uq_mails_key")),
        sa.UniqueConstraint("message_id", name=op.f("uq_mails_message_id")),
    )
    with op.batch_alter_table("mails", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_mails_alert_id"), ["alert_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_mails_state_next_try_at"), ["state", "next_try_at"], unique=False
        )

    op.create_table(
        "samples",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("testbed", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("pps", sa.Double(), nullable=False),
        sa.Column("offered_pps", sa.Double(), nullable=False),
        sa.Column("received", sa.JSON(), nullable=False),
        sa.Column("offered", sa.JSON(), nullable=False),
        sa.Column("problems", sa.JSON(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("decision_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_samples_boot_id_boots")),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decisions.id"], name=op.f("fk_samples_decision_id_decisions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
    )
    with op.batch_alter_table("samples", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_samples_boot_id"), ["boot_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_samples_decision_id"), ["decision_id"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_samples_testbed_scenario_valid_at"),
            ["testbed", "scenario", "valid", "at"],
            unique=False,
        )


def downgrade() -> None:
    """Goes back."""
    with op.batch_alter_table("samples", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_samples_testbed_scenario_valid_at"))
        batch_op.drop_index(batch_op.f("ix_samples_decision_id"))
        batch_op.drop_index(batch_op.f("ix_samples_boot_id"))

    op.drop_table("samples")
    with op.batch_alter_table("mails", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_mails_state_next_try_at"))
        batch_op.drop_index(batch_op.f("ix_mails_alert_id"))

    op.drop_table("mails")
    with op.batch_alter_table("kernels", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_kernels_key_revision"))
        batch_op.drop_index(batch_op.f("ix_kernels_decision_id"))

    op.drop_table("kernels")
    with op.batch_alter_table("duds", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_duds_revision"))
        batch_op.drop_index(batch_op.f("ix_duds_decision_id"))

    op.drop_table("duds")
    with op.batch_alter_table("boots", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_boots_testbed_revision"))
        batch_op.drop_index(batch_op.f("ix_boots_decision_id"))

    op.drop_table("boots")
    with op.batch_alter_table("alert_changes", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_alert_changes_alert_id"))

    op.drop_table("alert_changes")
    with op.batch_alter_table("places", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_places_revision"))

    op.drop_table("places")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_events_question_id"))

    op.drop_table("events")
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_decisions_open",
            sqlite_where=sa.text("outcome IS NULL"),
            postgresql_where=sa.text("outcome IS NULL"),
        )

    op.drop_table("decisions")
    with op.batch_alter_table("alerts", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_alerts_testbed_branch_state"))
        batch_op.drop_index(batch_op.f("ix_alerts_bisection_id"))

    op.drop_table("alerts")
    with op.batch_alter_table("questions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_questions_state"))
        batch_op.drop_index(batch_op.f("ix_questions_parent_id"))

    op.drop_table("questions")
    op.drop_table("conditions")
    with op.batch_alter_table("commits", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_commits_number"))

    op.drop_table("commits")
