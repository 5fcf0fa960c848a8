"""Last step of a trial: puts the comparison so far on the build's page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from buildbot.process.buildstep import BuildStep
from buildbot.process.results import SUCCESS
from buildbot.util.service import AsyncService
from twisted.internet import defer
from twisted.python import log

from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.jobs import (
    BisectJob,
    CompareJob,
    Job,
    MeasureJob,
    NightlyJob,
    ProfileJob,
)
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.plots import progress
from netbisect.reports.plots.progress import ScenarioProgress, Side
from netbisect.steps.master.lab_step import DECISION_PROPERTY
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import measured_sides
from netbisect.steps.service import numeric
from netbisect.steps.service.compute import StoppingError
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.watchdog import run_in_thread
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.scenario import title_of_series

JOB_PROPERTY = "job"
"""Build property with the number of the job of a trial."""
STATISTICS, PLOT = "ministat", "boots.html"
"""Names of the logs."""
_LATER = 10.0
"""Seconds until the plot is drawn; a further trial of the job in this time replaces it. Drawing
takes longer than a decision, and the compute process does both."""
_PLOTTED = 6
"""Most scenarios in the plot, the leading one first."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Contents of a build's page."""

    comparisons: tuple[ScenarioProgress, ...]
    links: tuple[tuple[str, str], ...]
    """Names and addresses."""
    summary: str


class ReportStep(BuildStep):
    """Adds output of ministat, a plot and links; an error in it does not fail the trial."""

    def __init__(self, *, settings: Settings, lab: Lab) -> None:
        self.settings = settings
        self.lab = lab
        super().__init__(
            name="compare", haltOnFailure=False, flunkOnFailure=False, warnOnFailure=False
        )

    async def run(self) -> int:
        """Reports on the job of this trial."""
        number = self.getProperty(JOB_PROPERTY)
        decision = self.getProperty(DECISION_PROPERTY)
        if number is None or decision is None:
            self.descriptionDone = ["nothing to compare"]
            return int(SUCCESS)
        try:
            await self._report(int(number), int(decision))
        except Exception:  # noqa: BLE001 - the trial counts without a report
            log.err(None, f"job {number}: the build's page")
            self.descriptionDone = ["the report failed"]
        return int(SUCCESS)

    async def _report(self, number: int, decision: int) -> None:
        revision = str(self.getProperty("revision"))

        def work(ledger: Ledger) -> BuildReport:
            testbed = ledger.actions.get(decision).testbed
            return build_report(ledger, self.settings, self.lab, number, (testbed, revision))

        report: BuildReport = await database_thread(self.settings).do(work)
        await self.addCompleteLog(STATISTICS, progress.as_text(report.comparisons))
        for name, address in report.links:
            await self.addURL(name, address)
        self.descriptionDone = [report.summary]
        await self._draw_later(number, report)

    async def _draw_later(self, number: int, report: BuildReport) -> None:
        async def draw() -> None:
            _waiting.pop(number, None)
            plotted = report.comparisons[:_PLOTTED]
            page = await run_in_thread("a plot", numeric.progress.as_page, plotted, report.links)
            await self.addHTMLLog(PLOT, page)

        earlier = _waiting.pop(number, None)
        if earlier is not None:
            earlier.cancel()
        later = _Later(draw, f"job {number}: the plot on the build's page")
        _waiting[number] = later
        await later.setServiceParent(self.master)


class _Later(AsyncService):
    """Runs work after a delay, unless the master stops before."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
        super().__init__()
        self._work = work
        self._what = what
        self._call: Any = None
        self._done: defer.Deferred[None] = defer.succeed(None)

    def startService(self) -> defer.Deferred[None]:
        self._call = self.master.reactor.callLater(_LATER, self._begin)
        return super().startService()

    def stopService(self) -> defer.Deferred[None]:
        """Finishes work that has begun."""
        if self._call.active():
            self._call.cancel()
        return self._done.addCallback(lambda _: super(_Later, self).stopService())

    def cancel(self) -> None:
        """Cancels the work unless it has begun."""
        if self._call is not None and self._call.active():
            self._call.cancel()
            self.disownServiceParent()

    def _begin(self) -> None:
        finished: defer.Deferred[None] = defer.Deferred()
        self._done = finished
        done = defer.ensureDeferred(self._work())
        done.addErrback(lambda failure: failure.trap(StoppingError))
        done.addErrback(lambda failure: log.err(failure, self._what))
        done.addCallback(lambda _: finished.callback(None))
        done.addCallback(lambda _: self.disownServiceParent() if self.parent else None)


_waiting: dict[int, _Later] = {}
"""Plots to be drawn, by job."""


def build_report(
    ledger: Ledger, settings: Settings, lab: Lab, number: int, trial: tuple[str, str]
) -> BuildReport:
    """The report on a job after a trial, which is a testbed and a revision."""
    testbed, revision = trial
    record = ledger.jobs.get(number)
    job = replace(record.job, testbed=testbed)
    found = [
        ScenarioProgress(
            title=title_of_series(name, lab.scenario_directories),
            testbed=testbed,
            series=name,
            sides=measured_sides(ledger, job, LabContext().evidence(ledger, record), name)
            if isinstance(job, MeasureJob)
            else _sides(ledger, job, name, revision),
        )
        for name in _scenarios(job)
    ]
    alert = ledger.alerts.of_job(number)
    links = [("overview", f"{settings.web.url}plugins/netbisect/index.html")]
    if alert is not None and alert.announced_at is not None:
        links.insert(0, (f"alert {alert.id}", settings.report_address(alert.id)))
    lead = found[0]
    boots = " + ".join(str(len(side.pps)) for side in lead.sides) or "no"
    return BuildReport(
        comparisons=tuple(found),
        links=tuple(links),
        summary=f"{lead.title}: {boots} boots",
    )


def _scenarios(job: Job) -> list[str]:
    """Scenarios of a job, the leading one first."""
    lead = job.lead if isinstance(job, CompareJob | BisectJob) else ""
    return sorted(job.scenarios, key=lambda name: name != lead)


def _sides(ledger: Ledger, job: Job, scenario: str, revision: str) -> list[Side]:
    """Boots of the kernels compared, without kernels that have none."""
    levels = ledger.series.with_baseline(job.testbed, scenario, job.branch)
    wanted: list[str] = []
    match job:
        case NightlyJob():
            before = [one for one in levels.baseline if one.revision != job.revision]
            wanted = [*(one.revision for one in before[-1:]), job.revision]
        case CompareJob():
            wanted = [job.good, job.bad]
        case BisectJob():
            wanted = [job.good, revision, job.candidates[-1].revision]
        case ProfileJob() | MeasureJob():
            wanted = [*job.revisions]
    number = metric_of(scenario).number
    by_revision: dict[str, list[Level]] = {}
    for level in levels.whole:
        by_revision.setdefault(level.revision, []).append(level)
    return [
        Side(
            ledger.commits.label(name),
            tuple(number(value) for level in by_revision[name] for value in level.ln_pps),
        )
        for name in dict.fromkeys(wanted)
        if name in by_revision
    ]
