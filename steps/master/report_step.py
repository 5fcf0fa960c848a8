"""Last step of a trial: puts the comparison so far on the build's page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from buildbot.process.buildstep import BuildStep
from buildbot.process.results import SUCCESS
from twisted.python import log

from netbisect.bisect.model import serialization
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
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.render import progress
from netbisect.reports.site.files import JOB_KINDS, job_page
from netbisect.steps.master.lab_step import DECISION_PROPERTY
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import measured_sides
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import JobRecord
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.scenario import title_of_series


class ReportStep(BuildStep):
    """Adds output of ministat and links; an error in it does not fail the trial."""

    def __init__(self, *, settings: Settings, lab: Lab) -> None:
        self.settings = settings
        self.lab = lab
        super().__init__(
            name="compare", haltOnFailure=False, flunkOnFailure=False, warnOnFailure=False
        )

    async def run(self) -> int:
        number = self.getProperty("job")
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

        def work(ledger: Ledger) -> tuple[str, list[tuple[str, str]], str]:
            record = ledger.jobs.get(number)
            job = replace(record.job, testbed=ledger.actions.get(decision).testbed)
            found = _compared(ledger, self.lab, record, job, revision)
            boots = " + ".join(str(len(side.pps)) for side in found[0].sets) or "no"
            links = list(_links(ledger, self.settings, record))
            return progress.as_text(found), links, f"{found[0].name}: {boots} boots"

        statistics, links, summary = await database_thread(self.settings).do(work)
        await self.addCompleteLog("ministat", statistics)
        for name, address in links:
            await self.addURL(name, address)
        self.descriptionDone = [summary]


def _compared(
    ledger: Ledger, lab: Lab, record: JobRecord, job: Job, revision: str
) -> list[ComparedScenario]:
    """The scenarios of a job so far, the leading one first.

    `job` has the testbed of the trial, which measured `revision`.
    """
    lead = job.lead if isinstance(job, CompareJob | BisectJob) else ""
    return [
        ComparedScenario(
            name=title_of_series(name, lab.scenario_directories),
            testbed=job.testbed,
            series=name,
            sets=measured_sides(ledger, job, LabContext().evidence(ledger, record), name)
            if isinstance(job, MeasureJob)
            else _sides(ledger, job, name, revision),
        )
        for name in sorted(job.scenarios, key=lambda name: name != lead)
    ]


def _links(ledger: Ledger, settings: Settings, record: JobRecord) -> Iterator[tuple[str, str]]:
    """Names and addresses of the pages about a job."""
    alert, kind = ledger.alerts.of_job(record.id), serialization.tag_of(record.job)
    if alert is not None and alert.announced_at is not None:
        yield f"alert {alert.id}", settings.report_address(alert.id)
    if record.request is not None:
        yield f"request {record.request}", settings.request_address(record.request)
    if kind in JOB_KINDS:
        yield f"{kind} {record.id}", settings.page_address(job_page(kind, record.id))
    elif isinstance(record.job, ProfileJob):
        yield f"profile {record.id}", settings.profile_address(record.id)
    yield "overview", settings.page_address("index.html")


def _sides(ledger: Ledger, job: Job, scenario: str, revision: str) -> list[Set]:
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
            wanted = [job.good, revision, job.bad]
        case ProfileJob() | MeasureJob():
            wanted = [*job.revisions]
    number = metric_of(scenario).number
    by_revision: dict[str, list[Level]] = {}
    for level in levels.whole:
        by_revision.setdefault(level.revision, []).append(level)
    return [
        Set(
            ledger.commits.label(name),
            tuple(number(value) for level in by_revision[name] for value in level.ln_pps),
        )
        for name in dict.fromkeys(wanted)
        if name in by_revision
    ]
