"""Renders the pages of requests and profiles."""

from __future__ import annotations

from functools import partial

from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import BisectJob, MeasureJob, ProfileJob
from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.model.types import RequestPart
from netbisect.reports.site import requests as request_pages
from netbisect.reports.site.frame import File
from netbisect.reports.site.requests import Narrowing, PartView
from netbisect.steps.policy import profiles
from netbisect.steps.queries.progress import measured_sides
from netbisect.steps.queries.request_files import addresses
from netbisect.steps.queries.request_status import RequestQueries
from netbisect.steps.service.numeric import measurement
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.storage import open_history
from netbisect.steps.site.build import PageBuilder
from netbisect.store.db.records import JobRecord
from netbisect.workers.config.lab import Lab


def request_files(
    builder: PageBuilder, settings: Settings, lab: Lab, number: int
) -> dict[str, File]:
    """The page of a request, by its file. Raises NotFoundError."""
    ledger = builder.ledger
    records = ledger.requests.jobs(number)
    found = RequestQueries(ledger, settings, lab, open_history(settings, lab)).document(number)
    page = partial(
        request_pages.page,
        found,
        [_part(builder, one, part) for one, part in zip(records, found.parts, strict=True)],
        addresses(settings, number),
    )
    return {f"request-{number}.html": page}


def _part(builder: PageBuilder, record: JobRecord, part: RequestPart) -> PartView:
    ledger, job = builder.ledger, record.job
    if isinstance(job, BisectJob):
        return PartView(part, search=builder.documents.bisection(record.id))
    if not isinstance(job, MeasureJob):
        return PartView(part)
    evidence = builder.lab.evidence(ledger, record)
    return PartView(
        part,
        [
            ComparedScenario(builder.lab.title(one), sides, series=one, testbed=job.testbed)
            for one in job.scenarios
            if (sides := measured_sides(ledger, job, evidence, one))
        ],
        _narrowing(builder, job, evidence),
    )


def _narrowing(builder: PageBuilder, job: MeasureJob, evidence: Evidence) -> list[Narrowing]:
    label = builder.ledger.commits.label
    return [
        Narrowing(
            f"{label(revision)} against {label(job.revisions[0])} in "
            f"{builder.lab.title(scenario)} on {job.testbed}",
            effects,
            job.min_effect,
        )
        for scenario in job.scenarios
        for revision in job.revisions[1:]
        if (effects := measurement.narrowing(job, evidence, revision, scenario))
    ]


def profile_files(builder: PageBuilder, settings: Settings, number: int) -> dict[str, File]:
    """The page of a profile job, by its file; nothing for another job. Raises NotFoundError."""
    ledger, record = builder.ledger, builder.ledger.jobs.get(number)
    job = record.job
    if not isinstance(job, ProfileJob):
        return {}
    page = partial(
        request_pages.profile,
        number,
        f"{builder.lab.title(job.scenarios[0])} on {job.testbed}",
        profiles.compared(ledger, settings.trial_logs, record) if record.result else None,
        ledger.commits.label,
    )
    return {f"profile-{number}.html": page}
