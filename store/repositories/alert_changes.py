"""Changes of alerts within a transaction; bisect/alert_lifecycle.py has the rules."""

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
from netbisect.store.db.database import NotAllowedError, StoreError
from netbisect.store.db.records import Alert, JobRecord
from netbisect.store.db.sessions import WriteTransaction, get_row
from netbisect.store.db.tables import AlertChangeRow, AlertRow, AlertSeriesRow, MailRow
from netbisect.store.repositories.alert_rows import alert_of, find_returned, life_of, live_on
from netbisect.store.repositories.outbox import post_mail


def open_candidate(
    writing: WriteTransaction,
    record: JobRecord,
    *,
    kind: AlertKind,
    what: str,
    who: str = "netbisect",
) -> Alert:
    """Opens a candidate for the compare job that is to confirm it; sends no mail.

    `open_alert` announces it when that job is closed; `change_alert` withdraws it.

    Raises:
        StoreError: the job is no compare job.
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
    what: str,
    who: str = "netbisect",
    bisection: int | None = None,
    kind: AlertKind | None = None,
    ends: tuple[str, str] | None = None,
) -> Alert:
    """Announces the change that a job has confirmed.

    An alert of the same testbed, branch and kind that ended at most 30 days ago, about the same
    leading scenario or range, is reopened and the candidate of the job withdrawn. Otherwise the
    candidate is announced, or a new alert.

    Args:
        writing: The transaction.
        record: A compare or bisect job.
        effects: Leading scenario first, at least one.
        what: Reason, for the history of the alert.
        who: Author in the history.
        bisection: Existing job that searches for the culprit.
        kind: Kind of the change; from the sign of the leading effect by default.
        ends: Good and bad revision, if not those of the job.

    Raises:
        StoreError: the job is of another kind, or there is no effect.
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
    effect: Effect,
    *,
    good: str,
    what: str,
    who: str = "netbisect",
) -> Alert | None:
    """Announces that the slow mode of a series occurs more or less often since a night.

    Args:
        writing: The transaction.
        record: The nightly job.
        effect: Change of the mean of all boots.
        good: The last revision before.
        what: Reason, for the history of the alert.
        who: Author in the history.

    Returns:
        The alert; None if one about this series is open.

    Raises:
        StoreError: the job is no nightly job.
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
    what: str,
    who: str = "netbisect",
    state: AlertState | None = None,
    culprit: str | None = None,
    comparison: int | None = None,
    bisection: int | None = None,
    until: float | None = None,
    recovery: str = "",
    tell: Callable[[Alert], str] | None = None,
) -> Alert:
    """Changes what is given, and records the author and the reason.

    The result of a search leaves the state as it is if a person has decided, or the alert has
    ended.

    Args:
        writing: The transaction.
        identifier: Of the alert.
        what: Reason, in words.
        who: Author.
        state: New state; bisect/model/alert_state.py has the transitions.
        culprit: Revision.
        comparison: Job that is to confirm it.
        bisection: Job that searches for the culprit.
        until: End of MUTED.
        recovery: With FIXED, the first revision with the old level, if known.
        tell: Makes the text of a mail from the changed alert. It is posted to the recipients of
            the last mail of the alert, if the change is one to be mailed.

    Returns:
        The changed alert.

    Raises:
        StoreError: there is no such alert, the transition is not allowed, or the author or the
            reason is missing; nothing is changed then.
    """
    row = get_row(writing.session, AlertRow, identifier)
    before = AlertState(row.state)
    if comparison is not None:
        row.comparison_id = comparison
    if bisection is not None:
        row.bisection_id = bisection
    try:
        action = action_for(state)
    except AlertTransitionError as error:
        raise NotAllowedError(str(error)) from error
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
    effect: Effect | None = None,
    who: str = "netbisect",
) -> Alert:
    """Adds a series to an alert, unless the alert has it.

    Raises:
        StoreError: there is no such alert.
    """
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
        note_change(writing, row, who=who, what=f"seen in {scenario} on {testbed}, {branch} too")
    return alert_of(row)


def merge_alert(
    writing: WriteTransaction, identifier: int, earlier: int, *, who: str, what: str
) -> Alert:
    """Merges an alert into an earlier one with the same culprit, which gets its series.

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
    note_change(writing, root, who=who, what=joined)
    return alert_of(root)


def join_same_culprit(
    writing: WriteTransaction, identifier: int, *, who: str = "netbisect"
) -> Alert:
    """Merges all open alerts of the same kind and culprit into the one announced first.

    Returns:
        That alert.

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
    """The good and the bad revision, and the id of a compare job."""
    job = record.job
    if isinstance(job, CompareJob):
        return job.good, job.bad, record.id
    if isinstance(job, BisectJob):
        return job.good, job.candidates[-1].revision, None
    raise StoreError(f"question {record.id} ({record.key}) compares nothing, so it opens no alert")


def _candidate(session: Session, comparison: int | None) -> AlertRow | None:
    """The candidate that waits for this comparison, or None."""
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
    """Adds the announced effect of a series."""
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
    """Copies a series into an alert; False if the alert has it."""
    values = {name: getattr(seen, name) for name in _SERIES}
    known = [{name: getattr(one, name) for name in _SERIES} for one in root.series]
    if values in known:
        return False
    root.series.append(AlertSeriesRow(**values, effect=seen.effect, at=seen.at))
    return True


def note_change(writing: WriteTransaction, row: AlertRow, *, who: str, what: str) -> None:
    """Adds a remark to the history of an alert.

    Raises:
        NotAllowedError: There is no author or reason.
    """
    _apply(writing, row, alert_lifecycle.StatusChange(AlertAction.NOTE, writing.now, who, what))


def _apply(writing: WriteTransaction, row: AlertRow, change: alert_lifecycle.StatusChange) -> None:
    try:
        live_on(row, alert_lifecycle.apply_change(row.id, life_of(row), change))
    except AlertTransitionError as error:
        raise NotAllowedError(str(error)) from error
    _record(writing, row, change.who, change.why)


def _record(writing: WriteTransaction, row: AlertRow, who: str, what: str) -> None:
    """Adds an entry to the history of an alert, and an event."""
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
