"""The day's digest: gathered from the ledger, and put into the outbox once a day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.entities import Fact, Failure, Sample
from netbisect.bisect.model.jobs import BisectJob, NightlyJob
from netbisect.bisect.model.results import Unfinished
from netbisect.reports.mail import digest
from netbisect.reports.model.types import DigestDocument, MissingScenarios
from netbisect.reports.render import words
from netbisect.steps.queries.documents import alert_summaries
from netbisect.steps.queries.health import judge
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import JobRecord
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab

_KEY = "digest:"
_DAY = 86400.0
_LONGEST = 7 * _DAY
"""A digest after a long silence does not go back further."""


def last_due(now: float, hour: int) -> float:
    """The latest time at which a digest was due; like `now`, in seconds since the epoch.

    `hour` is 0 to 23, in local time.
    """
    here = datetime.fromtimestamp(now).astimezone()
    due = here.replace(hour=hour, minute=0, second=0, microsecond=0, tzinfo=None)
    if due.timestamp() > now:
        due -= timedelta(days=1)
    return due.timestamp()


def post_digest(ledger: Ledger, settings: Settings, lab: Lab) -> None:
    """Puts the digest into the outbox when it is due and not there; before the first night, none.

    After a kill it is made again, under the same key, and so sent once.
    """
    if not settings.mail.digest:
        return
    now = ledger.clock()
    due = last_due(now, settings.mail.digest_hour)
    key = f"{_KEY}{datetime.fromtimestamp(due).astimezone():%Y-%m-%d}"
    last = ledger.mails.last(_KEY)
    if last is not None and (due <= last.created_at <= now or ledger.mails.last(key)):
        return
    ahead = last is not None and last.created_at > now  # by a clock that was ahead
    since = due - _DAY if last is None or ahead else max(last.created_at, due - _LONGEST)
    nights = ledger.nights.since(0.0 if last is None else since)
    if last is None and not any(one.opened_at < due for one in nights):
        return
    mail = digest.mail(
        gather(ledger, settings, lab, [one for one in nights if one.opened_at >= since], since)
    )
    ledger.mails.post(key, mail, settings.mail.to)


def gather(
    ledger: Ledger, settings: Settings, lab: Lab, nights: Sequence[JobRecord], since: float
) -> DigestDocument:
    """The digest since a time, in seconds since the epoch, with the nightly jobs since then."""
    title = LabContext(lab=lab).title
    record = {(one.job.testbed, one.job.branch) for one in nights}
    missing = [one for night in nights for one in missing_of(ledger, night, title)]
    planned = sum(len(one.job.scenarios) for one in nights)
    recent = [one for one in ledger.alerts.changed_since(since) if one.announced_at is not None]
    new = [one for one in recent if (one.announced_at or 0.0) >= since and not one.state.ended]
    over = [one for one in recent if one.state.ended]
    known = {one.id for one in (*new, *over)}
    standing = [
        one
        for one in ledger.alerts.all_open()
        if one.id not in known and one.kind is AlertKind.DROP and one.state.active
    ]
    judged = judge(ledger, settings.min_effect)
    brief = partial(alert_summaries, ledger, title=title)
    return DigestDocument(
        since=since,
        until=ledger.clock(),
        planned=planned,
        measured=planned - sum(len(one.scenarios) for one in missing),
        missing=tuple(missing),
        unchanged=tuple(
            f"{branch} on {testbed.name}"
            for branch in settings.branches
            for testbed in lab.testbeds
            if (testbed.name, branch) not in record
        ),
        drops=brief([one for one in new if one.kind is AlertKind.DROP]),
        gains=brief([one for one in new if one.kind is AlertKind.IMPROVEMENT]),
        other=brief([one for one in new if one.kind is AlertKind.MODES]),
        over=brief(over),
        standing=brief(standing),
        searches=tuple(_searches(ledger)),
        drifts=tuple(
            f"{title(one.scenario)} on {one.testbed}, {one.branch}: "
            f"{words.percent(slide.ln_ratio, one.scenario)} since "
            f"{ledger.commits.label(slide.best)}"
            for one in judged.series
            if (slide := one.health.drift) is not None
        ),
        warnings=judged.warnings,
        page=settings.web.url,
    )


def missing_of(ledger: Ledger, record: JobRecord, title: words.Name) -> list[MissingScenarios]:
    """Missing scenarios of a night, by reason."""
    night = record.job
    assert isinstance(night, NightlyJob)
    facts = ledger.facts.of_job(record.id)
    good = {fact.scenario for fact in facts if isinstance(fact, Sample) and fact.valid}
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for scenario in night.scenarios:
        if scenario not in good:
            reasons[_why(record, facts, scenario)].append(title(scenario))
    place = f"{night.testbed}, {night.branch}"
    return [MissingScenarios(place, tuple(titles), why) for why, titles in reasons.items()]


def _why(record: JobRecord, facts: Sequence[Fact], scenario: str) -> str:
    why = "still running" if record.result is None else "no measurements"
    if isinstance(record.result, Unfinished):
        why = record.result.why
    for fact in facts:
        if isinstance(fact, Failure) and fact.scenario in ("", scenario):
            why = f"{fact.stage.value}: {fact.why}"
        elif isinstance(fact, Sample) and fact.scenario == scenario and fact.problems:
            why = fact.problems[0]
    return why


def _searches(ledger: Ledger) -> Iterable[str]:
    for record in ledger.jobs.all_open():
        if isinstance(record.job, BisectJob):
            alert = ledger.alerts.of_job(record.id)
            of = f"alert {alert.id}" if alert is not None else f"job {record.id}"
            steps = len(ledger.actions.of_job(record.id))
            yield (
                f"{of} on {record.job.testbed}: "
                f"{words.count(len(record.job.candidates), 'commit')}, "
                f"{words.count(steps, 'step')} so far"
            )
