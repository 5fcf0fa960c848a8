"""Queries of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from netbisect.bisect.detection.level_difference import pooled
from netbisect.bisect.model.entities import Noise, SeriesName
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.documents import atom as feed
from netbisect.reports.model import types
from netbisect.reports.model.changes import BisectionDocument, ComparisonDocument
from netbisect.reports.model.series import EpochDocument, LevelDocument, SeriesDocument
from netbisect.reports.model.types import Difference, RevisionDocument
from netbisect.reports.site.files import alert_page
from netbisect.steps.queries import changes
from netbisect.steps.queries.lab_context import LabContext, known_commit
from netbisect.steps.service.numeric import health as series_health
from netbisect.steps.service.numeric import histories
from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, AlertSeries, JobRecord
from netbisect.store.db.tables import record_of
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import SeriesHistory
from netbisect.workers.config.lab import Lab


@dataclass(frozen=True, slots=True)
class DocumentQueries:
    """Makes documents of one ledger."""

    ledger: Ledger
    lab: LabContext = field(default_factory=LabContext)
    url: str | None = None
    """Address of the pages with a slash at the end; "" for a folder of pages, or None."""

    @classmethod
    def of(cls, ledger: Ledger, settings: Settings, lab: Lab | None = None) -> Self:
        """For a service."""
        return cls(ledger, LabContext(lab, settings), settings.page_address(""))

    def alert(self, number: int) -> types.AlertDocument:
        """An alert. Raises StoreError if there is none."""
        return self._alert(self.ledger.alerts.get(number))

    def _alert(self, alert: Alert) -> types.AlertDocument:
        return record_of(
            types.AlertDocument,
            alert,
            number=alert.id,
            id=feed.alert_id(alert.id, alert.testbed, alert.opened_at),
            good=self._revision(alert.good),
            bad=self._revision(alert.bad),
            culprit=self._revision(alert.culprit) if alert.culprit else None,
            differences=tuple(map(Difference.of, alert.effects)),
            basis=alert.change.basis,
            series=tuple(map(_seen_in, alert.series)),
            history=tuple(self.ledger.alerts.changes(alert.id)),
            address="" if self.url is None else f"{self.url}{alert_page(alert.id)}",
        )

    def _revision(self, revision: str) -> RevisionDocument:
        return self.lab.revision(known_commit(self.ledger, revision))

    def comparison(self, number: int) -> ComparisonDocument:
        """A comparison. Raises StoreError if there is no such job, or it is no comparison."""
        return changes.comparison(self.lab, self.ledger, self.ledger.jobs.get(number))

    def bisection(self, number: int) -> BisectionDocument:
        """A search for a commit. Raises StoreError if there is none, or it is another job."""
        return changes.bisection(self.lab, self.ledger, self.ledger.jobs.get(number))

    def series(self, name: SeriesName) -> SeriesDocument:
        """A series. Raises StoreError if nothing was measured of it."""
        for one in self.ledger.series.histories(name.testbed, name.scenario):
            if one.name == name:
                touching = self.ledger.alerts.of_series(name.testbed, name.scenario, name.branch)
                numbers = [one.id for one in touching if one.announced_at is not None]
                return self.series_of(one, numbers)
        raise StoreError(f"there are no measurements of the series {name.title}")

    def series_of(self, history: SeriesHistory, alerts: Sequence[int]) -> SeriesDocument:
        """A series that was read; `alerts` are numbers of announced ones that were seen in it."""
        name, levels = history.name, history.epochs[-1].levels
        noise = histories.estimate_noise(levels[:-1]) if levels[1:] else None
        health = series_health.series_health(
            history.baseline or levels[-1:], self.lab.min_effect, noise
        )
        noise = noise or Noise()
        estimates = series_health.level_estimates(levels, noise)
        baseline = {id(one) for one in history.baseline}
        before = [
            estimate
            for level, estimate in zip(levels[:-1], estimates, strict=False)
            if id(level) in baseline
        ]
        commits = self.ledger.commits.find(
            {level.revision for epoch in history.epochs for level in epoch.levels}
        )
        metric = metric_of(name.scenario)
        epochs = [
            EpochDocument(
                dict(epoch.values),
                tuple(
                    LevelDocument.of(
                        one,
                        name.scenario,
                        commits[one.revision].label,
                        baseline=id(one) in baseline,
                        number=history.numbers.get(one.revision, 0),
                    )
                    for one in epoch.levels
                ),
            )
            for epoch in history.epochs
        ]
        return SeriesDocument(
            testbed=name.testbed,
            scenario=name.scenario,
            branch=name.branch,
            unit=metric.unit,
            better=metric.better,
            conditions=epochs[-1].conditions,
            levels=epochs[-1].levels,
            boot_noise=health.boot_noise,
            image_noise=health.image_noise,
            smallest_drop=health.smallest_drop,
            alerts=tuple(alerts),
            title=self.lab.title(name.scenario),
            hardware=self.lab.hardware(name.testbed),
            commit_link=self.lab.commit_link,
            earlier=tuple(epochs[:-1]),
            estimates=tuple(estimates),
            baseline=pooled(before, noise),
            noise=noise,
            health=health,
            steps=tuple(histories.analyze(levels, self.lab.min_effect).steps),
            least=self.lab.min_effect,
            kernels=len(levels),
            boots=sum(len(one.ln_pps) for one in levels),
        )

    def status(self, *, everything: bool = False) -> types.StatusDocument:
        """Open jobs with their last action, and alerts: those in effect, or all."""
        alerts = self.ledger.alerts.all() if everything else self.ledger.alerts.all_open()
        return types.StatusDocument(
            at=self.ledger.clock(),
            jobs=tuple(map(self._open, self.ledger.jobs.all_open())),
            alerts=alert_summaries(self.ledger, alerts[::-1]),
            quarantines=quarantines(self.ledger),
        )

    def _open(self, record: JobRecord) -> types.OpenJob:
        decisions = self.ledger.actions.of_job(record.id)
        last = decisions[-1] if decisions else None
        why = last and (self.lab.why_waiting(self.ledger, last) or last.why)
        return record_of(
            types.OpenJob,
            record,
            kind=record.kind.capitalize(),
            decisions=len(decisions),
            now=f"{last.stage.value} {last.revision[:12]}: {why}" if last else "",
            posterior=next((one.posterior for one in reversed(decisions) if one.posterior), None),
        )

    def atom(self) -> str:
        """Alerts as an Atom feed: that of the service, or of a folder of pages."""
        first = self.ledger.alerts.first()
        named = "nothing yet"
        if first is not None:
            named = feed.alert_id(first.id, first.testbed, first.opened_at)
        return feed.feed(
            map(self._alert, self.ledger.alerts.latest(feed.ENTRIES_MAX)),
            name=self.url or named,
            address=f"{self.url}feed.atom" if self.url else "",
            page=f"{self.url or ''}index.html",
        )


def quarantines(ledger: Ledger) -> tuple[types.QuarantineDocument, ...]:
    """The testbeds in quarantine, by name."""
    return tuple(
        record_of(types.QuarantineDocument, one)
        for _, one in sorted(ledger.quarantines.current().items())
    )


def alert_summaries(
    ledger: Ledger, alerts: Sequence[Alert], title: Callable[[str], str] = str
) -> tuple[types.AlertSummary, ...]:
    """Alerts in brief, in their order; `title` returns the display name of a scenario."""
    changed = ledger.alerts.change_counts([one.id for one in alerts])
    return tuple(
        alert_summary(one, changed.get(one.id, (0, one.opened_at))[1], title) for one in alerts
    )


def alert_summary(
    alert: Alert, changed_at: float, title: Callable[[str], str] = str
) -> types.AlertSummary:
    """An alert in brief; `changed_at` is the time of the last action on it."""
    latest = {(one.testbed, one.scenario, one.branch): one for one in alert.series}
    moved = {place: _seen_in(one) for place, one in sorted(latest.items()) if one.moved}
    lead = Difference.of(alert.effects[0]) if alert.effects else None
    return record_of(
        types.AlertSummary,
        alert,
        ln_ratio=lead.ln_ratio if lead else None,
        percent=lead.percent if lead else None,
        standing=alert.state.standing,
        title=title(alert.lead),
        since=alert.opened_at if alert.announced_at is None else alert.announced_at,
        difference=lead,
        basis=alert.change.basis,
        changes={
            one.scenario: one.difference
            for one in moved.values()
            if (one.testbed, one.branch) == (alert.testbed, alert.branch)
        },
        others=len(moved.keys() - {(alert.testbed, alert.lead, alert.branch)}),
        series=tuple(moved.values()),
        changed_at=changed_at,
    )


def _seen_in(one: AlertSeries) -> types.SeenIn:
    difference = Difference.of(one.effect) if one.effect else None
    return record_of(types.SeenIn, one, difference=difference)
