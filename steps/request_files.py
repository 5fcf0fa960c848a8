"""What is kept of an answer as files: a page, a document, and folders as netbenches has them."""

from __future__ import annotations

import math
from pathlib import Path

from netbisect.bisect import measurement
from netbisect.bisect.model import Measured, Measurement
from netbisect.reports import netbenches, schema, words
from netbisect.reports import requests as telling
from netbisect.reports.ministat import POINTS_MIN
from netbisect.reports.netbenches import Scenario, Set, Study
from netbisect.steps import request_answer as answers
from netbisect.steps.kernels import Kernels
from netbisect.steps.profiles import put
from netbisect.steps.request_follow import follow
from netbisect.steps.settings import Settings
from netbisect.store.history import History
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Request, RequestState
from netbisect.workers.lab import Lab

DOCUMENT = "request.json"


def folder_of(settings: Settings, request: int) -> Path:
    """Where the files of a request are."""
    return settings.reports / f"request-{request}"


def page_of(settings: Settings, request: int) -> Path:
    """Where its page is."""
    return settings.reports / f"request-{request}.html"


def write(ledger: Ledger, settings: Settings, lab: Lab, history: History, request: Request) -> None:
    """Writes all files of a request that is over, each as a whole or not at all.

    Raises:
        OSError: there is no room, or the folder cannot be written.
    """
    parts = ledger.parts_of(request.id)
    folder, files = folder_of(settings, request.id), [DOCUMENT]
    kernels = Kernels(lab, history)
    for one in parts:
        if isinstance(one.question, Measurement) and isinstance(one.finding, Measured):
            study = _study(ledger, lab, kernels, request, one, one.question)
            if study is not None:
                place = folder / answers.folder_name(one)
                place.mkdir(parents=True, exist_ok=True)
                for name, content in netbenches.files(study).items():
                    work = place / f".new-{name}"
                    work.write_bytes(content)
                    work.replace(place / name)
                    files.append(f"{place.name}/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    put(
        folder / DOCUMENT, schema.as_text(follow(ledger, settings, lab, history, request.id)) + "\n"
    )
    answer = answers.answer(ledger, settings, lab, request, parts)
    deeds = ledger.audit(request=request.id)
    log = [(words.moment(one.at), f"{one.what} by {one.who}") for one in deeds]
    put(
        page_of(settings, request.id),
        telling.page(answer, log, [f"{folder.name}/{one}" for one in files]),
    )


def write_missing(ledger: Ledger, settings: Settings, lab: Lab, history: History) -> None:
    """After a restart: the files that a kill has prevented, and those older than the answer."""
    for request in ledger.requests():
        if request.state is RequestState.OPEN or request.closed_at is None:
            continue
        page = page_of(settings, request.id)
        if not page.is_file() or page.stat().st_mtime < request.closed_at:
            write(ledger, settings, lab, history, request)


def _study(
    ledger: Ledger,
    lab: Lab,
    kernels: Kernels,
    request: Request,
    asked: Asked,
    question: Measurement,
) -> Study | None:
    """A measurement as netbenches tells it; None where there are too few values for ministat."""
    evidence = kernels.evidence(ledger, asked)
    scenarios = []
    for name in question.scenarios:
        sets = []
        for revision in question.revisions:
            rates = [
                math.exp(one.ln_pps[name])
                for one in measurement.readings_of(question, evidence, revision)
                if name in one.ln_pps
            ]
            if len(rates) >= POINTS_MIN:
                sets.append(Set(ledger.label(revision), rates))
        if len(sets) > 1:
            scenarios.append(Scenario(answers.title_of(lab, name), sets))
    if not scenarios:
        return None
    first, *others = (ledger.label(one) for one in question.revisions)
    run = f", run {asked.run}" if request.wish["runs"] > 1 else ""
    about = lab.testbed(question.testbed).description
    return Study(
        f"{words.listing(others)} compared with {first} on {question.testbed}{run}",
        scenarios,
        [f"testbed {question.testbed}{f': {about}' if about else ''}"],
        remarks=answers.remarks_of(ledger, lab, asked),
    )
