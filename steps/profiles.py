"""Profiles: which are asked for, at which load, what comes before them, where they are kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from netbisect.bisect import stacks, wire
from netbisect.bisect.model import (
    Culprit,
    Finding,
    Profile,
    Profiling,
    Several,
    Unfinished,
)
from netbisect.reports import profiles
from netbisect.reports.case import Compared, Taken
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked, DecisionStage, Outcome
from netbisect.workers.lab import Lab, load_scenario
from netbisect.workers.profile import file_of

PRIORITY_CULPRIT = 50
"""Below nights: nobody waits for it."""
PRIORITY_REQUEST = 150
"""Above nights, below searches: somebody waits, but no alert may wait for it."""
_LOAD = 0.7
"""Share of what the slowest side forwards: enough to see every function, and to bear pmcstat."""


def key_of(question: Profiling) -> str:
    """One question for the same kernels, testbed and scenario, whoever asks."""
    names = ":".join(question.revisions)
    return f"profile:{question.branch}:{question.testbed}:{question.scenarios[0]}:{names}"


def wanted(ledger: Ledger, search: Asked, finding: Finding) -> list[Profiling]:
    """For every culprit of a search: where does its parent spend its time, and where does it?"""
    return [with_load(ledger, one) for one in _of_culprits(search, finding)]


def _of_culprits(search: Asked, finding: Finding | None) -> list[Profiling]:
    culprits = finding.culprits if isinstance(finding, Several) else ()
    if isinstance(finding, Culprit):
        culprits = (finding,)
    where = (search.question.branch, search.question.testbed)
    return [
        Profiling(*where, (one.parent, one.revision), (one.effects[0].scenario,))
        for one in culprits
    ]


def with_load(ledger: Ledger, question: Profiling) -> Profiling:
    """The same at a share of what the slowest of them is known to forward, as far as one is."""
    [scenario] = question.scenarios
    rates = ledger.known_rates(question.testbed, scenario, question.revisions)
    if not rates:
        return question
    return replace(question, pps=float(math.floor(_LOAD * min(rates.values()))))


def must_wait(ledger: Ledger, asked: Asked) -> bool:
    """Whether something with a higher priority is asked of the testbed."""
    return any(
        other.priority > asked.priority
        for other in ledger.open_questions()
        if other.question.testbed == asked.question.testbed
    )


# ------------------------------------------------------------------------------------ the files


def of_search(ledger: Ledger, visits: Path, search: Asked) -> tuple[Compared, ...]:
    """Culprits and parents that a search has named, as far as the question was answered."""
    found = (ledger.question_called(key_of(one)) for one in _of_culprits(search, search.finding))
    return tuple(
        compared(ledger, visits, asked)
        for asked in found
        if asked is not None and asked.finding is not None
    )


def shown_by(ledger: Ledger, asked: Asked) -> list[Alert]:
    """The alerts whose pages show these profiles."""
    question = asked.question
    assert isinstance(question, Profiling)
    alert = ledger.alert_about(asked.parent) if asked.parent is not None else None
    if alert is not None:
        return [alert]
    return [
        one
        for one in ledger.alerts_of_culprit(question.revisions[-1])
        if (one.testbed, one.branch) == (question.testbed, question.branch)
    ]


def compared(ledger: Ledger, visits: Path, asked: Asked) -> Compared:
    """What a question about profiles has brought to light, or why nothing."""
    question, finding = asked.question, asked.finding
    assert isinstance(question, Profiling)
    if isinstance(finding, Unfinished):
        return Compared(question.revisions, (), finding.why)
    found = taken(ledger, visits, asked)
    if len(found) < len(question.revisions):
        return Compared(question.revisions, (), "its files are no longer kept")
    return Compared(question.revisions, tuple(found))


def taken(ledger: Ledger, visits: Path, asked: Asked) -> list[Taken]:
    """The profiles of a question in the order of its revisions; those that are there."""
    question = asked.question
    assert isinstance(question, Profiling)
    folders = {
        one.revision: visits / str(one.id)
        for one in ledger.decisions(asked.id)
        if one.stage is DecisionStage.PROFILE and one.outcome is Outcome.OK
    }
    found = (
        read(folders[revision], question.scenarios[0])
        for revision in question.revisions
        if revision in folders
    )
    return [one for one in found if one is not None]


def read(folder: Path, scenario: str) -> Taken | None:
    """The profile in the folder of a visit; None when it is gone or damaged."""
    try:
        profile = wire.loads_as((folder / file_of(scenario, "json")).read_text(), Profile)
        text = (folder / file_of(scenario, "folded")).read_text(errors="replace")
        return Taken(profile, stacks.read(text))
    except (OSError, wire.WireError, stacks.StacksError):
        return None


# ------------------------------------------------------------------------------------- the page


def write_page(ledger: Ledger, settings: Settings, lab: Lab, asked: Asked) -> None:
    """The page of profiles that somebody has asked for."""
    question = asked.question
    assert isinstance(question, Profiling)
    scenario = load_scenario(question.scenarios[0], lab.scenario_directories)
    text = profiles.page(
        compared(ledger, settings.visits, asked),
        f"Where the time goes: {scenario.title} on {question.testbed}",
        ledger.label,
    )
    put(settings.reports / f"profile-{asked.id}.html", text)


def put(path: Path, text: str) -> None:
    """Writes a page as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_suffix(".new")
    work.write_text(text, encoding="utf-8", errors="replace")
    work.replace(path)
