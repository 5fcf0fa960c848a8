"""Data of the dashboard, cached between requests; only changes are read again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from netbisect.bisect.model import serialization
from netbisect.bisect.model.detection_results import RETEST_BOOTS
from netbisect.bisect.model.entities import Boot
from netbisect.bisect.model.evidence import Prices
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.reports.documents.types import AlertSummary
from netbisect.reports.render import words
from netbisect.reports.site import dashboard
from netbisect.reports.site.dashboard import Addresses, Dashboard, Progress, QuarantineLine
from netbisect.reports.site.view_models import SeriesSummary, SiteOverview
from netbisect.steps.queries import digest, document_parts
from netbisect.steps.queries.lab_context import LedgerLab
from netbisect.steps.service import stalls
from netbisect.steps.service.numeric import measurement, plan, series_page
from netbisect.steps.service.settings import Settings
from netbisect.steps.site import view_models
from netbisect.store.db.records import Action, ActionStage, JobRecord
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.samples import SampleCount
from netbisect.workers.config.lab import Lab

Place = tuple[str, str]
"""Testbed and scenario."""


@dataclass(frozen=True, slots=True)
class StaleSeries:
    """Series to be read again."""

    place: Place
    version: str
    """Version of their samples and alerts."""


@dataclass
class DashboardData:
    """Data of one service; its methods run in the database thread."""

    settings: Settings
    lab: Lab
    _series: dict[Place, tuple[str, list[SeriesSummary]]] = field(default_factory=dict)
    """With their versions."""
    _event: int = -1
    """The last event read."""
    _counted: dict[Place, SampleCount] = field(default_factory=dict)
    """Sample counts of all series."""
    _alerts: list[AlertSummary] = field(default_factory=list)
    """Open and recently changed alerts, oldest first."""
    _changes: dict[Place, tuple[int, float]] = field(default_factory=dict)
    """Last change of these alerts, by series."""
    _progress: dict[int, tuple[tuple[int, int], Progress]] = field(default_factory=dict)
    """By job, with its numbers of actions and finished actions."""

    def stale(self, ledger: Ledger) -> list[StaleSeries]:
        """Returns the series that have changed since they were read."""
        self._refresh(ledger)
        versions = {place: self._version(place) for place in sorted(self._counted)}
        for place in [one for one in self._series if one not in versions]:
            del self._series[place]
        return [
            StaleSeries(place, version)
            for place, version in versions.items()
            if place not in self._series or self._series[place][0] != version
        ]

    def read(self, ledger: Ledger, series: StaleSeries) -> None:
        """Reads the series of a testbed and scenario."""
        found = [
            series_page.summary(
                # The dashboard does not show alerts by series.
                view_models.view_of(ledger, trail, self._names, [], self.settings.min_effect)
            )
            for trail in ledger.series_histories.of(*series.place)
        ]
        self._series[series.place] = (series.version, found)

    def build(self, ledger: Ledger) -> Dashboard:
        """Builds the dashboard; unread series are only counted."""
        now = ledger.clock()
        self._refresh(ledger)
        series = [one for _, found in self._series.values() for one in found]
        series.sort(key=lambda one: one.name)
        return Dashboard(
            overview=SiteOverview(
                at=now,
                nights=[],
                night_at=None,
                alerts=self._alerts[::-1],
                running=[],
                series=series,
            ),
            night=self._night(ledger),
            running=list(self._running(ledger)),
            held=[
                QuarantineLine(one.testbed, one.since, one.why)
                for _, one in sorted(ledger.quarantines.current().items())
            ],
            addresses=Addresses(
                f"{self.settings.web.url}plugins/netbisect/", self.settings.links.site
            ),
            at=now,
            stalls=stalls.read(self.settings.state).recent,
            unread=len(self.stale(ledger)),
            mails_given_up=len(ledger.mails.given_up()),
        )

    @property
    def _names(self) -> LedgerLab:
        return LedgerLab(self.settings.links.commit, self.lab)

    def _refresh(self, ledger: Ledger) -> None:
        event = ledger.events.last()
        if event == self._event:
            return
        self._counted = ledger.samples.counts()
        alerts = ledger.alerts.current(ledger.clock() - dashboard.NEWS_SECONDS)
        changes = ledger.alerts.change_counts([one.id for one in alerts])
        self._alerts = []
        self._changes = {}
        for alert in alerts:
            change = changes.get(alert.id, (0, 0.0))
            self._alerts.append(document_parts.alert_summary(alert, change[1], self._names.title))
            for one in alert.series:
                place = (one.testbed, one.scenario)
                self._changes[place] = max(change, self._changes.get(place, change))
        self._event = event

    def _version(self, place: Place) -> str:
        """Version of a series: its samples, and the alerts that begin its baselines."""
        counted = self._counted[place]
        return f"{counted.samples} {counted.latest!r} {self._changes.get(place)}"

    def _night(self, ledger: Ledger) -> dashboard.NightProgress:
        nights = ledger.nights.latest(view_models.NIGHT_SECONDS)
        names = digest.Names(self.lab)
        missing = [one for night in nights for one in digest.missing_of(ledger, night, names)]
        planned = sum(len(one.job.scenarios) for one in nights if isinstance(one.job, NightlyJob))
        ends = [one.closed_at for one in nights]
        return dashboard.NightProgress(
            planned=planned,
            measured=planned - sum(len(one.scenarios) for one in missing),
            missing=tuple(missing),
            begun=min((one.opened_at for one in nights), default=None),
            finished=None if None in ends else max((one for one in ends if one), default=None),
        )

    # ---------------------------------------------------------------------------------- open jobs

    def _running(self, ledger: Ledger) -> Iterable[Progress]:
        record = ledger.jobs.all_open()
        kept = {one.id for one in record}
        counts = ledger.jobs.progress(kept)
        self._progress = {one: told for one, told in self._progress.items() if one in kept}
        for one in record:
            count = counts.get(one.id, (0, 0))
            if self._progress.get(one.id, ((-1, -1), None))[0] != count:
                self._progress[one.id] = (count, self._progress_of(ledger, one))
            yield self._progress[one.id][1]

    def _progress_of(self, ledger: Ledger, record: JobRecord) -> Progress:
        job = record.job
        decisions = ledger.actions.of_job(record.id)
        prices = ledger.costs.prices(job.testbed)
        share: float | None
        left: float | None
        match job:
            case NightlyJob():
                done = _boots(ledger, record)
                share, left, said = _of_boots(done, job.boots, prices, job.scenarios)
            case CompareJob():
                done = _boots(ledger, record)
                share, left, said = _of_boots(
                    done, RETEST_BOOTS, prices, job.scenarios, about="about "
                )
            case BisectJob():
                share, left, said = self._search(ledger, record, job, prices)
            case ProfileJob():
                # Without a packet rate, a first boot per revision measures it.
                boots = len(job.revisions) * (1 if job.pps else 2)
                done = _boots(ledger, record)
                share, left, said = _of_boots(done, boots, prices, job.scenarios)
            case MeasureJob():
                boots = len(job.revisions) * job.boots
                evidence = self._names.evidence(ledger, record)
                done = boots - measurement.remaining_boots(job, evidence)
                share, left, said = _of_boots(done, boots, prices, job.scenarios)
        working = [one for one in decisions if one.outcome is None]
        if left is not None:
            left = max(left, _least_left(working, prices, job.scenarios)) or None
        orders = working or decisions[-1:]
        order = "; ".join(_order(ledger, one, job.testbed) for one in orders) or "waits"
        return Progress(
            kind=serialization.tag_of(job),
            number=record.id,
            testbed=job.testbed,
            branch=job.branch,
            since=record.opened_at,
            done=share,
            left=left,
            said=said,
            now=order,
        )

    def _search(
        self, ledger: Ledger, record: JobRecord, job: BisectJob, prices: Prices
    ) -> tuple[float | None, float | None, str]:
        evidence = self._names.evidence(ledger, record)
        ahead = plan.forecast(job, evidence, prices)
        left, spent = 3600 * ahead.hours_left, ledger.costs.of_jobs([record.id]).seconds
        best, probability = max(ahead.belief.chances.items(), key=lambda one: one[1])
        said = f"{words.count(len(job.candidates), 'commit')}; likeliest "
        if ahead.belief.none > probability:
            said += f"no change, {words.certainty(ahead.belief.none)}"
        else:
            said += f"{ledger.commits.label(best)}, {words.certainty(probability)}"
        return spent / (spent + left) if spent + left else None, left, said


def _order(ledger: Ledger, decision: Action, own: str) -> str:
    """Describes an action, with its testbed if that is not the job's own."""
    guest = f" on {decision.testbed}" if decision.testbed != own else ""
    return (
        f"{decision.stage.value} {ledger.commits.label(decision.revision)}{guest}: {decision.why}"
    )


def _least_left(working: list[Action], prices: Prices, scenarios: tuple[str, ...]) -> float:
    """Seconds that the longest of these actions takes; 0.0 without any."""
    boot = prices.boot + prices.run * len(scenarios)
    return max(
        (prices.build if one.stage is ActionStage.KERNEL else boot for one in working), default=0.0
    )


def _boots(ledger: Ledger, record: JobRecord) -> int:
    return sum(isinstance(fact, Boot) for fact in ledger.facts.of_job(record.id))


def _of_boots(
    done: int, most: int, prices: Prices, scenarios: tuple[str, ...], about: str = ""
) -> tuple[float, float, str]:
    """Returns the completed share, the time left in seconds, and a text."""
    left = max(most - done, 0) * (prices.boot + prices.run * len(scenarios))
    said = f"{done} of {about}{words.count(most, 'boot')}"
    return min(done / most, 1.0), left, said
