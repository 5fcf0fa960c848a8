"""Quarantines of testbeds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from netbisect.bisect.model.entities import Failure, Reaction
from netbisect.bisect.model.mail import Mail
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Action, ActionStage, Outcome, Quarantine
from netbisect.store.db.sessions import LedgerRepository, WriteTransaction, get_row
from netbisect.store.db.tables import BootRow, FailureRow, SampleRow, record_of
from netbisect.store.repositories.outbox import post_mail

_LOOKED_BACK = 20
"""Trials to search for infrastructure failures, at most."""


class QuarantineRepository(LedgerRepository):
    """Current and past quarantines."""

    def start(
        self,
        testbed: str,
        *,
        why: str,
        by: str = "netbisect",
        fault: str = "",
        log: str = "",
        mail: Mail | None = None,
        recipients: Sequence[str] = (),
    ) -> Quarantine:
        """Quarantines a testbed; an existing quarantine stays unchanged.

        `mail` is mailed to the recipients, if there are any.
        """
        with self.writing() as writing:
            standing = _standing(writing.session, testbed)
            if standing is not None:
                return standing
            row = Quarantine(
                testbed=testbed,
                since=writing.now,
                fault=fault,
                why=why,
                log=log,
                by=by,
            )
            writing.session.add(row)
            writing.session.flush()
            _note(writing, "quarantine", row, by=by, why=why)
            if mail is not None:
                post_mail(writing, f"quarantine:{row.id}", mail, recipients)
            return row

    def ask_release(self, testbed: str, *, by: str, note: str = "") -> Quarantine:
        """Requests a release, which is checked first. Raises StoreError without a quarantine."""
        with self.writing() as writing:
            row = _standing(writing.session, testbed)
            if row is None:
                raise StoreError(f"the testbed {testbed} is not in quarantine")
            row.wanted_at, row.wanted_by, row.note = writing.now, by, note
            _note(writing, "release-asked", row, by=by, why=note)
            return row

    def refuse_release(self, quarantine: int, why: str) -> Quarantine:
        """Refuses a release after a failed check; the testbed stays in quarantine.

        Raises NotFoundError.
        """
        with self.writing() as writing:
            row = get_row(writing.session, Quarantine, quarantine)
            if row.released_at is None and row.wanted_at is not None:
                row.wanted_at, row.refused = None, why
                _note(writing, "release-refused", row, by=row.wanted_by, why=why)
            return row

    def release(self, quarantine: int) -> Quarantine:
        """Releases a testbed after a successful check. Raises NotFoundError."""
        with self.writing() as writing:
            row = get_row(writing.session, Quarantine, quarantine)
            if row.released_at is None:
                row.released_at, row.released_by = writing.now, row.wanted_by
                _note(writing, "released", row, by=row.wanted_by, why=row.note)
            return row

    def current(self) -> dict[str, Quarantine]:
        """Current quarantines by testbed."""
        query = select(Quarantine).where(Quarantine.released_at.is_(None))
        with self.reading() as session:
            return {row.testbed: row for row in session.scalars(query)}

    def of_testbed(self, testbed: str) -> list[Quarantine]:
        """All quarantines of a testbed, oldest first."""
        query = select(Quarantine).where(Quarantine.testbed == testbed).order_by(Quarantine.id)
        return self._all(query)

    def infrastructure_failures(self, testbed: str) -> list[Failure]:
        """Infrastructure failures of consecutive last trials, one per trial, newest first.

        Trials before the last release, and trials without facts, do not count.
        """
        with self.reading() as session:
            trials = (
                select(Action.id)
                .where(
                    *_trials_since_release(session, testbed),
                    exists().where(FailureRow.decision_id == Action.id)
                    | exists().where(BootRow.decision_id == Action.id),
                )
                .order_by(Action.id.desc())
                .limit(_LOOKED_BACK)
            )
            found = []
            for trial in session.scalars(trials):
                failure = session.scalars(
                    select(FailureRow)
                    .where(FailureRow.decision_id == trial, FailureRow.reaction == Reaction.INFRA)
                    .order_by(FailureRow.at.desc())
                    .limit(1)
                ).first()
                if failure is None:
                    break
                found.append(record_of(Failure, failure))
            return found

    def failed_trials(self, job: int, testbed: str) -> int:
        """Number of consecutive last trials of a job on a testbed without a valid sample.

        Trials before the last release, and trials that the service withdrew, do not count.
        """
        no_trial = [Outcome.RETRY, Outcome.WITHDRAWN]
        with self.reading() as session:
            trials = (
                select(Action.id)
                .where(
                    *_trials_since_release(session, testbed),
                    Action.job == job,
                    Action.outcome.not_in(no_trial),
                )
                .order_by(Action.id.desc())
            )
            measured = set(
                session.scalars(
                    select(SampleRow.decision_id).where(
                        SampleRow.decision_id.in_(trials.order_by(None)), SampleRow.valid
                    )
                )
            )
            last = session.scalars(trials).all()
            return next((n for n, trial in enumerate(last) if trial in measured), len(last))


def _trials_since_release(session: Session, testbed: str) -> list[ColumnElement[bool]]:
    """Conditions on Action: trials of a testbed since its last release."""
    released = select(func.max(Quarantine.released_at)).where(Quarantine.testbed == testbed)
    return [
        Action.stage == ActionStage.TRIAL,
        Action.target == testbed,
        Action.intended_at > (session.scalar(released) or 0.0),
    ]


def _standing(session: Session, testbed: str) -> Quarantine | None:
    return session.scalar(
        select(Quarantine).where(Quarantine.testbed == testbed, Quarantine.released_at.is_(None))
    )


def _note(writing: WriteTransaction, kind: str, row: Quarantine, *, by: str, why: str) -> None:
    writing.session.flush()
    writing.note(kind, testbed=row.testbed, quarantine=row.id, by=by, why=why)
