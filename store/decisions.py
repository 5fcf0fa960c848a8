"""Decisions: written down before anything is submitted, so that a crash repeats nothing.

A decision whose attempt is open and has no buildset was intended, and may have been submitted
or not: whoever finds it looks its external id up in Buildbot before submitting it.
"""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model import Belief
from netbisect.store.database import StoreError
from netbisect.store.records import Decision, DecisionStage, Outcome, QuestionState
from netbisect.store.sessions import Sessions, Writing, get_row
from netbisect.store.tables import DecisionRow, QuestionRow


class Decisions(Sessions):
    """What was decided for each question, and what became of it."""

    def intend(
        self,
        question: int,
        stage: DecisionStage,
        revision: str,
        target: str,
        *,
        testbed: str = "",
        config: str,
        arch: str,
        why: str,
        belief: Belief | None = None,
        runs: int = 1,
    ) -> Decision:
        """Writes down what is going to be done next for a question.

        Args:
            question: It must be open, and wait for nothing else on this testbed.
            stage: Build a kernel, or measure one.
            revision: Of the kernel.
            target: The builder or the testbed.
            testbed: For which it is; that of the question when empty.
            config: Of the kernel.
            arch: Of the kernel.
            why: In a sentence, for people.
            belief: What the search held to be true when it decided this.
            runs: Of each scenario within the boot, of a trial.

        Raises:
            StoreError: there is no such question, it is closed, or an earlier decision of it
                for this testbed is still open.
        """
        with self.writing() as writing:
            session = writing.session
            asked = get_row(session, QuestionRow, question)
            if asked.state != QuestionState.OPEN.value:
                raise StoreError(
                    f"question {question} ({asked.key}) is {asked.state}: nothing more is done "
                    "for it"
                )
            place = testbed or asked.testbed
            pending = _open(session, question, place)
            if pending is not None:
                raise StoreError(
                    f"question {question} ({asked.key}) still waits for {pending.external_id}; "
                    f"it is finished or retried before anything else is decided for {place}"
                )
            last = session.scalar(
                select(func.max(DecisionRow.seq)).where(DecisionRow.question_id == question)
            )
            row = DecisionRow(
                question_id=question,
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

    def retry(self, decision: int, note: str = "") -> Decision:
        """A further attempt at a decision; one that was made already is returned as it is.

        An open attempt is finished as `retry`, an attempt that was finished keeps its outcome.

        Raises:
            StoreError: there is no such decision, or its question has gone on to another.
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
                return decision_of(later)
            _finish(writing, row, Outcome.RETRY, note)
            pending = _open(session, row.question_id, row.testbed)
            if pending is not None:
                raise StoreError(
                    f"{row.external_id} is not tried again: its question has gone on to "
                    f"{pending.external_id}"
                )
            again = DecisionRow(
                question_id=row.question_id,
                seq=row.seq,
                stage=row.stage,
                revision=row.revision,
                target=row.target,
                testbed=row.testbed,
                config=row.config,
                arch=row.arch,
                runs=row.runs,
                why=row.why,
                belief=row.belief,
            )
            return _add_attempt(writing, again, row.attempt + 1)

    def submitted(self, decision: int, buildset: int) -> Decision:
        """Buildbot has taken it, under this buildset; the first one told stands.

        Raises:
            StoreError: there is no such decision.
        """
        with self.writing() as writing:
            row = get_row(writing.session, DecisionRow, decision)
            if row.buildset is None:
                row.buildset = buildset
                row.submitted_at = writing.now
                writing.note("submitted", row.question_id, decision=row.id, buildset=buildset)
            return decision_of(row)

    def finish(self, decision: int, outcome: Outcome, note: str = "") -> Decision:
        """How it ended; the first outcome told stands.

        Raises:
            StoreError: there is no such decision.
        """
        with self.writing() as writing:
            row = get_row(writing.session, DecisionRow, decision)
            _finish(writing, row, outcome, note)
            return decision_of(row)

    def open_decisions(self, question: int | None = None) -> list[Decision]:
        """What the open questions wait for, or one of them: one for a testbed, oldest first."""
        pending = _pending(QuestionState.OPEN)
        if question is not None:
            pending = pending.where(DecisionRow.question_id == question)
        with self.reading() as session:
            return [decision_of(row) for row in session.scalars(pending)]

    def held_decisions(self) -> list[Decision]:
        """What was ordered for questions that are held now: it is to be taken back."""
        with self.reading() as session:
            return [decision_of(row) for row in session.scalars(_pending(QuestionState.HELD))]

    def decisions(self, question: int) -> list[Decision]:
        """Every attempt at everything that was decided for it, in order."""
        rows = (
            select(DecisionRow)
            .where(DecisionRow.question_id == question)
            .order_by(DecisionRow.seq, DecisionRow.attempt)
        )
        with self.reading() as session:
            return [decision_of(row) for row in session.scalars(rows)]

    def decision(self, identifier: int) -> Decision:
        """The decision.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return decision_of(get_row(session, DecisionRow, identifier))

    def decision_by(self, external_id: str) -> Decision | None:
        """The decision that Buildbot knows by this external id."""
        query = select(DecisionRow).where(DecisionRow.external_id == external_id)
        with self.reading() as session:
            row = session.scalar(query)
            return None if row is None else decision_of(row)


def _pending(state: QuestionState) -> Select[DecisionRow]:
    """Decisions without an outcome, of questions in this state, oldest first."""
    return (
        select(DecisionRow)
        .join(QuestionRow, DecisionRow.question_id == QuestionRow.id)
        .where(DecisionRow.outcome.is_(None), QuestionRow.state == state.value)
        .order_by(DecisionRow.id)
    )


def _open(session: Session, question: int, testbed: str) -> DecisionRow | None:
    return session.scalar(
        select(DecisionRow).where(
            DecisionRow.question_id == question,
            DecisionRow.testbed == testbed,
            DecisionRow.outcome.is_(None),
        )
    )


def _add_attempt(writing: Writing, row: DecisionRow, attempt: int) -> Decision:
    row.attempt = attempt
    row.external_id = f"nb:{row.question_id}:{row.seq}:{attempt}"
    row.note = ""
    row.intended_at = writing.now
    writing.session.add(row)
    writing.session.flush()
    _note(writing, "decided", row, why=row.why, attempt=attempt)
    return decision_of(row)


def _finish(writing: Writing, row: DecisionRow, outcome: Outcome, note: str) -> None:
    if row.outcome is not None:
        return
    row.outcome = outcome.value
    row.note = note
    row.finished_at = writing.now
    _note(writing, "finished", row, outcome=row.outcome, note=note)


def _note(writing: Writing, kind: str, row: DecisionRow, **more: object) -> None:
    writing.note(
        kind,
        row.question_id,
        decision=row.id,
        stage=row.stage,
        revision=row.revision,
        target=row.target,
        **more,
    )


def decision_of(row: DecisionRow) -> Decision:
    """The record in this row."""
    belief = row.belief
    return Decision(
        id=row.id,
        question=row.question_id,
        seq=row.seq,
        attempt=row.attempt,
        external_id=row.external_id,
        stage=DecisionStage(row.stage),
        revision=row.revision,
        target=row.target,
        testbed=row.testbed,
        config=row.config,
        arch=row.arch,
        runs=row.runs,
        why=row.why,
        belief=None if belief is None else Belief(**belief),
        buildset=row.buildset,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        note=row.note,
        intended_at=row.intended_at,
        submitted_at=row.submitted_at,
        finished_at=row.finished_at,
    )
