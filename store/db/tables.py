"""The tables.

Rows of facts (kernels, boots, conditions, samples, duds) are never changed. Each change of a job
("question"), action ("decision"), alert or mail is also a row of `events`. Times are seconds since
the epoch, UTC.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    ForeignKey,
    Index,
    MetaData,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


def clean(text: str) -> str:
    """Replaces NUL and lone surrogates, which databases reject, in the output of consoles."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class CleanText(TypeDecorator[str]):
    """Text that is stored after `clean`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's interface
        """Cleans a text."""
        return None if value is None else clean(value)


class Base(DeclarativeBase):
    """All tables; constraints have names, which migrations use."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - read by SQLAlchemy, never changed
        str: CleanText(),
        float: Double(),
        list[str]: JSON(),
        list[float]: JSON(),
        dict[str, str]: JSON(),
        dict[str, Any]: JSON(none_as_null=True),
        list[dict[str, Any]]: JSON(),
    }


# ------------------------------------------------------------------------------------ commits


class CommitRow(Base):
    """A commit on the first-parent line of some branch."""

    __tablename__ = "commits"

    revision: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(index=True)
    subject: Mapped[str]
    body: Mapped[str]
    author: Mapped[str]
    email: Mapped[str]
    at: Mapped[float]
    paths: Mapped[list[str]]
    lines: Mapped[int]


class PlaceRow(Base):
    """A commit and its number on the first-parent line of a branch."""

    __tablename__ = "places"

    branch: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[str] = mapped_column(ForeignKey(CommitRow.revision), index=True)


# --------------------------------------------------------------------------- jobs and actions


class QuestionRow(Base):
    """A job, and its result once it is closed."""

    __tablename__ = "questions"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    noun: Mapped[str]
    """The job, as written by `serialization.dumps`."""
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("questions.id"), index=True)
    key: Mapped[str] = mapped_column(unique=True)
    branch: Mapped[str]
    testbed: Mapped[str]
    priority: Mapped[int]
    requested_by: Mapped[str]
    state: Mapped[str] = mapped_column(index=True)
    finding: Mapped[str | None]
    """The result, as written by `serialization.dumps`."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None]
    link: Mapped[RequestQuestionRow | None] = relationship(lazy="joined")
    """Link to its request."""


class RequestRow(Base):
    """A request. It has one job per testbed, and the jobs that follow from these."""

    __tablename__ = "requests"

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    wish: Mapped[dict[str, Any]]
    """The resolved request."""
    who: Mapped[str] = mapped_column(index=True)
    address: Mapped[str]
    """Mail address for the answer, or ""."""
    via: Mapped[str]
    """Interface: command, form or api."""
    priority: Mapped[int]
    state: Mapped[str] = mapped_column(index=True)
    verdict: Mapped[str]
    """In one word; "" before the answer."""
    why: Mapped[str]
    """The answer, or the reason for its absence, in a sentence."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None]


class RequestQuestionRow(Base):
    """A job of a request."""

    __tablename__ = "request_questions"

    question_id: Mapped[int] = mapped_column(
        ForeignKey(QuestionRow.id), primary_key=True, autoincrement=False
    )
    request_id: Mapped[int] = mapped_column(ForeignKey(RequestRow.id), index=True)
    run: Mapped[int]
    """1, or 2 for a repetition."""


class AuditRow(Base):
    """An action of a user; rows are never changed."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[float] = mapped_column(index=True)
    who: Mapped[str]
    via: Mapped[str]
    what: Mapped[str]
    """The verb: ask, cancel, resume, extend, priority, answer, refuse, token, revoke."""
    request_id: Mapped[int | None] = mapped_column(ForeignKey(RequestRow.id), index=True)
    data: Mapped[dict[str, Any]]
    origin: Mapped[str]
    """Network address; "" for this host."""


class TokenRow(Base):
    """An API token, without its secret."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    who: Mapped[str]
    rights: Mapped[list[str]]
    digest: Mapped[str]
    """SHA-256 of its secret, in hexadecimal digits."""
    created_by: Mapped[str]
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class DecisionRow(Base):
    """An attempt at an action of a job."""

    __tablename__ = "decisions"
    __table_args__ = (
        UniqueConstraint("question_id", "seq", "attempt"),
        # At most one open action per job and testbed, also after a crash.
        Index(
            "ix_decisions_open",
            "question_id",
            "testbed",
            unique=True,
            sqlite_where=text("outcome IS NULL"),
            postgresql_where=text("outcome IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey(QuestionRow.id))
    seq: Mapped[int]
    attempt: Mapped[int]
    external_id: Mapped[str] = mapped_column(unique=True)
    stage: Mapped[str]
    revision: Mapped[str]
    target: Mapped[str]
    """The builder of a kernel, the testbed of a trial."""
    testbed: Mapped[str] = mapped_column(server_default="")
    """Testbed of the trial, or of the trials of a kernel."""
    config: Mapped[str]
    arch: Mapped[str]
    runs: Mapped[int] = mapped_column(server_default="1")
    """Runs of each scenario in a trial."""
    why: Mapped[str]
    belief: Mapped[dict[str, Any] | None]
    buildset: Mapped[int | None]
    outcome: Mapped[str | None]
    note: Mapped[str]
    intended_at: Mapped[float]
    submitted_at: Mapped[float | None]
    finished_at: Mapped[float | None]


# -------------------------------------------------------------------------------------- facts


class KernelRow(Base):
    """A finished build; the newest one per revision, config and arch counts."""

    __tablename__ = "kernels"
    __table_args__ = (
        UniqueConstraint("revision", "config", "arch", "key", "at"),
        Index(None, "key", "revision"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    revision: Mapped[str]
    config: Mapped[str]
    arch: Mapped[str]
    identity: Mapped[str]
    key: Mapped[str]
    version: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey(DecisionRow.id), index=True)


class BootRow(Base):
    """A successful boot."""

    __tablename__ = "boots"
    __table_args__ = (Index(None, "testbed", "revision"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    testbed: Mapped[str]
    kernel: Mapped[str]
    """Key of a kernel; no foreign key, because it may not be in the ledger."""
    revision: Mapped[str]
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey(DecisionRow.id), index=True)


class ConditionsRow(Base):
    """Conditions of samples; equal testbeds may have the same digest."""

    __tablename__ = "conditions"

    testbed: Mapped[str] = mapped_column(primary_key=True)
    scenario: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    values: Mapped[dict[str, str]]
    at: Mapped[float]
    """Time of the first record."""


class SampleRow(Base):
    """A run of a scenario on a boot."""

    __tablename__ = "samples"
    __table_args__ = (Index(None, "testbed", "scenario", "valid", "at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    boot_id: Mapped[str] = mapped_column(ForeignKey(BootRow.id), index=True)
    testbed: Mapped[str]
    scenario: Mapped[str]
    pps: Mapped[float]
    offered_pps: Mapped[float]
    received: Mapped[list[float]]
    offered: Mapped[list[float]]
    problems: Mapped[list[str]]
    warnings: Mapped[list[str]]
    valid: Mapped[bool]
    """Sample.valid, for queries."""
    conditions: Mapped[str]
    """Digest; no foreign key, because conditions are optional."""
    at: Mapped[float]
    seconds: Mapped[float]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey(DecisionRow.id), index=True)


class DudRow(Base):
    """A failed build or trial."""

    __tablename__ = "duds"

    id: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[str] = mapped_column(index=True)
    stage: Mapped[str]
    reaction: Mapped[str]
    why: Mapped[str]
    at: Mapped[float]
    seconds: Mapped[float]
    testbed: Mapped[str]
    scenario: Mapped[str]
    log: Mapped[str]
    fault: Mapped[str] = mapped_column(server_default="")
    decision_id: Mapped[int | None] = mapped_column(ForeignKey(DecisionRow.id), index=True)


# ----------------------------------------------------------------------------------- testbeds


class QuarantineRow(Base):
    """A current or past quarantine of a testbed."""

    __tablename__ = "quarantines"
    __table_args__ = (
        Index(
            "ix_quarantines_standing",
            "testbed",
            unique=True,
            sqlite_where=text("released_at IS NULL"),
            postgresql_where=text("released_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    testbed: Mapped[str] = mapped_column(index=True)
    since: Mapped[float]
    fault: Mapped[str]
    """Name in the table of bisect/model/faults.py; "" for a manual quarantine."""
    why: Mapped[str]
    log: Mapped[str]
    """End of the console output."""
    by: Mapped[str]
    wanted_at: Mapped[float | None]
    """Time of the request for release; None without one, or after a refusal."""
    wanted_by: Mapped[str]
    note: Mapped[str]
    """The repair, as described in the request for release."""
    refused: Mapped[str]
    """Why the last request for release was refused."""
    released_at: Mapped[float | None]
    released_by: Mapped[str]


# --------------------------------------------------------------------- alerts, mails and events


class AlertRow(Base):
    """A change of level, from the candidate to the end."""

    __tablename__ = "alerts"
    __table_args__ = (Index(None, "testbed", "branch", "state"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    testbed: Mapped[str]
    branch: Mapped[str]
    lead: Mapped[str]
    good: Mapped[str]
    bad: Mapped[str]
    effects: Mapped[list[dict[str, Any]]]
    state: Mapped[str]
    culprit: Mapped[str]
    comparison_id: Mapped[int | None] = mapped_column(ForeignKey(QuestionRow.id), unique=True)
    bisection_id: Mapped[int | None] = mapped_column(ForeignKey(QuestionRow.id), index=True)
    thread: Mapped[str]
    """Message-ID of its first mail."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None]
    kind: Mapped[str]
    announced_at: Mapped[float | None]
    """None for candidates."""
    muted_until: Mapped[float | None]
    recovery: Mapped[str]
    """First revision with the old level."""
    merged_into: Mapped[int | None] = mapped_column(ForeignKey("alerts.id"))
    series: Mapped[list[AlertSeriesRow]] = relationship(
        order_by="AlertSeriesRow.id", lazy="selectin"
    )
    search: Mapped[QuestionRow | None] = relationship(
        foreign_keys=[bisection_id], lazy="selectin", viewonly=True
    )
    merged: Mapped[list[AlertRow]] = relationship(
        order_by="AlertRow.id", lazy="selectin", join_depth=1, viewonly=True
    )
    """Alerts merged into it."""


class AlertSeriesRow(Base):
    """A series of an alert, with its announced effect; rows are never changed."""

    __tablename__ = "alert_series"
    __table_args__ = (Index(None, "testbed", "scenario", "branch"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    alert_id: Mapped[int] = mapped_column(ForeignKey(AlertRow.id), index=True)
    testbed: Mapped[str]
    scenario: Mapped[str]
    branch: Mapped[str]
    good: Mapped[str]
    bad: Mapped[str]
    effect: Mapped[dict[str, Any] | None]
    """None without a retest."""
    at: Mapped[float]


class AlertChangeRow(Base):
    """An entry of the history of an alert."""

    __tablename__ = "alert_changes"

    id: Mapped[int] = mapped_column(primary_key=True)
    alert_id: Mapped[int] = mapped_column(ForeignKey(AlertRow.id), index=True)
    at: Mapped[float]
    who: Mapped[str]
    what: Mapped[str]
    """Reason, in words."""
    state: Mapped[str]
    """New state of the alert; "" if an old version did not record it."""


class MarkRow(Base):
    """What a user says about a commit of a search."""

    __tablename__ = "marks"

    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey(QuestionRow.id), index=True)
    revision: Mapped[str]
    verdict: Mapped[str]
    why: Mapped[str]
    who: Mapped[str]
    at: Mapped[float]


class MailRow(Base):
    """A waiting, sent or failed mail."""

    __tablename__ = "mails"
    __table_args__ = (Index(None, "state", "next_try_at"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[str] = mapped_column(unique=True)
    key: Mapped[str] = mapped_column(unique=True)
    alert_id: Mapped[int | None] = mapped_column(ForeignKey(AlertRow.id), index=True)
    subject: Mapped[str]
    recipients: Mapped[list[str]]
    body: Mapped[str]
    in_reply_to: Mapped[str]
    refers_to: Mapped[list[str]]
    """Message-IDs for the References header, oldest first."""
    state: Mapped[str]
    attempts: Mapped[int]
    next_try_at: Mapped[float]
    last_error: Mapped[str]
    created_at: Mapped[float]
    sent_at: Mapped[float | None]


class EventRow(Base):
    """An event, stored in the transaction of its cause.

    Write transactions are serialized (see database.py), so events become visible in the order of
    their ids.
    """

    __tablename__ = "events"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - read by SQLAlchemy

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[float]
    kind: Mapped[str]
    question_id: Mapped[int | None] = mapped_column(ForeignKey(QuestionRow.id), index=True)
    data: Mapped[dict[str, Any]]
