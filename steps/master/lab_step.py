"""A command of netbisect-lab as a Buildbot step, which records the facts it prints."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any

from buildbot.process.buildstep import BuildStep, ShellMixin
from buildbot.process.logobserver import LineConsumerLogObserver
from buildbot.process.results import CANCELLED, FAILURE, RETRY, SUCCESS
from twisted.internet import defer
from twisted.python import log

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Fact, Failure, Kernel, Profile, Sample
from netbisect.reports.render import words
from netbisect.steps.policy.kernels import with_patch_of_decision
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import DatabaseUnavailableError
from netbisect.store.ledger import Ledger
from netbisect.workers.cli.output import EXIT_LAB, EXIT_UNMEASURABLE, EXIT_USAGE, LINE_LENGTH

EXIT_PROPERTY = "lab_exit"
"""Build property with the exit status of netbisect-lab (docs/man/netbisect-lab.1 lists them)."""
KERNEL_PROPERTY = "kernel"
"""Build property with the key of the kernel that was built."""
DECISION_PROPERTY = "decision"
"""Build property with the number of the decision of this build."""
PROFILE_PROPERTY = "profile_pps"
"""Build property with the load of a profile; without it the build is a trial."""
RUNS_PROPERTY = "runs"
"""Build property with the number of runs per scenario."""
AVOIDED_PROPERTY = "avoided"
"""Build property with the workers that failed to build this kernel."""
LOOK_PROPERTY = "look"
"""Build property: whether a recovered testbed is checked for its release."""

_LINE_LENGTH = "4000"
"""Maximum characters per line: Buildbot's worker truncates lines of 4,096 characters."""
_ERROR_PREFIX = "netbisect-lab: "
"""Prefix of the error message of netbisect-lab on standard error."""
_MEANINGS = {
    EXIT_USAGE: "the lab file or the command line is wrong",
    EXIT_UNMEASURABLE: "this revision cannot be measured",
    EXIT_LAB: "the lab needs repair",
}


class LabStep(ShellMixin, BuildStep):
    """Runs `netbisect-lab ... VERB ARGUMENTS`, and records every fact it prints."""

    renderables = ("arguments",)

    def __init__(self, verb: str, arguments: Any, limit: Any, *, settings: Settings) -> None:
        """The arguments and the limit in seconds, beyond those of the command, may be renderers."""
        self.verb = verb
        self.arguments = arguments
        self.settings = settings
        self.lab_command = [*settings.workers.command, "--lab", str(settings.lab), verb]
        self._pending: list[defer.Deferred[Any]] = []
        self._turn = defer.DeferredLock()
        self._until = math.inf
        """When facts are given up, by the monotonic clock."""
        self._summaries: list[str] = []
        self._error = ""
        options = {
            "name": verb,
            "haltOnFailure": True,
            "logEnviron": False,
            "env": {LINE_LENGTH: _LINE_LENGTH},
            "timeout": None,  # a build prints nothing for hours: its output is in its log
            "maxTime": limit,
            "sigtermTime": 30,
        }
        super().__init__(**self.setupShellMixin(options))

    async def run(self) -> int:
        """Runs the command; a failed trial is a result, not an exception."""
        self.addLogObserver("stdio", LineConsumerLogObserver(self._consume))
        command = await self.makeRemoteShellCommand(
            command=[*self.lab_command, *(str(part) for part in self.arguments)],
        )
        await self.runCommand(command)
        self._until = time.monotonic() + self.settings.stall_seconds / 2
        recorded = await defer.DeferredList(self._pending, consumeErrors=True)
        for good, failure in recorded:
            if not good:
                # The facts are in the log of this step; the trial is repeated.
                log.err(failure, f"{self.verb}: a fact could not be recorded")
                why = str(failure.value).partition("\n")[0]
                self.descriptionDone = [f"a fact could not be recorded: {why}"]
                return int(FAILURE)
        if self.stopped:
            return int(CANCELLED)
        if command.results() == RETRY:
            return int(RETRY)
        self.setProperty(EXIT_PROPERTY, command.rc, "netbisect-lab")
        meaning = _MEANINGS.get(command.rc, f"exit status {command.rc}")
        if self._error:
            meaning = f"{meaning}: {self._error}"
        if command.rc or self._summaries:
            self.descriptionDone = ["; ".join(self._summaries) or meaning]
        else:
            self.descriptionDone = [f"{self.verb} done"]
        return int(SUCCESS if command.rc == 0 else FAILURE)

    def _consume(self) -> Generator[None, tuple[str, str], None]:
        begun = ""
        while True:
            stream, line = yield
            if stream == "o" and (begun or line.startswith("{")):
                begun += line.removesuffix("\\")
                if not line.endswith("\\"):
                    self._take(begun)
                    begun = ""
            elif stream == "e" and line.startswith(_ERROR_PREFIX):
                self._error = line.removeprefix(_ERROR_PREFIX)

    def _take(self, line: str) -> None:
        try:
            fact = serialization.loads(line)
        except serialization.WireError as error:
            self._pending.append(defer.fail(error))
            return
        if summary := _summary(fact):
            self._summaries.append(summary)
        if isinstance(fact, Profile):
            return  # kept as files
        if isinstance(fact, Kernel):
            self.setProperty(KERNEL_PROPERTY, fact.key, "netbisect-lab")
        self._pending.append(defer.ensureDeferred(self._record(fact)))

    async def _record(self, fact: Fact) -> None:
        """Records a fact after those before it, again while the database is away or locked.

        Raises StoreError if the ledger refuses it, or half of the stall limit after the command.
        """
        decision = self.getProperty(DECISION_PROPERTY)

        def work(ledger: Ledger) -> None:
            ledger.facts.record(with_patch_of_decision(ledger, fact, decision), decision)

        async with self._turn:
            while time.monotonic() < self._until:
                try:
                    await database_thread(self.settings).do(work)
                except DatabaseUnavailableError as error:
                    log.msg(f"{self.verb}: a fact will be recorded later: {error}")
                else:
                    return
        raise DatabaseUnavailableError("the database was unavailable or locked for too long")


def _summary(fact: Fact | Profile) -> str:
    """Summary of a fact for the build's page."""
    match fact:
        case Kernel():
            return f"built {fact.version}"
        case Boot():
            return f"up in {fact.seconds:.0f} s"
        case Sample():
            return f"{fact.scenario} {words.number(fact.pps, fact.scenario)}"
        case Failure():
            return f"{fact.stage}: {fact.why}"
        case Profile():
            return fact.problem or f"{fact.scenario}: {fact.samples:,} samples"
    return ""
