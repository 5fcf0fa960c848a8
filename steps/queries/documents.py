"""Queries of documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from netbisect.bisect.model import entities, jobs, results
from netbisect.bisect.model.detection_results import MIN_EFFECT
from netbisect.bisect.model.entities import Sample
from netbisect.bisect.model.results import (
    Confirmed,
    NotConfirmed,
    Result,
    Suspects,
)
from netbisect.reports.documents import atom as feed
from netbisect.reports.model import types
from netbisect.reports.model.types import RevisionDocument
from netbisect.reports.render import words
from netbisect.steps.queries import document_parts
from netbisect.steps.service.numeric import health as series_health
from netbisect.steps.service.numeric import histories
from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Alert, JobRecord, SeriesName
from netbisect.store.ledger import Ledger

_SHOWN = 50
"""Alerts and questions of a status, at most."""


@dataclass(frozen=True, slots=True)
class DocumentQueries:
    """Makes documents of one ledger."""

    ledger: Ledger
    commit_link: str = ""
    """Address of a commit, with `{revision}` for its hash."""
    alert_link: str = ""
    """Address of the page of an alert, with `{number}` in it."""
    min_effect: float = MIN_EFFECT
    """Smallest drop worth an alert, as |ln ratio|."""
    url: str = ""
    """Address of the documents of the service, with a slash at the end; "" without one."""

    @classmethod
    def of(cls, ledger: Ledger, settings: Settings) -> Self:
        """For a service."""
        url = f"{settings.web.url}plugins/netbisect/"
        return cls(
            ledger,
            commit_link=settings.links.commit,
            alert_link=f"{url}alert-{{number}}.html",
            min_effect=settings.min_effect,
            url=url,
        )

    # ----------------------------------------------------------------------------- one alert

    def alert(self, number: int) -> types.AlertDocument:
        """An alert.

        Raises:
            StoreError: there is none.
        """
        return self._alert(self.ledger.alerts.get(number))

    def _alert(self, alert: Alert) -> types.AlertDocument:
        return types.AlertDocument(
            number=alert.id,
            id=feed.alert_id(alert.id, alert.testbed, alert.opened_at),
            kind=alert.kind,
            state=alert.state,
            branch=alert.branch,
            testbed=alert.testbed,
            lead=alert.lead,
            good=self._revision(alert.good),
            bad=self._revision(alert.bad),
            culprit=self._revision(alert.culprit) if alert.culprit else None,
            differences=document_parts.differences(alert.effects),
            basis=alert.basis,
            series=tuple(
                types.SeenIn(
                    testbed=one.testbed,
                    scenario=one.scenario,
                    branch=one.branch,
                    good=one.good,
                    bad=one.bad,
                    moved=one.moved,
                    difference=document_parts.difference(one.effect) if one.effect else None,
                    at=one.at,
                )
                for one in alert.series
            ),
            comparison=alert.comparison,
            bisection=alert.bisection,
            opened_at=alert.opened_at,
            announced_at=alert.announced_at,
            closed_at=alert.closed_at,
            muted_until=alert.muted_until,
            recovery=alert.recovery,
            merged_into=alert.merged_into,
            history=tuple(self.ledger.alerts.changes(alert.id)),
            address=self.alert_link.replace("{number}", str(alert.id)),
        )

    def _revision(self, revision: str) -> RevisionDocument:
        commit = self.ledger.commits.get(revision)
        address = self.commit_link.replace("{revision}", revision)
        if commit is None:
            return RevisionDocument(revision, revision[:12], "", "", None, address)
        return RevisionDocument(
            revision, commit.label, commit.subject, commit.author, commit.at, address
        )

    # ------------------------------------------------------------------------ questions of it

    def comparison(self, number: int) -> types.ComparisonDocument:
        """A comparison.

        Raises:
            StoreError: there is no such question, or it is no comparison.
        """
        record = self.ledger.jobs.get(number)
        job = record.job
        if not isinstance(job, jobs.CompareJob):
            raise StoreError(
                f"question {number} is no comparison but a {document_parts.kind(record)}"
            )
        finding = record.finding
        effects = finding.effects if isinstance(finding, Confirmed | NotConfirmed) else ()
        return types.ComparisonDocument(
            number=number,
            alert=self._alert_about(number),
            branch=job.branch,
            testbed=job.testbed,
            lead=job.lead,
            scenarios=job.scenarios,
            good=self._revision(job.good),
            bad=self._revision(job.bad),
            opened_at=record.opened_at,
            closed_at=record.closed_at,
            outcome=document_parts.compared(finding),
            sentence=self._sentence(finding),
            differences=document_parts.differences(effects),
            boots=self._boots(number),
        )

    def bisection(self, number: int) -> types.BisectionDocument:
        """A search for a commit.

        Raises:
            StoreError: there is no such question, or it is no such search.
        """
        record = self.ledger.jobs.get(number)
        job = record.job
        if not isinstance(job, jobs.BisectJob):
            raise StoreError(
                f"question {number} is no bisection but a {document_parts.kind(record)}"
            )
        finding = record.finding
        belief = self._belief(record)
        chances = belief.chances if belief else {}
        return types.BisectionDocument(
            number=number,
            alert=self._alert_about(number),
            branch=job.branch,
            testbed=job.testbed,
            lead=job.lead,
            scenarios=job.scenarios,
            good=self._revision(job.good),
            candidates=tuple(
                types.CandidateDocument(
                    self._revision(one.revision), one.weight, chances.get(one.revision)
                )
                for one in job.candidates
            ),
            opened_at=record.opened_at,
            closed_at=record.closed_at,
            outcome=document_parts.searched(finding),
            sentence=self._sentence(finding),
            culprits=document_parts.named(finding),
            suspects=finding.revisions if isinstance(finding, Suspects) else (),
            chances=types.Chances(belief.none, belief.two, belief.drift) if belief else None,
            steps=self._steps(number),
            marks=tuple(self.ledger.marks.of_search(number)),
            spent=types.CostSpent(**asdict(self.ledger.costs.of_jobs([number]))),
        )

    def _alert_about(self, job: int) -> int | None:
        alert = self.ledger.alerts.of_job(job)
        return alert.id if alert is not None else None

    def _sentence(self, finding: Result | None) -> str:
        if finding is None:
            return "Running."
        return words.sentence(finding, self.ledger.commits.label, str)

    def _belief(self, record: JobRecord) -> results.Posterior | None:
        """That of the answer, or of the last decision."""
        found = getattr(record.finding, "belief", None)
        beliefs = [
            one.belief for one in self.ledger.actions.of_job(record.id) if one.belief is not None
        ]
        return found or (beliefs[-1] if beliefs else None)

    def _steps(self, number: int) -> tuple[types.StepDocument, ...]:
        return tuple(
            types.StepDocument(
                number=one.seq,
                stage="kernel" if one.stage.value == "kernel" else "trial",
                revision=one.revision,
                testbed=one.testbed,
                why=one.why,
                outcome=one.outcome.value if one.outcome else None,
                note=one.note,
                at=one.intended_at,
                finished_at=one.finished_at,
            )
            for one in self.ledger.actions.of_job(number)
        )

    def _boots(self, number: int) -> tuple[types.BootDocument, ...]:
        facts = self.ledger.facts.of_job(number)
        runs: defaultdict[str, list[types.RunDocument]] = defaultdict(list)
        for fact in facts:
            if isinstance(fact, Sample):
                runs[fact.boot].append(
                    types.RunDocument(
                        scenario=fact.scenario,
                        pps=fact.pps,
                        offered_pps=fact.offered_pps,
                        valid=fact.valid,
                        problems=fact.problems,
                        warnings=fact.warnings,
                        conditions=fact.conditions,
                        at=fact.at,
                    )
                )
        return tuple(
            types.BootDocument(one.id, one.revision, one.kernel, one.at, tuple(runs[one.id]))
            for one in facts
            if isinstance(one, entities.Boot)
        )

    # -------------------------------------------------------------------------------- a series

    def series(self, name: SeriesName) -> types.SeriesDocument:
        """A series.

        Raises:
            StoreError: nothing was measured of it.
        """
        place = (name.testbed, name.scenario, name.branch)
        levels = self.ledger.series.with_baseline(*place)
        if not levels.whole:
            raise StoreError(f"nothing was measured of the series {'/'.join(place)}")
        conditions = self.ledger.series.conditions(name.testbed, name.scenario)
        noise = histories.estimate_noise(levels.whole[:-1]) if levels.whole[1:] else None
        health = series_health.series_health(levels.baseline, self.min_effect, noise)
        touching = self.ledger.alerts.of_series(*place)
        return document_parts.series(
            name,
            levels.whole,
            {id(one) for one in levels.baseline},
            conditions=conditions.values if conditions else {},
            health=health,
            alerts=[one.id for one in touching if one.announced_at is not None],
            commits=self.ledger.commits.find({one.revision for one in levels.whole}),
        )

    # ------------------------------------------------------------------------- what is going on

    def status(self, *, everything: bool = False) -> types.StatusDocument:
        """Open jobs with their last action, and alerts: those in effect, or all."""
        alerts = self.ledger.alerts.all() if everything else self.ledger.alerts.all_open()
        alerts = alerts[: -_SHOWN - 1 : -1]
        return types.StatusDocument(
            at=self.ledger.clock(),
            questions=tuple(map(self._open, self.ledger.jobs.all_open()[:_SHOWN])),
            alerts=alert_summaries(self.ledger, alerts),
            quarantines=tuple(
                document_parts.quarantine(one)
                for _, one in sorted(self.ledger.quarantines.current().items())
            ),
        )

    def _open(self, record: JobRecord) -> types.OpenQuestion:
        decisions = self.ledger.actions.of_job(record.id)
        last = decisions[-1] if decisions else None
        return types.OpenQuestion(
            id=record.id,
            kind=document_parts.kinds(record),
            branch=record.job.branch,
            testbed=record.job.testbed,
            opened_at=record.opened_at,
            decisions=len(decisions),
            now=f"{last.stage.value} {last.revision[:12]}: {last.why}" if last else "",
            belief=self._belief(record),
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
            page=f"{self.url}index.html",
        )


def alert_summaries(
    ledger: Ledger, alerts: Sequence[Alert], title: Callable[[str], str] = str
) -> tuple[types.AlertSummary, ...]:
    """Alerts in brief.

    Args:
        ledger: Database.
        alerts: In any order, which stays.
        title: Returns the name of a scenario for people.
    """
    changed = ledger.alerts.change_counts([one.id for one in alerts])
    return tuple(
        document_parts.alert_summary(one, changed.get(one.id, (0, one.opened_at))[1], title)
        for one in alerts
    )
