"""Actions: stored before they are submitted, so that a crash repeats nothing.

An open action without a buildset may have been submitted: the scheduler looks up its external id
in Buildbot before it submits the action again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.results import Posterior
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Action, ActionStage, JobRecord, JobState, Outcome
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import FailureRow

_RETRIED = (
    *("job", "seq", "stage", "revision", "target", "testbed"),
    *("config", "arch", "runs", "why", "posterior"),
)
"""Columns that all attempts at an action share."""


class NotOpenError(StoreError):
    """The job is held or closed: it gets no more actions."""


class ActionRepository(LedgerRepository):
    """Actions of jobs and their outcomes."""

    def intend(
        self,
        job: int,
        stage: ActionStage,
        revision: str,
        target: str,
        *,
        testbed: str = "",
        config: str,
        arch: str,
        why: str,
        posterior: Posterior | None = None,
        runs: int = 1,
    ) -> Action:
        """Stores the next action of a job; the arguments are fields of `Action`.

        The job is open and has no open action for the testbed, which is its own by default.

        Raises:
            NotOpenError: the job is held or closed.
            StoreError: there is no such job, or it has an open action for this testbed.
        """
        with self.writing() as writing:
            session = writing.session
            record = get_row(session, JobRecord, job)
            if record.state != JobState.OPEN:
                raise NotOpenError(
                    f"job {job} ({record.key}) is {record.state}: nothing more is done for it"
                )
            place = testbed or record.testbed
            pending = _open(session, job, place)
            if pending is not None:
                raise StoreError(
                    f"job {job} ({record.key}) still waits for {pending.external_id}; "
                    f"it is finished or retried before anything else is decided for {place}"
                )
            last = session.scalar(select(func.max(Action.seq)).where(Action.job == job))
            return _add_attempt(
                writing,
                attempt=1,
                job=job,
                seq=(last or 0) + 1,
                stage=stage,
                revision=revision,
                target=target,
                testbed=place,
                config=config,
                arch=arch,
                runs=runs,
                why=why,
                posterior=posterior,
            )

    def retry(self, decision: int, note: str = "", pause: float = 0.0) -> Action:
        """Adds an attempt at an action, `pause` seconds from now; returns a later one if it exists.

        An open attempt is finished as `retry`, an attempt that was finished keeps its outcome.
        Raises StoreError if there is no such action, or its job has a later one.
        """
        with self.writing() as writing:
            session = writing.session
            row = get_row(session, Action, decision)
            later = session.scalars(
                select(Action)
                .where(
                    Action.job == row.job,
                    Action.seq == row.seq,
                    Action.attempt > row.attempt,
                )
                .order_by(Action.attempt.desc())
            ).first()
            if later is not None:
                return later
            _finish(writing, row, Outcome.RETRY, note)
            pending = _open(session, row.job, row.testbed)
            if pending is not None:
                raise StoreError(
                    f"{row.external_id} is not tried again: its job has gone on to "
                    f"{pending.external_id}"
                )
            shared = {name: getattr(row, name) for name in _RETRIED}
            return _add_attempt(writing, pause, attempt=row.attempt + 1, **shared)

    def submitted(self, decision: int, buildset: int) -> Action:
        """Records the buildset; the first one stands. Raises NotFoundError."""
        with self.writing() as writing:
            row = get_row(writing.session, Action, decision)
            if row.buildset is None:
                row.buildset = buildset
                row.submitted_at = writing.now
                writing.note("submitted", row.job, decision=row.id, buildset=buildset)
            return row

    def finish(self, decision: int, outcome: Outcome, note: str = "") -> Action:
        """Records the outcome; the first one stands. Raises NotFoundError."""
        with self.writing() as writing:
            row = get_row(writing.session, Action, decision)
            _finish(writing, row, outcome, note)
            return row

    def all_open(self, job: int | None = None) -> list[Action]:
        """Open actions of open jobs, or of one job: at most one per testbed, oldest first."""
        pending = _pending(JobState.OPEN)
        if job is not None:
            pending = pending.where(Action.job == job)
        return self._all(pending)

    def held(self) -> list[Action]:
        """Open actions of held jobs, to be cancelled."""
        return self._all(_pending(JobState.HELD))

    def of_job(self, job: int) -> list[Action]:
        """All attempts at all actions of a job, in order."""
        rows = select(Action).where(Action.job == job).order_by(Action.seq, Action.attempt)
        return self._all(rows)

    def get(self, identifier: int) -> Action:
        """The action with this id. Raises NotFoundError."""
        return self._get(Action, identifier)

    def failed(self) -> set[int]:
        """Ids of the actions with a failure."""
        query = select(FailureRow.decision_id).where(FailureRow.decision_id.is_not(None)).distinct()
        with self.reading() as session:
            return {number for number in session.scalars(query) if number is not None}


def _pending(state: JobState) -> Select[Action]:
    """Open actions of jobs in this state, oldest first."""
    return (
        select(Action)
        .join(JobRecord, Action.job == JobRecord.id)
        .where(Action.outcome.is_(None), JobRecord.state == state)
        .order_by(Action.id)
    )


def _open(session: Session, job: int, testbed: str) -> Action | None:
    return session.scalar(
        select(Action).where(
            Action.job == job,
            Action.testbed == testbed,
            Action.outcome.is_(None),
        )
    )


def _add_attempt(
    writing: WriteTransaction,
    pause: float = 0.0,
    **values: Any,  # noqa: ANN401 - columns
) -> Action:
    external_id = "nb:{job}:{seq}:{attempt}".format(**values)
    row = Action(external_id=external_id, intended_at=writing.now + pause, **values)
    writing.session.add(row)
    writing.session.flush()
    _note(writing, "decided", row, why=row.why, attempt=row.attempt)
    return row


def _finish(writing: WriteTransaction, row: Action, outcome: Outcome, note: str) -> None:
    if row.outcome is not None:
        return
    row.outcome = outcome
    row.note = note
    row.finished_at = writing.now
    _note(writing, "finished", row, outcome=row.outcome, note=note)


def _note(writing: WriteTransaction, kind: str, row: Action, **more: object) -> None:
    writing.note(
        kind,
        row.job,
        decision=row.id,
        stage=row.stage,
        revision=row.revision,
        target=row.target,
        **more,
    )
