"""One command of netbisect-lab as a Buildbot step: its lines become facts as they come."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import PurePosixPath
from typing import Any

from buildbot.process.buildstep import BuildStep, ShellMixin
from buildbot.process.logobserver import LineConsumerLogObserver
from buildbot.process.results import CANCELLED, FAILURE, RETRY, SUCCESS
from twisted.internet import defer
from twisted.python import log

from netbisect.bisect import wire
from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Profile, Sample
from netbisect.steps.kernels import as_ordered
from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.workers.cli import EXIT_DUD, EXIT_LAB, EXIT_USAGE
from netbisect.workers.start import SOCKET

EXIT_PROPERTY = "lab_exit"
"""Build property with the exit status of netbisect-lab (docs/lab.md has the table)."""
KERNEL_PROPERTY = "kernel"
"""Build property with the key of the kernel that was built."""
DECISION_PROPERTY = "decision"
"""Build property with the number of the decision that ordered this build."""
PROFILE_PROPERTY = "profile_pps"
"""Build property with the load of a profile; a visit without it is a trial."""
RUNS_PROPERTY = "runs"
"""Build property with the runs of each scenario that a visit makes."""

AVOIDED_PROPERTY = "avoided"
"""Build property with the workers that could not build this kernel."""
LOOK_PROPERTY = "look"
"""Build property: whether a testbed that was brought back is looked at for its release."""

_VISITS = ("trial", "profile", "recover")
"""What is done often and takes little besides waiting."""
_SOCKET = "netbisect-lab.socket"
_LAST_WORDS = "netbisect-lab: "
"""With which netbisect-lab says on standard error why it ends."""
_MEANINGS = {
    EXIT_USAGE: "the lab file or the command line is wrong",
    EXIT_DUD: "this revision cannot be measured",
    EXIT_LAB: "the lab needs its owner",
}


class LabStep(ShellMixin, BuildStep):
    """Runs `netbisect-lab ... VERB ARGUMENTS` and records every fact it prints."""

    renderables = ("arguments",)

    def __init__(
        self,
        verb: str,
        arguments: Sequence[Any],
        *,
        settings: Settings,
        **kwargs: Any,
    ) -> None:
        self.verb = verb
        self.arguments = arguments
        self.settings = settings
        self.lab_command = [*settings.workers.command, "--lab", str(settings.lab), verb]
        self._pending: list[defer.Deferred[None]] = []
        self._said: list[str] = []
        self._complaint = ""
        kwargs.setdefault("name", verb)
        kwargs.setdefault("haltOnFailure", True)
        kwargs.setdefault("logEnviron", False)
        super().__init__(**self.setupShellMixin(kwargs, prohibitArgs=["command"]))

    async def run(self) -> int:
        """Runs it; a failure of the revision is a result, not an exception of Buildbot's."""
        self.addLogObserver("stdio", LineConsumerLogObserver(self._consume))
        command = await self.makeRemoteShellCommand(
            command=[*self.lab_command, *(str(part) for part in self.arguments)],
            env={**(self.env or {}), **self._socket()},
        )
        await self.runCommand(command)
        recorded = await defer.DeferredList(self._pending, consumeErrors=True)
        for good, failure in recorded:
            if not good:
                # What was measured is in the log of this step; the visit will be made again.
                log.err(failure, f"{self.verb}: a fact could not be recorded")
                self.descriptionDone = ["a fact could not be recorded"]
                return int(FAILURE)
        if self.stopped:
            return int(CANCELLED)
        if command.results() == RETRY:
            return int(RETRY)
        self.setProperty(EXIT_PROPERTY, command.rc, "netbisect-lab")
        meaning = _MEANINGS.get(command.rc, f"exit status {command.rc}")
        if self._complaint:
            meaning = f"{meaning}: {self._complaint}"
        said = "; ".join(self._said) or meaning
        self.descriptionDone = [said if command.rc or self._said else f"{self.verb} done"]
        return int(SUCCESS if command.rc == 0 else FAILURE)

    def _socket(self) -> dict[str, str]:
        """Where visits are handed over to: in the worker's own folder, where its builds are."""
        build = self.getProperty("builddir")
        if self.verb not in _VISITS or not build:
            return {}
        return {SOCKET: str(PurePosixPath(build).parent / _SOCKET)}

    def _consume(self) -> Generator[None, tuple[str, str], None]:
        while True:
            stream, line = yield
            if stream == "o" and line.startswith("{"):
                self._take(line)
            elif stream == "e" and line.startswith(_LAST_WORDS):
                self._complaint = line.removeprefix(_LAST_WORDS)

    def _take(self, line: str) -> None:
        try:
            fact = wire.loads(line)
        except wire.WireError as error:
            self._pending.append(defer.fail(error))
            return
        words = _words(fact)
        if words:
            self._said.append(words)
        if isinstance(fact, Profile):
            return  # no fact of a series: what is kept of it are its files
        if isinstance(fact, Kernel):
            self.setProperty(KERNEL_PROPERTY, fact.key, "netbisect-lab")
        decision = self.getProperty(DECISION_PROPERTY)
        self._pending.append(
            defer.ensureDeferred(
                memory(self.settings).do(
                    lambda ledger: ledger.record(as_ordered(ledger, fact, decision), decision)
                )
            )
        )


def _words(fact: Fact | Profile) -> str:
    """A few words for the build's page."""
    match fact:
        case Kernel():
            return f"built {fact.version}"
        case Boot():
            return f"up in {fact.seconds:.0f} s"
        case Sample():
            return f"{fact.scenario} {fact.pps / 1e6:.3f} Mpps"
        case Dud():
            return f"{fact.stage}: {fact.why}"
        case Profile():
            return fact.problem or f"{fact.scenario}: {fact.samples:,} samples"
    return ""
