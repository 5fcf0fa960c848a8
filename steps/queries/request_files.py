"""Files of an answer: a document, and folders in the form of netbenches."""

from __future__ import annotations

from pathlib import Path

from netbisect.bisect.model.evidence import Evidence
from netbisect.bisect.model.jobs import MeasureJob
from netbisect.bisect.model.metric import split_settings
from netbisect.bisect.model.results import MeasureResult
from netbisect.reports.documents import json_schema
from netbisect.reports.documents.netbenches_study import Study
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.render import words
from netbisect.reports.render.ministat import POINTS_MIN
from netbisect.steps.queries import request_answer
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.queries.progress import measured_sides
from netbisect.steps.queries.request_answer import Names
from netbisect.steps.queries.request_status import RequestQueries
from netbisect.steps.service.numeric import measurement, netbenches
from netbisect.steps.service.settings import Settings
from netbisect.store.db.records import JobRecord, Request, RequestState

DOCUMENT = "request.json"


def folder_of(settings: Settings, request: int) -> Path:
    """Folder of the files of a request."""
    return settings.reports / f"request-{request}"


def addresses(settings: Settings, request: int) -> list[str]:
    """Addresses of all its files, relative to the pages."""
    folder = folder_of(settings, request)
    found = sorted(folder.glob(DOCUMENT)) + sorted(folder.glob("*/[!.]*"))
    return [f"reports/{one.relative_to(settings.reports).as_posix()}" for one in found]


def write(queries: RequestQueries, request: Request) -> None:
    """Writes all files of an ended request, each atomically.

    Raises OSError if there is no room, or the folder cannot be written.
    """
    folder = folder_of(queries.settings, request.id)
    for one in queries.ledger.requests.jobs(request.id):
        if isinstance(one.job, MeasureJob) and isinstance(one.result, MeasureResult):
            study = _study(queries, request, one, one.job)
            if study is not None:
                place = folder / request_answer.folder_name(one)
                place.mkdir(parents=True, exist_ok=True)
                for name, content in netbenches.files(study).items():
                    _put(place / name, content)
    folder.mkdir(parents=True, exist_ok=True)
    document = json_schema.as_text(queries.document(request.id))
    _put(folder / DOCUMENT, f"{document}\n".encode("utf-8", "replace"))


def _put(path: Path, content: bytes) -> None:
    work = path.with_name(f".new-{path.name}")
    work.write_bytes(content)
    work.replace(path)


def write_missing(queries: RequestQueries) -> None:
    """Writes files that are missing or older than the answer, after a restart."""
    for request in queries.ledger.requests.all():
        if request.state is RequestState.OPEN or request.closed_at is None:
            continue
        last = folder_of(queries.settings, request.id) / DOCUMENT
        if not last.is_file() or last.stat().st_mtime < request.closed_at:
            write(queries, request)


def _by_setting(names: Names, job: MeasureJob, evidence: Evidence) -> list[ComparedScenario]:
    """The settings of each scenario side by side, by revision."""
    groups: dict[tuple[str, str], list[Set]] = {}
    for name in job.scenarios:
        plain, settings = split_settings(name)
        for revision, numbers in measurement.counted_numbers(job, evidence, name).items():
            if len(numbers) >= POINTS_MIN:
                sets = groups.setdefault((plain, revision), [])
                sets.append(Set(settings or "without", numbers))
    return [
        ComparedScenario(
            f"settings of {names.title(plain)} at {names.label(revision)}",
            sets,
            series=plain,
        )
        for (plain, revision), sets in groups.items()
        if len(sets) > 1
    ]


def _study(
    queries: RequestQueries, request: Request, record: JobRecord, job: MeasureJob
) -> Study | None:
    """A measurement in the form of netbenches; None with too few values for ministat."""
    names, evidence = queries.names, queries.evidence(queries.ledger, record)
    scenarios = []
    for name in job.scenarios:
        measured = measured_sides(queries.ledger, job, evidence, name)
        sets = [one for one in measured if len(one.pps) >= POINTS_MIN]
        if len(sets) > 1:
            scenarios.append(ComparedScenario(names.title(name), sets, series=name))
    scenarios += _by_setting(names, job, evidence)
    if not scenarios:
        return None
    first, *others = map(names.label, job.revisions)
    what = f"{words.listing(others)} compared with {first}" if others else f"Settings of {first}"
    run = f", run {record.run}" if request.parameters["runs"] > 1 else ""
    about = LabContext(queries.lab).hardware(job.testbed)
    return Study(
        f"{what} on {job.testbed}{run}",
        scenarios,
        [f"testbed {job.testbed}{f': {about}' if about else ''}"],
        remarks=request_answer.remarks_of(names, record),
    )
