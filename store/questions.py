"""Questions: asked once, and closed together with all that follows from the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from netbisect.bisect import wire
from netbisect.bisect.model import Effect, Finding, Question
from netbisect.bisect.states import AlertKind, AlertState
from netbisect.store import alert_changes, request_changes
from netbisect.store.database import StoreError
from netbisect.store.outbox import post_mail
from netbisect.store.records import Alert, Asked, Mail, QuestionState, Request, RequestState
from netbisect.store.sessions import Sessions, Writing, get_row
from netbisect.store.tables import QuestionRow, RequestQuestionRow


class AlreadyClosedError(StoreError):
    """The question has its answer; what follows from it has been done with it."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What follows from an answer: kept with it, or not at all."""

    asked: Asked
    """The question that is being closed."""
    _writing: Writing

    def ask(
        self,
        question: Question,
        *,
        key: str,
        parent: int | None = None,
        priority: int = 10,
        requested_by: str = "",
    ) -> Asked:
        """Asks what must be known next; it follows from the question that is being closed.

        With `parent`, from that one.
        """
        return ask_within(
            self._writing,
            question,
            key=key,
            parent=self.asked.id if parent is None else parent,
            priority=priority,
            requested_by=requested_by,
        )

    def open_candidate(
        self, asked: Asked, *, kind: AlertKind, what: str, who: str = "netbisect"
    ) -> Alert:
        """Writes down the suspicion that a comparison, asked here, is to confirm.

        `open_alert` announces it when that comparison is closed; `change_alert` withdraws it.

        Raises:
            StoreError: the question is no comparison.
        """
        return alert_changes.open_candidate(self._writing, asked, kind=kind, who=who, what=what)

    def open_alert(
        self,
        effects: Sequence[Effect],
        *,
        what: str,
        who: str = "netbisect",
        bisection: int | None = None,
        kind: AlertKind | None = None,
        ends: tuple[str, str] | None = None,
    ) -> Alert:
        """Announces the change that is confirmed.

        It is the candidate of this comparison; or an alert of the same testbed, branch and
        kind that ended at most 30 days ago, about the same leading scenario or range, which is
        opened again; or a new one.

        Args:
            effects: The leading scenario first, at least one.
            what: Why, in words, for the alert's history.
            who: The author there.
            bisection: Question that looks for the culprit, if there is one already.
            kind: What changed; by the sign of the leading effect when left out.
            ends: Good and bad revision, where they are not those of the question.

        Raises:
            StoreError: the question is neither a comparison nor a bisection, or nothing was
                measured.
        """
        return alert_changes.open_alert(
            self._writing,
            self.asked,
            effects,
            bisection=bisection,
            kind=kind,
            ends=ends,
            who=who,
            what=what,
        )

    def note_modes(
        self, effect: Effect, *, good: str, what: str, who: str = "netbisect"
    ) -> Alert | None:
        """Writes down that the slow mode occurs more or less often since this night's images.

        Args:
            effect: In which scenario, and how the mean of all boots moved.
            good: The last revision before.
            what: Why, in words, for the alert's history.
            who: The author there.

        Returns:
            The alert; None when one about this series stands already.

        Raises:
            StoreError: the question is no night.
        """
        return alert_changes.note_modes(
            self._writing, self.asked, effect=effect, good=good, who=who, what=what
        )

    def change_alert(
        self,
        alert: int,
        *,
        what: str,
        who: str = "netbisect",
        state: AlertState | None = None,
        culprit: str | None = None,
        comparison: int | None = None,
        bisection: int | None = None,
    ) -> Alert:
        """Changes what is given, and notes who did it and why, as `Alerts.change_alert` does.

        With `comparison`, that is the one that is to confirm it now.

        Raises:
            StoreError: there is no such alert, or it cannot come to that state.
        """
        return alert_changes.change_alert(
            self._writing,
            alert,
            who=who,
            what=what,
            state=state,
            culprit=culprit,
            comparison=comparison,
            bisection=bisection,
        )

    def add_series(
        self,
        alert: int,
        *,
        testbed: str,
        scenario: str,
        branch: str,
        good: str,
        bad: str,
        effect: Effect | None = None,
        who: str = "netbisect",
    ) -> Alert:
        """Adds a series in which the alert was seen too; what is known of it already stays.

        Raises:
            StoreError: there is no such alert.
        """
        return alert_changes.add_series(
            self._writing,
            alert,
            testbed=testbed,
            scenario=scenario,
            branch=branch,
            good=good,
            bad=bad,
            effect=effect,
            who=who,
        )

    def join_same_culprit(self, alert: int, *, who: str = "netbisect") -> Alert:
        """Makes one event of all standing alerts with this one's culprit and kind.

        Returns:
            The alert that stands for it: the one that was announced first.

        Raises:
            StoreError: there is no such alert.
        """
        return alert_changes.join_same_culprit(self._writing, alert, who=who)

    def post(
        self,
        key: str,
        *,
        subject: str,
        recipients: Sequence[str],
        body: str,
        alert: int | None = None,
    ) -> Mail:
        """Puts a mail into the outbox, as `Outbox.post` does.

        Raises:
            StoreError: there are no recipients, or no such alert.
        """
        return post_mail(
            self._writing, key, subject=subject, recipients=recipients, body=body, alert=alert
        )

    def ask_more(self, question: Question, *, run: int | None = None) -> Asked:
        """Asks a further question for the request of the one that is being closed.

        Args:
            question: What is wanted to be known.
            run: 2 for what repeats the first; that of the question being closed when left out.
        """
        assert self.asked.request is not None
        run = self.asked.run if run is None else run
        kind = _name_of(question)
        return ask_within(
            self._writing,
            question,
            key=f"request:{self.asked.request}:{question.testbed}:{run}:{kind}",
            parent=self.asked.id,
            priority=self.asked.priority,
            requested_by=self.asked.requested_by,
            request=(self.asked.request, run),
        )

    def end_request(
        self, *, state: RequestState, verdict: str, why: str, letter: tuple[str, str]
    ) -> Request:
        """Answers the request of the question that is being closed, by mail too.

        Args:
            state: Answered, or failed.
            verdict: In one word.
            why: In a sentence.
            letter: Subject and text of the mail.
        """
        assert self.asked.request is not None
        return request_changes.end(
            self._writing,
            self.asked.request,
            state=state,
            verdict=verdict,
            why=why,
            letter=letter,
        )


class Questions(Sessions):
    """What is asked, and what was answered."""

    def ask(
        self,
        question: Question,
        *,
        key: str,
        parent: int | None = None,
        priority: int = 10,
        requested_by: str = "",
    ) -> Asked:
        """Asks, unless this key was asked before: then that question, open or closed.

        Args:
            question: What is wanted to be known.
            key: Unique, such as `night:main:c2558:2026-11-21`.
            parent: The question it follows from.
            priority: Higher ones come first.
            requested_by: Who wants to know; "" for the service itself.
        """
        with self.writing() as writing:
            return ask_within(
                writing,
                question,
                key=key,
                parent=parent,
                priority=priority,
                requested_by=requested_by,
            )

    def open_questions(self) -> list[Asked]:
        """What still wants an answer: the highest priority first, then the oldest."""
        wanted = (
            select(QuestionRow)
            .where(QuestionRow.state == QuestionState.OPEN.value)
            .order_by(QuestionRow.priority.desc(), QuestionRow.id)
        )
        with self.reading() as session:
            return [asked_of(row) for row in session.scalars(wanted)]

    def question(self, identifier: int) -> Asked:
        """The question.

        Raises:
            StoreError: there is none.
        """
        with self.reading() as session:
            return asked_of(get_row(session, QuestionRow, identifier))

    def question_called(self, key: str) -> Asked | None:
        """The question that was asked under this key."""
        with self.reading() as session:
            row = session.scalar(select(QuestionRow).where(QuestionRow.key == key))
            return None if row is None else asked_of(row)

    def children(self, identifier: int) -> list[Asked]:
        """The questions that follow from it, oldest first."""
        following = (
            select(QuestionRow).where(QuestionRow.parent_id == identifier).order_by(QuestionRow.id)
        )
        with self.reading() as session:
            return [asked_of(row) for row in session.scalars(following)]

    @contextlib.contextmanager
    def closing(self, asked: Asked, finding: Finding) -> Iterator[Closing]:
        """Closes a question, and keeps with the answer all that follows from it.

            with ledger.closing(asked, finding) as closing:
                alert = closing.open_alert(finding.effects, what="confirmed")
                closing.post(f"alert:{alert.id}", ...)

        It is one transaction: after an exception or a crash nothing of it is there. Other
        writers wait meanwhile, so what takes long is done before.

        Raises:
            AlreadyClosedError: the question was closed before; the block is not entered.
            StoreError: there is no such question, or the database refused.
        """
        with self.writing() as writing:
            row = get_row(writing.session, QuestionRow, asked.id)
            if row.state == QuestionState.CLOSED.value:
                raise AlreadyClosedError(f"question {asked.id} ({asked.key}) is closed already")
            row.state = QuestionState.CLOSED.value
            row.finding = wire.dumps(finding)
            row.closed_at = writing.now
            writing.note("closed", row.id, key=row.key, kind=row.kind, finding=_name_of(finding))
            yield Closing(asked_of(row), writing)


def asked_of(row: QuestionRow) -> Asked:
    """The record in this row."""
    question: Question = wire.loads(row.noun)
    finding: Finding | None = None if row.finding is None else wire.loads(row.finding)
    return Asked(
        id=row.id,
        key=row.key,
        question=question,
        parent=row.parent_id,
        priority=row.priority,
        requested_by=row.requested_by,
        state=QuestionState(row.state),
        finding=finding,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        request=None if row.link is None else row.link.request_id,
        run=1 if row.link is None else row.link.run,
    )


def _name_of(noun: Question | Finding) -> str:
    return type(noun).__name__.lower()


def ask_within(
    writing: Writing,
    question: Question,
    *,
    key: str,
    parent: int | None = None,
    priority: int,
    requested_by: str,
    request: tuple[int, int] | None = None,
) -> Asked:
    """As `Questions.ask`, as part of a transaction.

    Args:
        writing: The transaction.
        question: What is wanted to be known.
        key: Unique.
        parent: The question it follows from.
        priority: Higher ones come first.
        requested_by: Who wants to know.
        request: Number and run of the request that it is asked for.
    """
    session = writing.session
    known = session.scalar(select(QuestionRow).where(QuestionRow.key == key))
    if known is not None:
        return asked_of(known)
    if parent is not None:
        get_row(session, QuestionRow, parent)
    row = QuestionRow(
        kind=_name_of(question),
        noun=wire.dumps(question),
        parent_id=parent,
        key=key,
        branch=question.branch,
        testbed=question.testbed,
        priority=priority,
        requested_by=requested_by,
        state=QuestionState.OPEN.value,
        opened_at=writing.now,
    )
    if request is not None:
        row.link = RequestQuestionRow(request_id=request[0], run=request[1])
    session.add(row)
    session.flush()
    writing.note("asked", row.id, key=key, kind=row.kind, branch=row.branch, testbed=row.testbed)
    return asked_of(row)
