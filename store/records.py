"""What the ledger gives back besides the nouns of bisect/model.py: frozen, free of the database.

Times are seconds since the epoch, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from netbisect.bisect.model import Belief, Effect, Finding, Question
from netbisect.bisect.states import AlertKind, AlertState


class QuestionState(StrEnum):
    """Whether a question still wants an answer."""

    OPEN = "open"
    CLOSED = "closed"
    HELD = "held"
    """Of a request that was cancelled: nothing is done for it until that is resumed."""


class RequestState(StrEnum):
    """How far a request has come."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    """By somebody; it can be resumed."""
    FAILED = "failed"
    """Nothing could be measured."""


class DecisionStage(StrEnum):
    """What kind of work was decided."""

    KERNEL = "kernel"
    """Build one."""
    TRIAL = "trial"
    """Boot one, and run every scenario."""
    PROFILE = "profile"
    """Boot one, and see in which functions it spends its time."""


class Outcome(StrEnum):
    """How an attempt at a decision ended."""

    OK = "ok"
    DUD = "dud"
    """It ran, and the revision could not be asked."""
    RETRY = "retry"
    """Passing trouble; a further attempt follows."""
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    """Taken back by the service itself: it was no longer wanted there, or no longer at all."""
    LOST = "lost"
    """Nobody can say any more what became of it."""


class MailState(StrEnum):
    """Whether a mail is on its way."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    """Given up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its place in the ledger."""

    id: int
    key: str
    """Unique, such as `night:main:c2558:2026-11-21`: asked twice, it is one question."""
    question: Question
    parent: int | None
    """The question it follows from."""
    priority: int
    """Higher ones first."""
    requested_by: str
    state: QuestionState
    finding: Finding | None
    opened_at: float
    closed_at: float | None
    request: int | None = None
    """The request that it was asked for, if somebody asked."""
    run: int = 1
    """2 for what repeats a request's first run."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody has asked for."""

    id: int
    kind: str
    """compare, bisect or series."""
    wish: dict[str, Any]
    """All that was asked for, as JSON takes it; names of revisions resolved."""
    who: str
    address: str
    """Where the answer is mailed to; "" for nowhere."""
    via: str
    """By which way it came: command, form, api."""
    priority: int
    state: RequestState
    verdict: str
    """In one word; "" before the answer."""
    why: str
    """The answer in a sentence, or why there is none."""
    opened_at: float
    closed_at: float | None


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody has done, as the audit log has it."""

    id: int
    at: float
    who: str
    via: str
    what: str
    """The verb: ask, cancel, resume, extend, priority, answer, refuse, token, revoke."""
    request: int | None
    data: dict[str, Any]
    origin: str = ""
    """From where: an address of the network, "" for this host."""


@dataclass(frozen=True, slots=True)
class Token:
    """By which a program shows for whom it asks."""

    id: int
    who: str
    rights: tuple[str, ...]
    digest: str = field(repr=False)
    """SHA-256 of its secret, in hexadecimal digits."""
    created_by: str
    created_at: float
    expires_at: float | None
    """None for never."""
    revoked_at: float | None

    def counts(self, now: float) -> bool:
        """Whether it is good at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt at something that was decided for a question."""

    id: int
    question: int
    seq: int
    """Counts the decisions of a question from 1."""
    attempt: int
    """Counts the attempts at a decision from 1."""
    external_id: str
    """`nb:<question>:<seq>:<attempt>`, by which Buildbot knows it."""
    stage: DecisionStage
    revision: str
    target: str
    """The builder of a kernel, the testbed of a trial."""
    testbed: str
    """For which it is: where a kernel that is built will be measured."""
    config: str
    arch: str
    runs: int
    """Of each scenario, of a trial."""
    why: str
    belief: Belief | None
    buildset: int | None
    """None until it is known to have been submitted."""
    outcome: Outcome | None
    """None while it is open."""
    note: str
    intended_at: float
    submitted_at: float | None
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A testbed that gets no orders until its owner has looked at it."""

    id: int
    testbed: str
    since: float
    fault: str
    """Its name in the table of faults; "" when somebody put it there by hand."""
    why: str
    log: str
    """The end of what the machine said."""
    by: str
    wanted_at: float | None
    """When its release was asked for, if it is asked for now."""
    wanted_by: str
    note: str
    refused: str
    """What was wrong when it was looked at for its release last; "" if it never was."""
    released_at: float | None
    released_by: str


@dataclass(frozen=True, slots=True)
class AlertSeries:
    """A series in which an alert was seen, with the numbers that were announced then."""

    testbed: str
    scenario: str
    branch: str
    good: str
    bad: str
    """Where in the series: between these revisions."""
    effect: Effect | None
    """None where it was only seen, and not measured again."""
    at: float

    @property
    def moved(self) -> bool:
        """Whether the series changed; one that was measured and did not is listed too."""
        return self.effect is None or self.effect.low * self.effect.high > 0


@dataclass(frozen=True, slots=True)
class Alert:
    """A change of level, with the numbers that were announced last.

    All that were ever announced are in `series`, oldest first.
    """

    id: int
    testbed: str
    branch: str
    lead: str
    good: str
    bad: str
    effects: tuple[Effect, ...]
    """The leading scenario first; empty before it is announced."""
    state: AlertState
    culprit: str
    """Revision; "" while there is none."""
    comparison: int | None
    """Question that confirmed it."""
    bisection: int | None
    """Question that looks for its culprit."""
    thread: str
    """Message-ID of its first mail; "" before."""
    opened_at: float
    closed_at: float | None
    kind: AlertKind
    announced_at: float | None
    """None for what never became more than a candidate."""
    muted_until: float | None
    recovery: str
    """First revision whose level was back; "" while it is not, or where nobody knows it."""
    merged_into: int | None
    """The earlier alert that stands for this one too."""
    series: tuple[AlertSeries, ...]


@dataclass(frozen=True, slots=True)
class AlertChange:
    """Who did what to an alert, and when."""

    at: float
    who: str
    what: str
    """Why, in words."""
    state: AlertState | None
    """Of the alert since then; None where an older netbisect did not write it down."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail of the outbox, with the headers that make a thread of an alert's mails."""

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
class Event:
    """Something that happened.

    `kind` is one of kernel, boot, conditions, sample, dud, asked, decided, submitted, finished,
    closed, alert, mail, quarantine, release-asked, release-refused, released, learned or import;
    `data` says what, in texts and numbers.
    """

    id: int
    """Grows; a marker for `events_since`."""
    at: float
    kind: str
    question: int | None
    data: dict[str, Any]
