"""Changes of alerts within a transaction, by the rules of bisect/alert_lifecycle.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from netbisect.bisect import alert_lifecycle
from netbisect.bisect.model.alert_state import (
    AlertAction,
    AlertKind,
    AlertState,
    AlertTransitionError,
    action_for,
)
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    NightlyJob,
)
from netbisect.bisect.model.results import Effect
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.db.sessions import WriteTransaction, get_row
from netbisect.store.db.tables import AlertChangeRow, AlertRow, AlertSeriesRow, MailRow
from netbisect.store.repositories.alert_rows import alert_of, find_returned, life_of, live_on
from netbisect.store.repositories.outbox import post_mail


def open_candidate(
    writing: WriteTransaction, record: JobRecord, *, kind: AlertKind, who: str, what: str
) -> Alert:
    """Records a suspicion for a comparison to confirm; sends no mail.

    Raises:
        StoreError: the job is no comparison.
    """
    if not isinstance(record.job, CompareJob):
        raise StoreError(f"question {record.id} ({record.key}) is no comparison")
    row = _new(writing, record, kind)
    _see(row, record.job.lead, None, writing.now)
    _record(writing, row, who, what)
    return alert_of(row)


def open_alert(
    writing: WriteTransaction,
    record: JobRecord,
    effects: Sequence[Effect],
    *,
    bisection: int | None,
    kind: AlertKind | None,
    ends: tuple[str, str] | None = None,
    who: str,
    what: str,
) -> Alert:
    """Announces the change that this question has confirmed.

    An alert that ended less than 30 days ago and was about the same is opened again, and the
    candidate, if there is one, withdrawn; otherwise the candidate is opened; otherwise there is
    a new one.

    Raises:
        StoreError: the question is neither a comparison nor a bisection, or nothing was
            measured.
    """
    good, bad, comparison = _jobs_about(record)
    good, bad = ends or (good, bad)
    if not effects:
        raise StoreError(f"question {record.id} ({record.key}) measured no effect to announce")
    kind = kind or AlertKind.of(effects[0])
    job = record.job
    assert isinstance(job, CompareJob | BisectJob)
    candidate = _candidate(writing.session, comparison)
    row = find_returned(
        writing.session,
        job.testbed,
        job.branch,
        kind=kind,
        lead=job.lead,
        good=good,
        bad=bad,
        now=writing.now,
    )
    action = AlertAction.ANNOUNCE if row is None else AlertAction.REOPEN
    if row is None:
        row = candidate or _new(writing, record, kind)
    elif candidate is not None:
        candidate.comparison_id = None
        writing.session.flush()
        why = f"it is alert {row.id} come back"
        _apply(
            writing,
            candidate,
            alert_lifecycle.StatusChange(AlertAction.WITHDRAW, writing.now, who, why),
        )
    row.kind, row.lead, row.good, row.bad, row.culprit = kind.value, job.lead, good, bad, ""
    row.effects = [dataclasses.asdict(effect) for effect in effects]
    row.comparison_id = comparison
    row.bisection_id = bisection if comparison is not None else record.id
    for effect in effects:
        _see(row, effect.scenario, effect, writing.now)
    _apply(writing, row, alert_lifecycle.StatusChange(action, writing.now, who, what))
    return alert_of(row)


def note_modes(
    writing: WriteTransaction,
    record: JobRecord,
    *,
    effect: Effect,
    good: str,
    who: str,
    what: str,
) -> Alert | None:
    """Writes down that boots of a series come up in their slow mode more or less often.

    Returns:
        The alert; None when one about this series stands already.

    Raises:
        StoreError: the question is no night.
    """
    night = record.job
    if not isinstance(night, NightlyJob):
        raise StoreError(f"question {record.id} ({record.key}) is no night")
    standing = (
        select(AlertRow.id)
        .where(AlertRow.testbed == night.testbed, AlertRow.branch == night.branch)
        .where(AlertRow.lead == effect.scenario, AlertRow.kind == AlertKind.MODES.value)
        .where(AlertRow.state.in_([state.value for state in AlertState if state.standing]))
    )
    if writing.session.scalar(standing) is not None:
        return None
    row = _row(
        writing, night, effect.scenario, (good, night.revision), AlertKind.MODES, comparison=None
    )
    row.effects = [dataclasses.asdict(effect)]
    _see(row, effect.scenario, effect, writing.now)
    _apply(writing, row, alert_lifecycle.StatusChange(AlertAction.ANNOUNCE, writing.now, who, what))
    return alert_of(row)


def change_alert(
    writing: WriteTransaction,
    identifier: int,
    *,
    who: str,
    what: str,
    state: AlertState | None = None,
    culprit: str | None = None,
    comparison: int | None = None,
    bisection: int | None = None,
    until: float | None = None,
    recovery: str = "",
    tell: Callable[[Alert], str] | None = None,
) -> Alert:
    """As `AlertRepository.change`, as part of a transaction."""
    row = get_row(writing.session, AlertRow, identifier)
    before = AlertState(row.state)
    if comparison is not None:
        row.comparison_id = comparison
    if bisection is not None:
        row.bisection_id = bisection
    try:
        action = action_for(state)
    except AlertTransitionError as error:
        raise StoreError(str(error)) from error
    change = alert_lifecycle.StatusChange(
        action, writing.now, who, what, culprit=culprit or "", until=until, recovery=recovery
    )
    _apply(writing, row, change)
    alert = alert_of(row)
    if tell is not None and alert_lifecycle.is_mailed(before, alert.state):
        _tell(writing, alert, tell(alert))
    return alert


def _tell(writing: WriteTransaction, alert: Alert, text: str) -> None:
    """Replies to the last mail of the alert; without one, sends nothing."""
    mails = select(MailRow).where(MailRow.alert_id == alert.id).order_by(MailRow.id.desc())
    last = writing.session.scalars(mails.limit(1)).first()
    if last is None:
        return
    changes = select(func.count()).where(AlertChangeRow.alert_id == alert.id)
    post_mail(
        writing,
        f"change:{alert.id}:{writing.session.scalar(changes)}",
        subject=f"Re: {last.subject.removeprefix('Re: ')}",
        recipients=last.recipients,
        body=text,
        alert=alert.id,
    )


def add_series(
    writing: WriteTransaction,
    identifier: int,
    *,
    testbed: str,
    scenario: str,
    branch: str,
    good: str,
    bad: str,
    effect: Effect | None,
    who: str,
) -> Alert:
    """Adds a series to an alert, beside what is known of it; one that is there stays as it is."""
    row = get_row(writing.session, AlertRow, identifier)
    seen = AlertSeriesRow(
        testbed=testbed,
        scenario=scenario,
        branch=branch,
        good=good,
        bad=bad,
        effect=None if effect is None else dataclasses.asdict(effect),
        at=writing.now,
    )
    if _join(row, seen):
        what = f"seen in {scenario} on {testbed}, {branch} too"
        _apply(writing, row, alert_lifecycle.StatusChange(AlertAction.NOTE, writing.now, who, what))
    return alert_of(row)


def merge_alert(
    writing: WriteTransaction, identifier: int, earlier: int, *, who: str, what: str
) -> Alert:
    """Makes a later alert part of an earlier one, whose series are those of both from then on.

    Returns:
        The earlier alert.

    Raises:
        StoreError: there is no such alert, or they are not one event.
    """
    row, root = (
        get_row(writing.session, AlertRow, identifier),
        get_row(writing.session, AlertRow, earlier),
    )
    if row is root or not alert_lifecycle.same_event(life_of(root), life_of(row)):
        raise StoreError(
            f"alert {identifier} and alert {earlier} are not one event: "
            "only two standing alerts of one kind and with one culprit are"
        )
    now = writing.now
    _apply(
        writing, row, alert_lifecycle.StatusChange(AlertAction.MERGE, now, who, what, into=root.id)
    )
    writing.session.execute(
        update(AlertRow).where(AlertRow.merged_into == row.id).values(merged_into=root.id)
    )
    for seen in row.series:
        _join(root, seen)
    joined = f"alert {row.id} is the same event and was merged into this one: {what}"
    _apply(writing, root, alert_lifecycle.StatusChange(AlertAction.NOTE, now, who, joined))
    return alert_of(root)


def join_same_culprit(writing: WriteTransaction, identifier: int, *, who: str) -> Alert:
    """Merges all standing alerts of one kind and culprit into the one announced first.

    Returns:
        The alert that stands for this one: itself, unless there was an earlier one.

    Raises:
        StoreError: there is no such alert.
    """
    row = get_row(writing.session, AlertRow, identifier)
    known = select(AlertRow).where(AlertRow.culprit == row.culprit, AlertRow.id != row.id)
    same = [
        other
        for other in writing.session.scalars(known)
        if alert_lifecycle.same_event(life_of(other), life_of(row))
    ]
    root, *later = sorted([row, *same], key=lambda one: (one.announced_at or 0.0, one.id))
    for one in later:
        what = f"commit {root.culprit[:12]} made both changes"
        merge_alert(writing, one.id, root.id, who=who, what=what)
    return alert_of(root)


def _jobs_about(record: JobRecord) -> tuple[str, str, int | None]:
    """The good end, the bad end, and the comparison if it is one."""
    job = record.job
    if isinstance(job, CompareJob):
        return job.good, job.bad, record.id
    if isinstance(job, BisectJob):
        return job.good, job.candidates[-1].revision, None
    raise StoreError(f"question {record.id} ({record.key}) compares nothing, so it opens no alert")


def _candidate(session: Session, comparison: int | None) -> AlertRow | None:
    """The candidate that was waiting for this comparison."""
    if comparison is None:
        return None
    before = [AlertState.CANDIDATE.value, AlertState.CONFIRMING.value]
    return session.scalar(
        select(AlertRow).where(AlertRow.comparison_id == comparison, AlertRow.state.in_(before))
    )


def _new(writing: WriteTransaction, record: JobRecord, kind: AlertKind) -> AlertRow:
    good, bad, comparison = _jobs_about(record)
    job = record.job
    assert isinstance(job, CompareJob | BisectJob)
    return _row(writing, job, job.lead, (good, bad), kind, comparison=comparison)


def _row(
    writing: WriteTransaction,
    job: Job,
    lead: str,
    ends: tuple[str, str],
    kind: AlertKind,
    *,
    comparison: int | None,
) -> AlertRow:
    row = AlertRow(
        testbed=job.testbed,
        branch=job.branch,
        lead=lead,
        good=ends[0],
        bad=ends[1],
        effects=[],
        state=AlertState.CANDIDATE.value,
        culprit="",
        comparison_id=comparison,
        bisection_id=None,
        thread="",
        opened_at=writing.now,
        kind=kind.value,
        recovery="",
    )
    writing.session.add(row)
    writing.session.flush()
    return row


def _see(row: AlertRow, scenario: str, effect: Effect | None, at: float) -> None:
    """Writes down what is announced of a series, once and for all."""
    row.series.append(
        AlertSeriesRow(
            testbed=row.testbed,
            scenario=scenario,
            branch=row.branch,
            good=row.good,
            bad=row.bad,
            effect=None if effect is None else dataclasses.asdict(effect),
            at=at,
        )
    )


_SERIES = ("testbed", "scenario", "branch", "good", "bad")


def _join(root: AlertRow, seen: AlertSeriesRow) -> bool:
    """Copies a series into an alert, unless the alert has it; whether it did."""
    values = {name: getattr(seen, name) for name in _SERIES}
    known = [{name: getattr(one, name) for name in _SERIES} for one in root.series]
    if values in known:
        return False
    root.series.append(AlertSeriesRow(**values, effect=seen.effect, at=seen.at))
    return True


def _apply(writing: WriteTransaction, row: AlertRow, change: alert_lifecycle.StatusChange) -> None:
    try:
        live_on(row, alert_lifecycle.apply_change(row.id, life_of(row), change))
    except AlertTransitionError as error:
        raise StoreError(str(error)) from error
    _record(writing, row, change.who, change.why)


def _record(writing: WriteTransaction, row: AlertRow, who: str, what: str) -> None:
    """Every change has a time, an author and a reason; and an event tells of it."""
    writing.session.add(
        AlertChangeRow(alert_id=row.id, at=writing.now, who=who, what=what, state=row.state)
    )
    writing.note(
        "alert",
        row.bisection_id or row.comparison_id,
        alert=row.id,
        testbed=row.testbed,
        state=row.state,
        who=who,
        what=what,
    )
