"""Records of the ledger, in addition to the types of bisect/model/entities.py, with their tables.

Objects from a repository have left their session: they are copies, and changing them changes
nothing. Tables and columns keep earlier names. Times are seconds since the epoch, UTC.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from netbisect.bisect.alert_lifecycle import AlertStatus
from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_change import AlertChange, ChangeBasis, change_of
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.jobs import Job
from netbisect.bisect.model.marks import MarkVerdict
from netbisect.bisect.model.results import Culprit, Effect, Posterior, Result
from netbisect.store.db.tables import Base, CleanText, StructuredJson, record_of


class JobState(StrEnum):
    """State of a job."""

    OPEN = "open"
    CLOSED = "closed"
    HELD = "held"
    """State of a job of a cancelled request, until it is resumed."""


class RequestState(StrEnum):
    """State of a request."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    """By a person; it can be resumed."""
    FAILED = "failed"
    """No measurement was possible."""


class ActionStage(StrEnum):
    """Kind of an action."""

    KERNEL = "kernel"
    """Build a kernel."""
    TRIAL = "trial"
    """Boot a kernel and run every scenario."""
    PROFILE = "profile"
    """Boot a kernel and sample the functions it spends its time in."""


class Outcome(StrEnum):
    """Result of an attempt at an action."""

    OK = "ok"
    UNMEASURABLE = "dud"
    """It ran without a measurement of the revision."""
    RETRY = "retry"
    """A temporary failure; another attempt follows."""
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    """Cancelled by the service, because it was no longer needed."""
    LOST = "lost"
    """Unknown."""


class MailState(StrEnum):
    """State of a mail."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    """Not sent after all tries."""


_ENUMS = JobState, RequestState, ActionStage, Outcome, MailState, AlertKind, AlertState, MarkVerdict

Base.registry.update_type_annotation_map(
    {
        **{kind: CleanText(kind) for kind in _ENUMS},
        Effect: StructuredJson(Effect),
        Posterior: StructuredJson(Posterior),
        tuple[Effect, ...]: StructuredJson(tuple[Effect, ...]),
    }
)


class JobRecord(Base, kw_only=True):
    """A job, and its result once it is closed."""

    __tablename__ = "questions"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    kind: Mapped[str]
    job_json: Mapped[str] = mapped_column("noun")
    """The job, as written by `serialization.dumps`."""
    parent: Mapped[int | None] = mapped_column(
        "parent_id", ForeignKey("questions.id"), index=True, default=None
    )
    key: Mapped[str] = mapped_column(unique=True)
    """Unique, such as `night:main:c2558:2026-11-21`; a known key adds no job."""
    branch: Mapped[str]
    testbed: Mapped[str]
    priority: Mapped[int]
    """Higher ones run first."""
    requested_by: Mapped[str]
    state: Mapped[JobState] = mapped_column(index=True, default=JobState.OPEN)
    result_json: Mapped[str | None] = mapped_column("finding", default=None)
    """The result, as written by `serialization.dumps`."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None] = mapped_column(default=None)
    link: Mapped[RequestJob | None] = relationship(
        lazy="joined", default=None, compare=False, repr=False
    )
    """Link to its request."""

    @classmethod
    def of(cls, job: Job, **more: Any) -> JobRecord:  # noqa: ANN401 - columns
        """A new job; `more` has the columns that are not in it."""
        kind, job_json = serialization.tag_of(job), serialization.dumps(job)
        return cls(kind=kind, job_json=job_json, branch=job.branch, testbed=job.testbed, **more)

    @functools.cached_property
    def job(self) -> Job:
        """The job itself."""
        job: Job = serialization.loads(self.job_json)
        return job

    @functools.cached_property
    def result(self) -> Result | None:
        """The result, or None."""
        return None if self.result_json is None else serialization.loads(self.result_json)

    @property
    def request(self) -> int | None:
        """Request of the job, or None."""
        return None if self.link is None else self.link.request

    @property
    def run(self) -> int:
        """2 for a repeat of the first run of a request."""
        return 1 if self.link is None else self.link.run


class Request(Base, kw_only=True):
    """A request of a person. It has one job per testbed, and the jobs that follow from these."""

    __tablename__ = "requests"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    kind: Mapped[str]
    """compare, bisect or series."""
    parameters: Mapped[dict[str, Any]] = mapped_column("wish")
    """The request, with revision names resolved."""
    who: Mapped[str] = mapped_column(index=True)
    address: Mapped[str]
    """Mail address for the answer, or ""."""
    via: Mapped[str]
    """Origin: command, form or api."""
    priority: Mapped[int]
    state: Mapped[RequestState] = mapped_column(index=True, default=RequestState.OPEN)
    verdict: Mapped[str] = mapped_column(default="")
    """One word; "" before the answer."""
    why: Mapped[str] = mapped_column(default="")
    """The answer, or the reason for its absence, in a sentence."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None] = mapped_column(default=None)


class RequestJob(Base, kw_only=True):
    """A job of a request."""

    __tablename__ = "request_questions"

    job: Mapped[int] = mapped_column(
        "question_id", ForeignKey(JobRecord.id), primary_key=True, autoincrement=False, default=None
    )
    request: Mapped[int] = mapped_column("request_id", ForeignKey(Request.id), index=True)
    run: Mapped[int]
    """1, or 2 for a repetition."""


class AuditEntry(Base, kw_only=True):
    """An action of a user; rows are never changed."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    at: Mapped[float] = mapped_column(index=True)
    who: Mapped[str]
    via: Mapped[str]
    what: Mapped[str]
    """The verb: ask, cancel, resume, extend, priority, answer, refuse, token, revoke."""
    request: Mapped[int | None] = mapped_column("request_id", ForeignKey(Request.id), index=True)
    data: Mapped[dict[str, Any]]
    origin: Mapped[str]
    """Network address; "" for this host."""


class Token(Base, kw_only=True):
    """An API token, without its secret."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    who: Mapped[str]
    rights: Mapped[tuple[str, ...]]
    digest: Mapped[str] = mapped_column(repr=False)
    """SHA-256 of its secret, in hexadecimal digits."""
    created_by: Mapped[str]
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    """None: never."""
    revoked_at: Mapped[float | None] = mapped_column(default=None)

    def counts(self, now: float) -> bool:
        """Whether the token is valid at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Action(Base, kw_only=True):
    """One attempt at an action of a job."""

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

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    job: Mapped[int] = mapped_column("question_id", ForeignKey(JobRecord.id))
    seq: Mapped[int]
    """Number of the action within the job, from 1."""
    attempt: Mapped[int]
    """Number of the attempt, from 1."""
    external_id: Mapped[str] = mapped_column(unique=True)
    """External id in Buildbot, `nb:<job>:<seq>:<attempt>`."""
    stage: Mapped[ActionStage]
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
    posterior: Mapped[Posterior | None] = mapped_column("belief")
    buildset: Mapped[int | None] = mapped_column(default=None)
    """None before it is submitted."""
    outcome: Mapped[Outcome | None] = mapped_column(default=None)
    """None while it is open."""
    note: Mapped[str] = mapped_column(default="")
    intended_at: Mapped[float]
    """Time at which a waiting attempt will be submitted."""
    submitted_at: Mapped[float | None] = mapped_column(default=None)
    finished_at: Mapped[float | None] = mapped_column(default=None)


class Quarantine(Base, kw_only=True):
    """A quarantine: a testbed without new trials until its owner releases it."""

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

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    testbed: Mapped[str] = mapped_column(index=True)
    since: Mapped[float]
    fault: Mapped[str]
    """Name in the table of bisect/model/faults.py; "" for a manual quarantine."""
    why: Mapped[str]
    log: Mapped[str]
    """End of the console output."""
    by: Mapped[str]
    wanted_at: Mapped[float | None] = mapped_column(default=None)
    """Time of the pending release request; None without one, or after a refusal."""
    wanted_by: Mapped[str] = mapped_column(default="")
    note: Mapped[str] = mapped_column(default="")
    """The repair, as described in the request for release."""
    refused: Mapped[str] = mapped_column(default="")
    """Why the last request for release was refused, or ""."""
    released_at: Mapped[float | None] = mapped_column(default=None)
    released_by: Mapped[str] = mapped_column(default="")


class Alert(Base, kw_only=True):
    """A change of level, from the candidate to the end."""

    __tablename__ = "alerts"
    __table_args__ = (Index(None, "testbed", "branch", "state"),)

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    testbed: Mapped[str]
    branch: Mapped[str]
    lead: Mapped[str]
    good: Mapped[str]
    bad: Mapped[str]
    retest: Mapped[tuple[Effect, ...]] = mapped_column("effects", default=())
    """Effects of the announcement; leading scenario first, empty before it."""
    state: Mapped[AlertState] = mapped_column(default=AlertState.CANDIDATE)
    culprit: Mapped[str] = mapped_column(default="")
    """Revision, or ""."""
    comparison: Mapped[int | None] = mapped_column(
        "comparison_id", ForeignKey(JobRecord.id), unique=True
    )
    """Job that confirmed it, or None."""
    bisection: Mapped[int | None] = mapped_column(
        "bisection_id", ForeignKey(JobRecord.id), index=True, default=None
    )
    """Job that searches for the culprit, or None."""
    thread: Mapped[str] = mapped_column(default="")
    """Message-ID of the first mail, or ""."""
    opened_at: Mapped[float]
    closed_at: Mapped[float | None] = mapped_column(default=None)
    kind: Mapped[AlertKind]
    announced_at: Mapped[float | None] = mapped_column(default=None)
    """None for candidates."""
    muted_until: Mapped[float | None] = mapped_column(default=None)
    recovery: Mapped[str] = mapped_column(default="")
    """First revision with the old level; "" if not recovered or unknown."""
    merged_into: Mapped[int | None] = mapped_column(ForeignKey("alerts.id"), default=None)
    """Earlier alert of the same event, or None."""
    announced: Mapped[list[AlertSeries]] = relationship(
        order_by="AlertSeries.id", lazy="selectin", default_factory=list
    )
    """Announced effects, oldest first."""
    search: Mapped[JobRecord | None] = relationship(
        foreign_keys=[bisection], lazy="selectin", viewonly=True, init=False, compare=False
    )
    merged: Mapped[list[Alert]] = relationship(
        order_by="Alert.id", lazy="selectin", join_depth=1, viewonly=True, init=False, compare=False
    )
    """Alerts merged into it."""

    @property
    def status(self) -> AlertStatus:
        """Its status, for bisect/alert_lifecycle.py."""
        return record_of(AlertStatus, self)

    @property
    def change(self) -> AlertChange:
        """The change as measured last."""
        if self.kind is AlertKind.MODES:
            return AlertChange(ChangeBasis.SCREEN, self.retest)
        return change_of(self.retest, self._result)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Effects of the change as measured last; leading scenario first."""
        return self.change.effects

    @property
    def series(self) -> tuple[AlertSeries, ...]:
        """All announced effects, then those of the verifications of culprits."""
        verified = [one for alert in (self, *self.merged) for one in alert.verified_series()]
        return (*self.announced, *verified)

    @property
    def _result(self) -> Result | None:
        """The result of the search, or None; `search` may be an earlier one."""
        search = self.search
        return None if search is None or search.id != self.bisection else search.result

    def verified_series(self) -> Iterator[AlertSeries]:
        """The series as measured for the verification of the culprit."""
        if isinstance(self._result, Culprit) and self.search is not None:
            for effect in self._result.effects:
                yield AlertSeries(
                    testbed=self.testbed,
                    scenario=effect.scenario,
                    branch=self.branch,
                    good=self._result.parent,
                    bad=self._result.revision,
                    effect=effect,
                    at=self.search.closed_at or 0.0,
                )


class AlertSeries(Base, kw_only=True):
    """A series of an alert, with its announced effect; rows are never changed."""

    __tablename__ = "alert_series"
    __table_args__ = (Index(None, "testbed", "scenario", "branch"),)

    id: Mapped[int] = mapped_column(primary_key=True, default=None, compare=False)
    alert: Mapped[int] = mapped_column(
        "alert_id", ForeignKey(Alert.id), index=True, default=None, compare=False
    )
    testbed: Mapped[str]
    scenario: Mapped[str]
    branch: Mapped[str]
    good: Mapped[str]
    bad: Mapped[str]
    """The change is between `good` and `bad`."""
    effect: Mapped[Effect | None]
    """None without a retest."""
    at: Mapped[float]

    @property
    def moved(self) -> bool:
        """Whether the series changed; a retest may show that it did not."""
        return self.effect is None or self.effect.low * self.effect.high > 0


class AlertChangeRow(Base, kw_only=True):
    """An entry of the history of an alert."""

    __tablename__ = "alert_changes"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    alert: Mapped[int] = mapped_column("alert_id", ForeignKey(Alert.id), index=True)
    at: Mapped[float]
    who: Mapped[str]
    what: Mapped[str]
    """Reason, in words."""
    state: Mapped[AlertState | None] = mapped_column(nullable=False)
    """New state of the alert; None, stored as "", if an old version did not record it."""


class MarkRow(Base, kw_only=True):
    """What a user says about a commit of a search."""

    __tablename__ = "marks"

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    job: Mapped[int] = mapped_column("question_id", ForeignKey(JobRecord.id), index=True)
    revision: Mapped[str]
    verdict: Mapped[MarkVerdict]
    why: Mapped[str]
    who: Mapped[str]
    at: Mapped[float]


class OutboxMail(Base, kw_only=True):
    """A waiting, sent or failed mail."""

    __tablename__ = "mails"
    __table_args__ = (Index(None, "state", "next_try_at"),)

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    message_id: Mapped[str] = mapped_column(unique=True)
    key: Mapped[str] = mapped_column(unique=True)
    alert: Mapped[int | None] = mapped_column("alert_id", ForeignKey(Alert.id), index=True)
    subject: Mapped[str]
    recipients: Mapped[tuple[str, ...]]
    body: Mapped[str]
    in_reply_to: Mapped[str]
    references: Mapped[tuple[str, ...]] = mapped_column("refers_to")
    """Message-IDs, oldest first."""
    state: Mapped[MailState] = mapped_column(default=MailState.WAITING)
    attempts: Mapped[int] = mapped_column(default=0)
    next_try_at: Mapped[float]
    last_error: Mapped[str] = mapped_column(default="")
    created_at: Mapped[float]
    sent_at: Mapped[float | None] = mapped_column(default=None)


class LedgerEvent(Base, kw_only=True):
    """An event, stored in the transaction of its cause.

    `kind` is one of kernel, boot, conditions, sample, dud, asked, decided, submitted, finished,
    closed, alert, mail, quarantine, release-asked, release-refused, released, learned or import;
    `data` says what, in texts and numbers. Write transactions are serialized (see database.py), so
    events become visible in the order of their ids.
    """

    __tablename__ = "events"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - read by SQLAlchemy

    id: Mapped[int] = mapped_column(primary_key=True, default=None)
    """Grows; a marker for `events.since`."""
    at: Mapped[float]
    kind: Mapped[str]
    job: Mapped[int | None] = mapped_column("question_id", ForeignKey(JobRecord.id), index=True)
    data: Mapped[dict[str, Any]]
