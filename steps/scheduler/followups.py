"""Follow-ups of a result: the next jobs, the alert, the mail and the page.

Runs in the database thread. A result and its mails are recorded in one transaction.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from netbisect.bisect.alert_lifecycle import after_search
from netbisect.bisect.model import serialization
from netbisect.bisect.model.alert_state import AlertKind, AlertState
from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Effect,
    MeasureResult,
    NightlyResult,
    NotConfirmed,
    Result,
    Unfinished,
    culprits_of,
)
from netbisect.reports.mail import alerts
from netbisect.reports.pages import requests
from netbisect.steps.policy import bisections, profiles, retests
from netbisect.steps.policy.alert_recovery import close_recovered
from netbisect.steps.policy.kernels import Kernels
from netbisect.steps.policy.recipients import recipients
from netbisect.steps.policy.repeats import is_repeat, repeat_night
from netbisect.steps.queries import changes, request_files
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.request_status import RequestQueries
from netbisect.steps.service.numeric import confirmation
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.storage import open_history
from netbisect.store.db.records import Alert, JobRecord, JobState, Quarantine, Request, RequestState
from netbisect.store.git.history import History
from netbisect.store.git.mirror import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.jobs import JobClosing, StaleJobError
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed

PRIORITY_NIGHT = 100
PRIORITY_BISECTION = 200


def open_nights(
    ledger: Ledger,
    history: History,
    settings: Settings,
    testbeds: Iterable[Testbed],
    branches: Iterable[str],
) -> list[str]:
    """Opens nightly jobs for the fetched heads of branches; returns a log line for each.

    A revision is measured once per testbed, and again only if the earlier job was unfinished. It
    replaces an older one that is still queued, so that no queue grows if nights take longer than a
    day. From time to time the last one is repeated, as a test for false alarms.

    Raises HistoryError, before any job is opened, if the clone cannot be read or has no such
    branch.
    """
    heads = {branch: history.commit(history.head(branch)) for branch in branches}
    for branch, head in heads.items():
        ledger.commits.learn([head], branch)
        count = head.number + 1 - ledger.commits.oldest(branch)
        line = history.line(f"-{count}", head.revision)
        ledger.commits.follow(branch, {revision for revision, _ in line})
    lines = []
    for (branch, head), testbed in product(heads.items(), testbeds):
        lines.append(_open_night(ledger, settings, testbed, branch, head.revision))
        again = repeat_night(ledger, settings.night, testbed, branch)
        if again:
            lines.append(f"{branch} on {testbed.name}: {again[:12]} is to be measured again")
    return lines


def _open_night(
    ledger: Ledger, settings: Settings, testbed: Testbed, branch: str, head: str
) -> str:
    key = f"night:{branch}:{testbed.name}:{head}"
    night = NightlyJob(branch, testbed.name, head, testbed.scenarios, settings.night.boots)
    record = ledger.jobs.add(night, key=key, priority=PRIORITY_NIGHT)
    tries = 1
    while isinstance(record.result, Unfinished):
        tries += 1
        record = ledger.jobs.add(night, key=f"{key}:{tries}", priority=PRIORITY_NIGHT)
    if record.result is not None:
        return f"{branch} on {testbed.name}: {head[:12]} has been measured"
    line = f"{branch} on {testbed.name}: {head[:12]} is to be measured"
    for older in ledger.nights.unfinished(testbed.name, branch):
        if older.id < record.id:
            why = Unfinished(f"replaced by the night of {head[:12]}")
            with (
                contextlib.suppress(StaleJobError),
                ledger.jobs.closing(older, why, unbegun=True),
            ):
                line += f"; it replaces job {older.id}, which has not begun"
    return line


class Followups:
    """Concludes jobs."""

    def __init__(self, settings: Settings, lab: Lab) -> None:
        self.settings = settings
        self.lab = lab
        self.history = open_history(settings, lab)
        self.kernels = Kernels(lab, self.history)

    def conclude(self, ledger: Ledger, record: JobRecord, result: Result) -> list[JobRecord]:
        """Closes a job with its result; returns the jobs that follow."""
        try:
            if record.request is not None:
                return self._after_request_job(ledger, record, record.request, result)
            match record.job:
                case NightlyJob() as night:
                    return self._after_night(ledger, record, night, result)
                case CompareJob() as comparison:
                    return self._after_comparison(ledger, record, comparison, result)
                case BisectJob():
                    return self._after_bisection(ledger, record, result)
                case ProfileJob():
                    self._after_profiling(ledger, record, result)
                case MeasureJob():  # without a request
                    with ledger.jobs.closing(record, result):
                        return []
        except StaleJobError:
            pass  # closed with its follow-ups, or to be decided again
        return []

    def _after_night(
        self, ledger: Ledger, record: JobRecord, night: NightlyJob, result: Result
    ) -> list[JobRecord]:
        close_recovered(ledger, night.testbed, night.branch)
        wanted = None
        mixed: tuple[tuple[str, Effect], ...] = ()
        # A repeated kernel cannot be slower than itself.
        if isinstance(result, NightlyResult) and not is_repeat(record):
            seen = retests.tonight(ledger, night, self.settings.min_effect)
            mixed = seen.mixes
            if not retests.is_comparing(ledger, night.testbed, night.branch):
                wanted = seen.wanted
        held = ledger.quarantines.current().get(night.testbed)
        with ledger.jobs.closing(record, result) as closing:
            if isinstance(result, Unfinished):
                self._mail_trouble(closing, result, held)
            for good, effect in mixed:
                often = "more" if effect.ln_ratio < 0 else "less"
                what = f"its boots come up in their slow mode {often} often"
                closing.note_modes(effect, good=good, what=what)
            return [] if wanted is None else self._compare(closing, wanted)

    def _compare(self, closing: JobClosing, wanted: CompareJob) -> list[JobRecord]:
        """Opens the first comparison of a suspected change, unless it was compared before."""
        key = f"compare:{wanted.branch}:{wanted.testbed}:{wanted.good}:{wanted.bad}"
        record = closing.ask(wanted, key=key, priority=PRIORITY_BISECTION)
        if record.parent != closing.record.id:
            return []
        kind = AlertKind.IMPROVEMENT if wanted.suspected > 0 else AlertKind.DROP
        alert = closing.open_candidate(
            record, kind=kind, what="the nightly level deviated from its baseline"
        )
        closing.change_alert(
            alert.id, what="interleaved boots compare both ends", state=AlertState.CONFIRMING
        )
        return [record]

    def _mail_trouble(
        self, closing: JobClosing, result: Unfinished, held: Quarantine | None = None
    ) -> None:
        """Mails an unfinished job; during a quarantine only the first nightly job."""
        job = closing.record.job
        assert isinstance(job, NightlyJob | CompareJob)
        key = f"quarantine:{held.id}:{job.branch}" if held else f"{closing.record.id}"
        closing.post(
            f"trouble:{key}",
            alerts.trouble(job, result),
            recipients(self.settings.mail, job.branch, job.testbed),
        )

    def _after_comparison(
        self, ledger: Ledger, record: JobRecord, job: CompareJob, result: Result
    ) -> list[JobRecord]:
        candidate = ledger.alerts.of_job(record.id)
        answer = confirmation.judge(job, result) if isinstance(result, Confirmed) else result
        if isinstance(answer, Confirmed):
            if candidate is not None and candidate.state.ended:  # a user has closed it
                what = "the change was confirmed by interleaved boots of both ends"
                with ledger.jobs.closing(record, result) as closing:
                    closing.change_alert(candidate.id, what=what)
                return []
            return self._announce(ledger, record, job, result, answer)
        with ledger.jobs.closing(record, result) as closing:
            if isinstance(answer, Unfinished):
                self._mail_trouble(closing, answer)
            if candidate is not None and isinstance(answer, NotConfirmed | Unfinished):
                closing.change_alert(candidate.id, what=answer.why, state=AlertState.WITHDRAWN)
        return []

    def _announce(
        self,
        ledger: Ledger,
        record: JobRecord,
        job: CompareJob,
        result: Result,
        confirmed: Confirmed,
    ) -> list[JobRecord]:
        """Opens the alert, mails it, and opens the search; an improvement is only recorded."""
        what = "confirmed by interleaved boots of both ends"
        if job.agreed is not None:
            what = "confirmed by the images of the history and by interleaved boots of both ends"
        if job.suspected > 0:
            with ledger.jobs.closing(record, result) as closing:
                closing.open_alert(confirmed.effects, what=what)
            return []
        commits, trouble = self._commits_between(ledger, job)
        testbed = self.lab.testbed(job.testbed)
        mates = self.lab.peers(testbed) if self.settings.search.use_groups else ()
        hours = self.settings.search.hours
        bisection = bisections.bisect_job(ledger, testbed, job, confirmed, commits, hours, mates)
        shared = bisections.search_of_peer(ledger, bisection, confirmed) if bisection else None
        context = self._context()
        document = changes.comparison(
            context, ledger, record, result=confirmed, commits=commits, until=math.inf
        )
        followers = []
        with ledger.jobs.closing(record, result) as closing:
            alert = closing.open_alert(confirmed.effects, what=what)
            if shared is not None:
                closing.change_alert(
                    alert.id,
                    what=f"included in the search on {shared.job.testbed}",
                    bisection=shared.id,
                    state=AlertState.BISECTING,
                )
            elif bisection is not None:
                key = f"bisect:{job.branch}:{job.testbed}:{job.good}:{job.bad}"
                followers.append(closing.ask(bisection, key=key, priority=PRIORITY_BISECTION))
                closing.change_alert(
                    alert.id,
                    what="the search for the commit began",
                    bisection=followers[0].id,
                    state=AlertState.BISECTING,
                )
            else:
                closing.change_alert(alert.id, what=trouble, state=AlertState.NO_CULPRIT)
            address = context.alert_link(alert.id)
            document = replace(document, alert=alert.id, address=address, unsearched=trouble)
            closing.post(
                f"alert:{alert.id}:{record.id}",
                alerts.mail(document),
                recipients(self.settings.mail, job.branch, job.testbed),
                alert=alert.id,
            )
        return followers

    def _commits_between(self, ledger: Ledger, job: CompareJob) -> tuple[list[Commit], str]:
        # Half, so that the fetch ends before the watchdog ends the master.
        limit = self.settings.stall_seconds / 2
        return bisections.commits_between(ledger, self.history, job, limit)

    def _after_bisection(
        self, ledger: Ledger, record: JobRecord, result: Result
    ) -> list[JobRecord]:
        affected = ledger.alerts.all_of_job(record.id)
        culprits = culprits_of(result)
        unmuted = [alert for alert in affected if not alert.state.silent]
        wanted = profiles.profile_jobs(ledger, record, result) if unmuted else []
        context, now = self._context(), ledger.clock()
        documents = {one.id: changes.of_alert(context, ledger, one, now, result) for one in unmuted}
        addresses = {alert.id: self._recipients(alert, culprits) for alert in unmuted}
        with ledger.jobs.closing(record, result) as closing:
            for alert in affected:
                closing.change_alert(
                    alert.id,
                    what=f"the search ended: {serialization.tag_of(result)}",
                    state=after_search(result),
                    culprit=culprits[0].revision if culprits else None,
                )
                closing.join_same_culprit(alert.id)
            for alert in unmuted:
                document = documents[alert.id]
                assert document is not None
                closing.post(
                    f"outcome:{alert.id}:{record.id}",
                    alerts.mail(document),
                    addresses[alert.id],
                    alert=alert.id,
                )
            return [
                closing.ask(one, key=profiles.key_of(one), priority=profiles.PRIORITY_CULPRIT)
                for one in wanted
            ]

    def _context(self) -> LabContext:
        return LabContext(self.lab, self.settings)

    def _after_profiling(self, ledger: Ledger, record: JobRecord, result: Result) -> None:
        """Notes profiles in the history of their alerts."""
        affected = profiles.alerts_with_profiles(ledger, record)
        what = "profiles of the commit and its parent are available"
        if isinstance(result, Unfinished):
            what = f"no profile: {result.why}"
        with ledger.jobs.closing(record, result) as closing:
            for alert in affected:
                closing.change_alert(alert.id, what=what)

    def _recipients(self, alert: Alert, culprits: Sequence[Culprit]) -> tuple[str, ...]:
        """Recipients of the end of a search; rules see the paths of verified commits only."""
        paths: list[str] = []
        committers = []
        with contextlib.suppress(HistoryError):  # an unreadable tree delays no mail
            for one in culprits:
                paths += self.history.commit(one.revision).paths
                committers.append(self.history.committer(one.revision))
        return recipients(self.settings.mail, alert.branch, alert.testbed, paths, committers)

    def _after_request_job(
        self, ledger: Ledger, record: JobRecord, number: int, result: Result
    ) -> list[JobRecord]:
        """With the last job, records and mails the answer of the request."""
        request = ledger.requests.get(number)
        parts = [
            replace(one, result_json=serialization.dumps(result), state=JobState.CLOSED)
            if one.id == record.id
            else one
            for one in ledger.requests.jobs(number)
        ]
        further, run = self._further(ledger, request, parts, record, result)
        answer = None
        if further is None and all(one.state is JobState.CLOSED for one in parts):
            answer = self._requests(ledger).answered(request, parts)
        with ledger.jobs.closing(record, result) as closing:
            if further is not None:
                return [closing.ask_more(further, run=run)]
            if answer is not None:
                closing.end_request(
                    state=RequestState(answer.state),
                    verdict=answer.verdict,
                    why=answer.sentence,
                    mail=requests.mail(answer),
                )
        if answer is not None:
            with contextlib.suppress(OSError):  # the next start of the master writes the page
                request_files.write(self._requests(ledger), ledger.requests.get(number))
        return []

    def _further(
        self,
        ledger: Ledger,
        request: Request,
        parts: list[JobRecord],
        record: JobRecord,
        result: Result,
    ) -> tuple[Job | None, int]:
        """The next job of a request or None, and its run."""
        job = record.job
        others = [one for one in parts if one.job.testbed == job.testbed]
        if isinstance(job, MeasureJob) and isinstance(result, MeasureResult):
            following = record.run + 1
            if following <= request.parameters["runs"] and all(
                one.run != following for one in others
            ):
                return replace(job, shared_since=math.inf), following
        if isinstance(job, CompareJob) and isinstance(result, Confirmed):
            commits, _ = self._commits_between(ledger, job)
            testbed = self.lab.testbed(job.testbed)
            hours = request.parameters["hours"]
            search = bisections.bisect_job(ledger, testbed, job, result, commits, hours)
            if search is not None and not any(isinstance(one.job, BisectJob) for one in others):
                return search, record.run
        return None, record.run

    def write_missing_pages(self, ledger: Ledger) -> None:
        """Writes missing and outdated files of requests after a restart."""
        request_files.write_missing(self._requests(ledger))

    def _requests(self, ledger: Ledger) -> RequestQueries:
        return RequestQueries(ledger, self.settings, self.lab, self.history)
