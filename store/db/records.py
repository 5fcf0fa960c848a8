"""Records of the ledger, in addition to the types of bisect/model/entities.py.

Times are seconds since the epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from netbisect.bisect.model.alert_change import ChangeBasis
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.jobs import Job
from netbisect.bisect.model.results import (
    Effect,
    Posterior,
    Result,
)


class JobState(StrEnum):
    """State of a job."""

    OPEN = "open"
    CLOSED = "closed"
    HELD = "held"
    """Of a cancelled request, until it is resumed."""


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
    DUD = "dud"
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


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as stored in the ledger."""

    id: int
    key: str
    """Unique, such as `night:main:c2558:2026-11-21`; a known key adds no job."""
    job: Job
    parent: int | None
    """Parent job, or None."""
    priority: int
    """Higher ones run first."""
    requested_by: str
    state: JobState
    finding: Result | None
    opened_at: float
    closed_at: float | None
    request: int | None = None
    """Request of the job, or None."""
    run: int = 1
    """2 for a repeat of the first run of a request."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a person."""

    id: int
    kind: str
    """compare, bisect or series."""
    wish: dict[str, Any]
    """JSON of the request, with revision names resolved."""
    who: str
    address: str
    """Mail address for the answer, or ""."""
    via: str
    """Origin: command, form or api."""
    priority: int
    state: RequestState
    verdict: str
    """One word; "" before the answer."""
    why: str
    """The answer, or the reason for its absence, in a sentence."""
    opened_at: float
    closed_at: float | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log."""

    id: int
    at: float
    who: str
    via: str
    what: str
    """The verb: ask, cancel, resume, extend, priority, answer, refuse, token, revoke."""
    request: int | None
    data: dict[str, Any]
    origin: str = ""
    """Network address; "" for this host."""


@dataclass(frozen=True, slots=True)
class Token:
    """An API token."""

    id: int
    who: str
    rights: tuple[str, ...]
    digest: str = field(repr=False)
    """SHA-256 of its secret, in hexadecimal digits."""
    created_by: str
    created_at: float
    expires_at: float | None
    """None: never."""
    revoked_at: float | None

    def counts(self, now: float) -> bool:
        """Whether the token is valid at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Action:
    """One attempt at an action of a job."""

    id: int
    job: int
    seq: int
    """Number of the action within the job, from 1."""
    attempt: int
    """Number of the attempt, from 1."""
    external_id: str
    """External id in Buildbot, `nb:<job>:<seq>:<attempt>`."""
    stage: ActionStage
    revision: str
    target: str
    """The builder of a kernel, the testbed of a trial."""
    testbed: str
    """Testbed of the trial, or of the trials of a kernel."""
    config: str
    arch: str
    runs: int
    """Runs of each scenario in a trial."""
    why: str
    belief: Posterior | None
    buildset: int | None
    """None before it is submitted."""
    outcome: Outcome | None
    """None while it is open."""
    note: str
    intended_at: float
    submitted_at: float | None
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A testbed without new trials until its owner releases it."""

    id: int
    testbed: str
    since: float
    fault: str
    """Name in the table of faults; "" for a manual quarantine."""
    why: str
    log: str
    """End of the console output."""
    by: str
    wanted_at: float | None
    """Time of the pending release request, or None."""
    wanted_by: str
    note: str
    refused: str
    """Result of the last failed release check, or ""."""
    released_at: float | None
    released_by: str


@dataclass(frozen=True, slots=True)
class AlertSeries:
    """A series with an alert, and its announced effect."""

    testbed: str
    scenario: str
    branch: str
    good: str
    bad: str
    """The change is between `good` and `bad`."""
    effect: Effect | None
    """None without a retest."""
    at: float

    @property
    def moved(self) -> bool:
        """Whether the series changed; a retest may show that it did not."""
        return self.effect is None or self.effect.low * self.effect.high > 0


@dataclass(frozen=True, slots=True)
class Alert:
    """A change of level, as measured last; `series` has all announced effects, oldest first."""

    id: int
    testbed: str
    branch: str
    lead: str
    good: str
    bad: str
    effects: tuple[Effect, ...]
    """As `change_of` gives them; leading scenario first, empty before the announcement."""
    basis: ChangeBasis
    """Measurements behind the effects."""
    retest: tuple[Effect, ...]
    """Effects of the announcement, likewise."""
    state: AlertState
    culprit: str
    """Revision, or ""."""
    comparison: int | None
    """Job that confirmed it, or None."""
    bisection: int | None
    """Job that searches for the culprit, or None."""
    thread: str
    """Message-ID of the first mail, or ""."""
    opened_at: float
    closed_at: float | None
    kind: AlertKind
    announced_at: float | None
    """None for candidates."""
    muted_until: float | None
    recovery: str
    """First revision with the old level; "" if not recovered or unknown."""
    merged_into: int | None
    """Earlier alert of the same event, or None."""
    series: tuple[AlertSeries, ...]


@dataclass(frozen=True, slots=True)
class OutboxMail:
    """A mail of the outbox."""

    id: int
    key: str
    message_id: str
    alert: int | None
    subject: str
    recipients: tuple[str, ...]
    body: str
    in_reply_to: str
    references: tuple[str, ...]
    """Message-IDs, oldest first."""
    state: MailState
    attempts: int
    next_try_at: float
    last_error: str
    created_at: float
    sent_at: float | None


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """An event of the ledger.

    `kind` is one of kernel, boot, conditions, sample, dud, asked, decided, submitted, finished,
    closed, alert, mail, quarantine, release-asked, release-refused, released, learned or import;
    `data` says what, in texts and numbers.
    """

    id: int
    """Grows; a marker for `events.since`."""
    at: float
    kind: str
    job: int | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeriesName:
    """Names a series."""

    testbed: str
    scenario: str
    branch: str
