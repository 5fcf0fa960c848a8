"""Invariants of a service after faults: the same results, and nothing left behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.chaos import script
from benchmarks.chaos.stage import TESTBED, Stage
from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Failure, Sample
from netbisect.demo.mailbox import read
from netbisect.store.db.records import Action, ActionStage, JobRecord, Outcome

_GOOD = "/boot/kernel/kernel"
_MAIL_SERVER = "the mail server"
_ANSWERS = ("alert:", "outcome:")
_OF_FAULTS = {script.LAB: ("quarantine:", "trouble:")}
"""Keys of alert mails, and of mails caused by faults."""


@dataclass(frozen=True)
class Answer:
    """The results of a service, independent of faults."""

    results: tuple[tuple[str, str], ...]
    """Key and kind of result of each job."""
    alerts: tuple[tuple[str, str], ...]
    """State and culprit."""
    mails: int
    """Alert mails."""


def answer(stage: Stage) -> Answer:
    """The results of a service."""
    results = {
        (one.key.partition(":")[0], serialization.tag_of(one.result))
        for one in stage.run.rows(JobRecord)
    }
    alerts = stage.ledger.alerts.all()
    return Answer(
        tuple(sorted(one for one in results if one[1] != "unfinished")),
        tuple((one.state.value, one.culprit or "") for one in alerts),
        sum(key.startswith(_ANSWERS) for key in stage.posted().values()),
    )


def faults(stage: Stage, expected: Answer | None) -> Iterator[str]:
    """Violations; only the lab is running."""
    hits = stage.hits()
    of_lab = any(fault == script.LAB for _, fault in hits)
    found = answer(stage)
    if expected is not None:
        if found.results != expected.results:
            yield f"the results are {found.results}, without faults {expected.results}"
        if found.alerts != expected.alerts:
            yield f"the alerts are {found.alerts}, without faults {expected.alerts}"
        if found.mails != expected.mails:
            yield f"{found.mails} mails were posted, without faults {expected.mails}"
    yield from _mail(stage, hits)
    decisions = stage.run.rows(Action)
    yield from _boots(stage, decisions, len(hits), of_lab=of_lab)
    yield from _orders(stage, decisions)
    if not of_lab and stage.ledger.quarantines.of_testbed(TESTBED):
        yield f"{TESTBED} was in quarantine"
    if stage.ledger.quarantines.current():
        yield f"{TESTBED} is in quarantine"
    if (kernel := stage.running_kernel()) != _GOOD:
        yield f"the DUT runs {kernel or 'nothing'}"


def _mail(stage: Stage, hits: list[tuple[str, str]]) -> Iterator[str]:
    """Each posted mail is received once; repetitions after a hit are allowed."""
    received = Counter(str(mail["Message-ID"]) for mail in read(stage.service.mails))
    posted = stage.posted()
    for lost in posted.keys() - received.keys():
        yield f"the mail {posted[lost]} was posted and not received"
    for foreign in received.keys() - posted.keys():
        yield f"the mail {foreign} was received and not posted"
    faults = {fault for _, fault in hits}
    known = (*_ANSWERS, *(one for fault in faults for one in _OF_FAULTS.get(fault, ())))
    for key in posted.values():
        if not key.startswith(known):
            yield f"the mail {key} was posted without a reason"
    repeated = sum(number - 1 for number in received.values())
    allowed = sum(_MAIL_SERVER in step or "mail state=sent" in step for step, _ in hits)
    if repeated > allowed:
        yield f"{repeated} mails were received more than once"


def _boots(stage: Stage, decisions: list[Action], hits: int, *, of_lab: bool) -> Iterator[str]:
    """Compares the boots of the ledger with those of the machines."""
    facts = [fact for one in decisions for fact in stage.ledger.facts.of_action(one.id)]
    recorded = Counter(fact.id for fact in facts if isinstance(fact, Boot))
    lines = [json.loads(line) for line in (stage.place / "truth").open()]
    made = Counter(line["order"] for line in lines if line["order"])
    for boot, number in recorded.items():
        if number > 1 or made[boot] != 1:
            yield f"boot {boot} is in the ledger {number} times, and happened {made[boot]} times"
    unknown = len(made.keys() - recorded.keys())
    if unknown > hits:
        yield f"{unknown} boots are not in the ledger, after {hits} hits"
    samples = Counter(fact.id for fact in facts if isinstance(fact, Sample))
    if any(number > 1 for number in samples.values()):
        yield "a sample is in the ledger more than once"
    for one in decisions:
        if one.stage is ActionStage.KERNEL or one.outcome is not Outcome.OK:
            continue
        if not any(isinstance(fact, Boot) for fact in stage.ledger.facts.of_action(one.id)):
            yield f"{one.external_id} ended with success, and has no boot"
    failures = [fact for fact in facts if isinstance(fact, Failure)]
    if failures and not of_lab:
        yield f"{len(failures)} trials had no result: {failures[0].why}"


def _orders(stage: Stage, decisions: list[Action]) -> Iterator[str]:
    names = Counter(
        str(name) for (name,) in stage.run.buildbot("SELECT external_idstring FROM buildsets")
    )
    for name, number in names.items():
        if number > 1 and not name.startswith("nb:recover"):
            yield f"the buildset {name} was submitted {number} times"
    for one in decisions:
        if one.outcome is None:
            yield f"{one.external_id} has no outcome"
    [(running,)] = stage.run.buildbot("SELECT count(*) FROM builds WHERE complete_at IS NULL")
    if running:
        yield f"{running} builds have no end"
