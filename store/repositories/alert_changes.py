"""Changes of alerts within a transaction; bisect/alert_lifecycle.py has the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from netbisect.bisect import alert_lifecycle
from netbisect.bisect.alert_lifecycle import REOPENING_SECONDS, recurs
from netbisect.bisect.model.alert_state import (
    AlertAction,
    AlertKind,
    AlertState,
    AlertTransitionError,
    action_for,
)
from netbisect.bisect.model.jobs import CompareJob, Job, NightlyJob
from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.results import Effect
from netbisect.store.db.database import NotAllowedError
from netbisect.store.db.records import (
    Alert,
    AlertChangeRow,
    AlertSeries,
    JobRecord,
    OutboxMail,
)
from netbisect.store.db.sessions import WriteTransaction, get_row
from netbisect.store.db.tables import CommitRow, record_of
from netbisect.store.repositories.outbox import post_mail

SERVICE = "netbisect"
"""Author of changes by the service."""


def open_candidate(
    writing: WriteTransaction, record: JobRecord, *, kind: AlertKind, what: str
) -> Alert:
    """Opens a candidate for the compare job that is to confirm it; sends no mail.

    `open_alert` announces it when that job is closed; `change_alert` withdraws it.
    """
    job = record.job
    assert isinstance(job, CompareJob)
    row = _new(writing, job, job.lead, (job.good, job.bad), kind)
    row.comparison = record.id
    _add_series(row, job.lead, None, writing.now)
    _record(writing, row, SERVICE, what)
    return row


def open_alert(
    writing: WriteTransaction, record: JobRecord, effects: Sequence[Effect], *, what: str
) -> Alert:
    """Announces the change that a compare job has confirmed.

    An alert of the same testbed, branch and kind that ended at most 30 days ago, about the same
    leading scenario or range, is reopened and the candidate of the job withdrawn. Otherwise the
    candidate is announced, or a new alert.

    `effects` has the leading scenario first; its sign is the kind of the alert. `what` is the
    reason, for the history.
    """
    job = record.job
    assert isinstance(job, CompareJob)
    kind, session = AlertKind.of(effects[0]), writing.session
    candidate = _candidate(session, record.id)
    row = _find_returned(writing, job, kind)
    action = AlertAction.ANNOUNCE if row is None else AlertAction.REOPEN
    if row is None:
        row = candidate or _new(writing, job, job.lead, (job.good, job.bad), kind)
    elif candidate is not None:
        candidate.comparison = None
        session.flush()
        why = f"it is alert {row.id} come back"
        _apply(writing, candidate, AlertAction.WITHDRAW, SERVICE, why)
    row.kind, row.lead, row.good, row.bad, row.culprit = kind, job.lead, job.good, job.bad, ""
    row.retest = tuple(effects)
    row.comparison, row.bisection = record.id, None
    for effect in effects:
        _add_series(row, effect.scenario, effect, writing.now)
    _apply(writing, row, action, SERVICE, what)
    return row


def note_modes(
    writing: WriteTransaction, record: JobRecord, effect: Effect, *, good: str, what: str
) -> Alert | None:
    """Announces that the slow mode of a series occurs more or less often since a night.

    `effect` is the change of the mean of all boots, `good` the last revision before, `what` the
    reason. Returns None if an alert about this series is open.
    """
    night = record.job
    assert isinstance(night, NightlyJob)
    standing = (
        select(Alert.id)
        .where(Alert.testbed == night.testbed, Alert.branch == night.branch)
        .where(Alert.lead == effect.scenario, Alert.kind == AlertKind.MODES)
        .where(Alert.state.in_([state for state in AlertState if state.standing]))
    )
    if writing.session.scalar(standing) is not None:
        return None
    row = _new(writing, night, effect.scenario, (good, night.revision), AlertKind.MODES)
    row.retest = (effect,)
    _add_series(row, effect.scenario, effect, writing.now)
    _apply(writing, row, AlertAction.ANNOUNCE, SERVICE, what)
    return row


def change_alert(
    writing: WriteTransaction,
    identifier: int,
    *,
    what: str,
    who: str = SERVICE,
    state: AlertState | None = None,
    culprit: str | None = None,
    bisection: int | None = None,
    until: float | None = None,
    recovery: str = "",
    tell: Callable[[Alert], str] | None = None,
) -> Alert:
    """Changes what is given, and records the author and the reason `what`.

    The result of a search leaves the state as it is if a person has decided, or the alert has
    ended.

    Args:
        writing: The transaction.
        identifier: Number of the alert.
        what: Reason.
        who: Author.
        state: New state; bisect/model/alert_state.py has the transitions.
        culprit: Revision.
        bisection: Job that searches for the culprit.
        until: End of MUTED.
        recovery: With FIXED, the first revision with the old level, if known.
        tell: Makes the text of a mail from the changed alert, for the recipients of its last mail.

    Raises:
        StoreError: there is no such alert, the transition is not allowed, or the author or the
            reason is missing; nothing is changed then.
    """
    row = get_row(writing.session, Alert, identifier)
    before = row.state
    if bisection is not None:
        row.bisection = bisection
    try:
        action = action_for(state)
    except AlertTransitionError as error:
        raise NotAllowedError(str(error)) from error
    accepted = before in {AlertState.ACKNOWLEDGED, AlertState.MUTED}
    if accepted and action is AlertAction.WITHDRAW and who == SERVICE:
        action = AlertAction.NOTE
    _apply(writing, row, action, who, what, culprit=culprit or "", until=until, recovery=recovery)
    if tell is not None and alert_lifecycle.is_mailed(before, row.state):
        _tell(writing, row, tell(row))
    return row


def _tell(writing: WriteTransaction, alert: Alert, text: str) -> None:
    """Replies to the last mail of the alert; without one, sends nothing."""
    mails = select(OutboxMail).where(OutboxMail.alert == alert.id).order_by(OutboxMail.id.desc())
    last = writing.session.scalars(mails.limit(1)).first()
    if last is None:
        return
    changes = select(func.count()).where(AlertChangeRow.alert == alert.id)
    post_mail(
        writing,
        f"change:{alert.id}:{writing.session.scalar(changes)}",
        Mail(f"Re: {last.subject.removeprefix('Re: ')}", text),
        last.recipients,
        alert=alert.id,
    )


def join_same_culprit(writing: WriteTransaction, identifier: int) -> Alert:
    """Merges all open alerts of the same kind and culprit into the one announced first.

    Returns that alert, which has the series of all. Raises NotFoundError.
    """
    row = get_row(writing.session, Alert, identifier)
    known = select(Alert).where(Alert.culprit == row.culprit, Alert.id != row.id)
    same = [
        other
        for other in writing.session.scalars(known)
        if alert_lifecycle.same_event(other.status, row.status)
    ]
    root, *later = sorted([row, *same], key=lambda one: (one.announced_at or 0.0, one.id))
    for one in later:
        _merge(writing, one, root, f"commit {root.culprit[:12]} made both changes")
    return root


def _merge(writing: WriteTransaction, row: Alert, root: Alert, what: str) -> None:
    _apply(writing, row, AlertAction.MERGE, SERVICE, what, into=root.id)
    writing.session.execute(
        update(Alert).where(Alert.merged_into == row.id).values(merged_into=root.id)
    )
    known = [_change_of(one) for one in root.announced]
    for seen in row.announced:
        if _change_of(seen) not in known:
            root.announced.append(record_of(AlertSeries, seen, id=None, alert=None))
    joined = f"alert {row.id} is the same event and was merged into this one: {what}"
    note_change(writing, root, who=SERVICE, what=joined)


_CHANGE = ("testbed", "scenario", "branch", "good", "bad")


def _change_of(series: AlertSeries) -> tuple[str, ...]:
    return tuple(getattr(series, name) for name in _CHANGE)


def _candidate(session: Session, comparison: int) -> Alert | None:
    """The candidate that waits for this comparison, or None."""
    before = [AlertState.CANDIDATE, AlertState.CONFIRMING]
    return session.scalar(
        select(Alert).where(Alert.comparison == comparison, Alert.state.in_(before))
    )


def _new(
    writing: WriteTransaction, job: Job, lead: str, ends: tuple[str, str], kind: AlertKind
) -> Alert:
    row = Alert(
        testbed=job.testbed,
        branch=job.branch,
        lead=lead,
        good=ends[0],
        bad=ends[1],
        comparison=None,
        opened_at=writing.now,
        kind=kind,
    )
    writing.session.add(row)
    writing.session.flush()
    return row


def _add_series(row: Alert, scenario: str, effect: Effect | None, at: float) -> None:
    """Adds the announced effect of a series."""
    values = {name: getattr(row, name) for name in _CHANGE if name != "scenario"}
    row.announced.append(AlertSeries(**values, scenario=scenario, effect=effect, at=at))


def note_change(writing: WriteTransaction, row: Alert, *, who: str, what: str) -> None:
    """Adds a remark to the history. Raises NotAllowedError without an author or a reason."""
    _apply(writing, row, AlertAction.NOTE, who, what)


def _apply(
    writing: WriteTransaction,
    row: Alert,
    action: AlertAction,
    who: str,
    why: str,
    **more: Any,  # noqa: ANN401 - fields of a StatusChange
) -> None:
    change = alert_lifecycle.StatusChange(action, writing.now, who, why, **more)
    try:
        status = alert_lifecycle.apply_change(row.id, row.status, change)
    except AlertTransitionError as error:
        raise NotAllowedError(str(error)) from error
    for name, value in dataclasses.asdict(status).items():
        setattr(row, name, value)
    _record(writing, row, who, why)


def _record(writing: WriteTransaction, row: Alert, who: str, what: str) -> None:
    """Adds an entry to the history of an alert, and an event."""
    writing.session.add(
        AlertChangeRow(alert=row.id, at=writing.now, who=who, what=what, state=row.state)
    )
    writing.note("alert", row.bisection or row.comparison, alert=row.id, state=row.state)
    writing.session.refresh(row, ["search", "merged"])


def _overlaps(session: Session, seen: Alert, good: str, bad: str) -> bool:
    """Whether (good, bad] contains the culprit of an alert, or a commit of its range."""
    if (seen.good, seen.bad) == (good, bad):
        return True
    numbers = {
        revision: commit.number
        for revision in (seen.good, seen.bad, seen.culprit, good, bad)
        if (commit := session.get(CommitRow, revision)) is not None
    }
    if good not in numbers or bad not in numbers:
        return False
    if seen.culprit in numbers:
        return numbers[good] < numbers[seen.culprit] <= numbers[bad]
    if seen.good not in numbers or seen.bad not in numbers:
        return False
    return max(numbers[good], numbers[seen.good]) < min(numbers[bad], numbers[seen.bad])


def _find_returned(writing: WriteTransaction, job: CompareJob, kind: AlertKind) -> Alert | None:
    """The latest ended alert that the change between the ends of a job reopens, or None."""
    over = (
        select(Alert)
        .where(
            Alert.testbed == job.testbed,
            Alert.branch == job.branch,
            Alert.closed_at >= writing.now - REOPENING_SECONDS,
        )
        .order_by(Alert.closed_at.desc(), Alert.id.desc())
    )
    for row in writing.session.scalars(over):
        if recurs(row.status, kind, writing.now) and (
            row.lead == job.lead or _overlaps(writing.session, row, job.good, job.bad)
        ):
            return row
    return None
