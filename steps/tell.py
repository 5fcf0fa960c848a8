"""After a visit: the build's page tells the comparison so far, and where there is more."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from buildbot.process.buildstep import BuildStep
from buildbot.process.results import SUCCESS
from buildbot.util.service import AsyncService
from twisted.internet import defer, threads
from twisted.python import log

from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Level,
    Measurement,
    Night,
    Profiling,
    Question,
)
from netbisect.reports import sofar
from netbisect.reports.sofar import Side, SoFar
from netbisect.steps.lab_step import DECISION_PROPERTY
from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import Lab, load_scenario

QUESTION_PROPERTY = "question"
"""Build property with the number of the question that a visit was ordered for."""
STATISTICS, PICTURE = "ministat", "boots.html"
"""Names of the logs."""
_LATER = 2.0
"""Seconds until the picture is drawn: whoever waits for the end of the visit does not wait for it.
To draw takes longer than to decide what is next."""
_PICTURED = 6
"""Scenarios that are drawn, the leading one first."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a build's page gets."""

    found: tuple[SoFar, ...]
    links: tuple[tuple[str, str], ...]
    """Names and addresses."""
    summary: str


class Tell(BuildStep):
    """Adds ministat's block, a picture and links; whatever goes wrong here, the visit counts."""

    def __init__(self, *, settings: Settings, lab: Lab) -> None:
        self.settings = settings
        self.lab = lab
        super().__init__(
            name="compare", haltOnFailure=False, flunkOnFailure=False, warnOnFailure=False
        )

    async def run(self) -> int:
        """Tells what is known of the question of this visit."""
        number, decision = (
            self.getProperty(QUESTION_PROPERTY),
            self.getProperty(DECISION_PROPERTY),
        )
        if number is None or decision is None:
            self.descriptionDone = ["nothing to compare"]
            return int(SUCCESS)
        try:
            await self._tell(int(number), int(decision))
        except Exception:  # noqa: BLE001 - a picture that cannot be drawn takes nothing back
            log.err(None, f"question {number}: the build's page")
            self.descriptionDone = ["the comparison could not be told"]
        return int(SUCCESS)

    async def _tell(self, number: int, decision: int) -> None:
        revision = str(self.getProperty("revision"))

        def work(ledger: Ledger) -> Told:
            testbed = ledger.decision(decision).testbed
            return told(ledger, self.settings, self.lab, number, (testbed, revision))

        found: Told = await memory(self.settings).do(work)
        await self.addCompleteLog(STATISTICS, sofar.as_text(found.found))
        for name, address in found.links:
            await self.addURL(name, address)
        self.descriptionDone = [found.summary]
        await self._draw_later(number, found)

    async def _draw_later(self, number: int, found: Told) -> None:
        async def draw() -> None:
            pictured = found.found[:_PICTURED]
            page = await threads.deferToThread(sofar.as_page, pictured, found.links)
            await self.addHTMLLog(PICTURE, page)

        later = _Later(draw, f"question {number}: the picture on the build's page")
        await later.setServiceParent(self.master)


class _Later(AsyncService):
    """Does something after the next order; the master forgets it when it stops before."""

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
        """What has begun is finished first."""
        if self._call.active():
            self._call.cancel()
        return self._done.addCallback(lambda _: super(_Later, self).stopService())

    def _begin(self) -> None:
        finished: defer.Deferred[None] = defer.Deferred()
        self._done = finished
        done = defer.ensureDeferred(self._work())
        done.addErrback(lambda failure: log.err(failure, self._what))
        done.addCallback(lambda _: finished.callback(None))
        done.addCallback(lambda _: self.disownServiceParent() if self.parent else None)


def told(
    ledger: Ledger, settings: Settings, lab: Lab, number: int, visited: tuple[str, str]
) -> Told:
    """What a visit's page is to tell.

    Args:
        ledger: Where the boots are.
        settings: For links.
        lab: For the names of scenarios.
        number: Of the question that the visit was for.
        visited: The testbed, and the revision that was booted.

    Raises:
        StoreError: there is no such question.
    """
    testbed, revision = visited
    asked = ledger.question(number)
    question = replace(asked.question, testbed=testbed)
    found = [
        SoFar(
            title=load_scenario(name, lab.scenario_directories).title,
            testbed=testbed,
            sides=_measured(ledger, asked, question, name)
            if isinstance(question, Measurement)
            else _sides(ledger, question, name, revision),
        )
        for name in _scenarios(question)
    ]
    alert = ledger.alert_about(number)
    links = [("dashboard", f"{settings.web.url}plugins/netbisect/dashboard")]
    if alert is not None and alert.announced_at is not None:
        links.insert(0, (f"alert {alert.id}", settings.report_address(alert.id)))
    lead = found[0]
    boots = " + ".join(str(len(side.pps)) for side in lead.sides) or "no"
    return Told(
        found=tuple(found),
        links=tuple(links),
        summary=f"{lead.title}: {boots} boots",
    )


def _scenarios(question: Question) -> list[str]:
    """The leading one first."""
    lead = question.lead if isinstance(question, Comparison | Bisection) else ""
    return sorted(question.scenarios, key=lambda name: name != lead)


def _measured(ledger: Ledger, asked: Asked, question: Measurement, scenario: str) -> list[Side]:
    """Of a measurement, what counts for it: revisions with a patch are on no branch."""
    evidence = OfLedger().evidence(ledger, asked)
    rates: dict[str, list[float]] = {}
    for reading in evidence.readings:
        if scenario in reading.ln_pps:
            rates.setdefault(reading.revision, []).append(math.exp(reading.ln_pps[scenario]))
    return [
        Side(ledger.label(name), tuple(rates[name])) for name in question.revisions if name in rates
    ]


def _sides(ledger: Ledger, question: Question, scenario: str, revision: str) -> list[Side]:
    """The kernels that are held against each other; those without boots are left out."""
    levels = ledger.levels(question.testbed, scenario, question.branch)
    wanted: list[str] = []
    match question:
        case Night():
            before = [one for one in levels.baseline if one.revision != question.revision]
            wanted = [*(one.revision for one in before[-1:]), question.revision]
        case Comparison():
            wanted = [question.good, question.bad]
        case Bisection():
            wanted = [question.good, revision, question.candidates[-1].revision]
        case Profiling():
            wanted = [*question.revisions]
        case Measurement():
            wanted = [*question.revisions]
    by_revision: dict[str, list[Level]] = {}
    for level in levels.whole:
        by_revision.setdefault(level.revision, []).append(level)
    return [
        Side(
            ledger.label(name),
            tuple(math.exp(value) for level in by_revision[name] for value in level.ln_pps),
        )
        for name in dict.fromkeys(wanted)
        if name in by_revision
    ]
