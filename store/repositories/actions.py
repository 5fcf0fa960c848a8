"""Actions: stored before they are submitted, so that a crash repeats nothing.

An open action without a buildset may have been submitted: the scheduler looks up its external id
in Buildbot before it submits the action again.
"""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.results import Posterior
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Action, ActionStage, JobState, Outcome
from netbisect.store.db.rows import record_of
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import DecisionRow, DudRow, QuestionRow

_RETRIED = (
    *("question_id", "seq", "stage", "revision", "target", "testbed"),
    *("config", "arch", "runs", "why", "belief"),
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
        belief: Posterior | None = None,
        runs: int = 1,
    ) -> Action:
        """Stores the next action of a job.

        Args:
            job: Id of an open job without an open action for this testbed.
            stage: Kind of the action.
            revision: Of the kernel.
            target: The builder or the testbed.
            testbed: Testbed; that of the job if empty.
            config: Of the kernel.
            arch: Of the kernel.
            why: Reason, one sentence.
            belief: Posterior of the search at this time.
            runs: Runs of each scenario in a trial.

        Raises:
            NotOpenError: the job is held or closed.
            StoreError: there is no such job, or it has an open action for this testbed.
        """
        with self.writing() as writing:
            session = writing.session
            record = get_row(session, QuestionRow, job)
            if record.state != JobState.OPEN.value:
                raise NotOpenError(
                    f"question {job} ({record.key}) is {record.state}: nothing more is done for it"
                )
            place = testbed or record.testbed
            pending = _open(session, job, place)
            if pending is not None:
                raise StoreError(
                    f"question {job} ({record.key}) still waits for {pending.external_id}; "
                    f"it is finished or retried before anything else is decided for {place}"
                )
            last = session.scalar(
                select(func.max(DecisionRow.seq)).where(DecisionRow.question_id == job)
            )
            row = DecisionRow(
                question_id=job,
                seq=(last or 0) + 1,
                stage=stage.value,
                revision=revision,
                target=target,
                testbed=place,
                config=config,
                arch=arch,
                runs=runs,
                why=why,
                belief=None if belief is None else asdict(belief),
            )
            return _add_attempt(writing, row, 1)

    def retry(self, decision: int, note: str = "") -> Action:
        """Adds an attempt at an action; returns a later attempt if there is one.

        An open attempt is finished as `retry`, an attempt that was finished keeps its outcome.

        Raises:
            StoreError: there is no such action, or its job has a later one.
        """
        with self.writing() as writing:
            session = writing.session
            row = get_row(session, DecisionRow, decision)
            later = session.scalars(
                select(DecisionRow)
                .where(
                    DecisionRow.question_id == row.question_id,
                    DecisionRow.seq == row.seq,
                    DecisionRow.attempt > row.attempt,
                )
                .order_by(DecisionRow.attempt.desc())
            ).first()
            if later is not None:
                return action_of(later)
            _finish(writing, row, Outcome.RETRY, note)
            pending = _open(session, row.question_id, row.testbed)
            if pending is not None:
                raise StoreError(
                    f"{row.external_id} is not tried again: its question has gone on to "
                    f"{pending.external_id}"
                )
            again = DecisionRow(**{name: getattr(row, name) for name in _RETRIED})
            return _add_attempt(writing, again, row.attempt + 1)

    def submitted(self, decision: int, buildset: int) -> Action:
        """Records the buildset; the first one stands.

        Raises:
            StoreError: there is no such action.
        """
        with self.writing() as writing:
            row = get_row(writing.session, DecisionRow, decision)
            if row.buildset is None:
                row.buildset = buildset
                row.submitted_at = writing.now
                writing.note("submitted", row.question_id, decision=row.id, buildset=buildset)
            return action_of(row)

    def finish(self, decision: int, outcome: Outcome, note: str = "") -> Action:
        """Records the outcome; the first one stands.

        Raises:
            StoreError: there is no such action.
        """
        with self.writing() as writing:
            row = get_row(writing.session, DecisionRow, decision)
            _finish(writing, row, outcome, note)
            return action_of(row)

    def all_open(self, job: int | None = None) -> list[Action]:
        """Open actions of open jobs, or of one job: at most one per testbed, oldest first."""
        pending = _pending(JobState.OPEN)
        if job is not None:
            pending = pending.where(DecisionRow.question_id == job)
        with self.reading() as session:
            return [action_of(row) for row in session.scalars(pending)]

    def held(self) -> list[Action]:
        """Open actions of held jobs, to be cancelled."""
        with self.reading() as session:
            return [action_of(row) for row in session.scalars(_pending(JobState.HELD))]

    def of_job(self, job: int) -> list[Action]:
        """All attempts at all actions of a job, in order."""
        rows = (
            select(DecisionRow)
            .where(DecisionRow.question_id == job)
            .order_by(DecisionRow.seq, DecisionRow.attempt)
        )
        with self.reading() as session:
            return [action_of(row) for row in session.scalars(rows)]

    def get(self, identifier: int) -> Action:
        """The action with this id.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return action_of(get_row(session, DecisionRow, identifier))

    def failed(self) -> set[int]:
        """Ids of the actions with a failure."""
        query = select(DudRow.decision_id).where(DudRow.decision_id.is_not(None)).distinct()
        with self.reading() as session:
            return {number for number in session.scalars(query) if number is not None}


def _pending(state: JobState) -> Select[DecisionRow]:
    """Open actions of jobs in this state, oldest first."""
    return (
        select(DecisionRow)
        .join(QuestionRow, DecisionRow.question_id == QuestionRow.id)
        .where(DecisionRow.outcome.is_(None), QuestionRow.state == state.value)
        .order_by(DecisionRow.id)
    )


def _open(session: Session, job: int, testbed: str) -> DecisionRow | None:
    return session.scalar(
        select(DecisionRow).where(
            DecisionRow.question_id == job,
            DecisionRow.testbed == testbed,
            DecisionRow.outcome.is_(None),
        )
    )


def _add_attempt(writing: WriteTransaction, row: DecisionRow, attempt: int) -> Action:
    row.attempt = attempt
    row.external_id = f"nb:{row.question_id}:{row.seq}:{attempt}"
    row.note = ""
    row.intended_at = writing.now
    writing.session.add(row)
    writing.session.flush()
    _note(writing, "decided", row, why=row.why, attempt=attempt)
    return action_of(row)


def _finish(writing: WriteTransaction, row: DecisionRow, outcome: Outcome, note: str) -> None:
    if row.outcome is not None:
        return
    row.outcome = outcome.value
    row.note = note
    row.finished_at = writing.now
    _note(writing, "finished", row, outcome=row.outcome, note=note)


def _note(writing: WriteTransaction, kind: str, row: DecisionRow, **more: object) -> None:
    writing.note(
        kind,
        row.question_id,
        decision=row.id,
        stage=row.stage,
        revision=row.revision,
        target=row.target,
        **more,
    )


def action_of(row: DecisionRow) -> Action:
    """The action of a row."""
    return record_of(Action, row, job=row.question_id)
