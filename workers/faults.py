"""How the hands of the lab say that something went wrong; `bisect/faults.py` says what follows."""

from __future__ import annotations

import re
import time
import uuid
from typing import Self

from netbisect.bisect.faults import RULES, Fault
from netbisect.bisect.model import Dud, Reaction, Stage

_NO_ROOM = "No space left on device"
_BAD_BUILDER = re.compile(
    rf"{_NO_ROOM}|disk quota exceeded|[Cc]annot allocate memory|out of memory"
    r"|(?:c?make|sh|env|bash|ninja)[^\n]*: (?:command )?not found|\bError 127\b|Error code 127\b"
    r"|unable to execute command: Killed|Killed signal terminated"
)
"""In the log of a build: the host could not do it, whatever the revision is."""


class LabFault(Exception):  # noqa: N818 - a fault of the lab, in the lab's own word
    """No sample came of it; carries the place, the reaction and what the machine said."""

    def __init__(
        self,
        stage: Stage,
        reaction: Reaction,
        why: str,
        log: str = "",
        fault: Fault | None = None,
    ) -> None:
        super().__init__(why)
        self.stage = stage
        self.reaction = reaction
        self.why = why
        self.log = log
        self.fault = fault

    @classmethod
    def of(cls, fault: Fault, why: str, log: str = "", *, stage: Stage | None = None) -> Self:
        """The fault with the reaction that the table has for it.

        Args:
            fault: Its name.
            why: What was seen, in a sentence.
            log: The end of what the machine said.
            stage: Where, for a fault that the table does not place.
        """
        rule = RULES[fault]
        place = rule.stage or stage
        assert place is not None, f"where did {fault} strike?"
        return cls(place, rule.reaction, why, log, fault)

    @classmethod
    def told_by(cls, dud: Dud, reaction: Reaction) -> Self:
        """The fault that a dud tells of, for whoever made the visit that ended so."""
        return cls(dud.stage, reaction, dud.why, dud.log, Fault(dud.fault) if dud.fault else None)

    @property
    def tries(self) -> int:
        """Of what failed, the first one included."""
        return RULES[self.fault].tries if self.fault else 1

    def dud(
        self, revision: str, started: float, *, testbed: str = "", scenario: str = "", log: str = ""
    ) -> Dud:
        """The fact that it makes of an attempt at a revision; `log` where it has none itself."""
        return Dud(
            id=uuid.uuid4().hex,
            revision=revision,
            stage=self.stage,
            reaction=self.reaction,
            why=self.why,
            at=started,
            seconds=max(0.0, time.time() - started),
            testbed=testbed,
            scenario=scenario,
            log=self.log or log,
            fault=self.fault or "",
        )


class UnreachableError(Exception):
    """A machine does not answer ssh."""

    def __init__(self, machine: str, said: str = "") -> None:
        super().__init__(f"{machine}: {said.strip() or 'no answer'}")
        self.machine = machine


class HostKeyError(Exception):
    """A machine shows another host key than the known one: it is not the machine we know."""


class CommandError(Exception):
    """A command on a machine failed or hung."""

    def __init__(self, machine: str, command: str, status: int | None, said: str) -> None:
        how = "did not end in time" if status is None else f"exited with status {status}"
        super().__init__(f"{machine}: `{command}` {how}: {said.strip() or 'it said nothing'}")
        self.status = status
        self.said = said


def lab_fault(stage: Stage, error: Exception, fault: Fault = Fault.COMMAND) -> LabFault:
    """What an error of a machine means at that stage.

    Whatever was tried: a machine with another host key is not to be trusted, and a full disk is
    no fault of what was to be written.
    """
    log = error.said if isinstance(error, CommandError) else ""
    if isinstance(error, HostKeyError):
        fault = Fault.HOST_KEY
    elif stage is Stage.DEPLOY and _NO_ROOM in log:
        fault = Fault.DISK_FULL
    return LabFault.of(fault, str(error), log, stage=stage)


def traffic_fault(error: UnreachableError, generator: str, receiver: str) -> LabFault:
    """A machine did not answer while a run was prepared: which one, by the addresses of the two."""
    names = {receiver: Fault.RECEIVER_DIES, generator: Fault.GENERATOR_DIES}
    return LabFault.of(names.get(error.machine, Fault.COMMAND), str(error), stage=Stage.BENCH)


def build_fault(said: str, why: str) -> LabFault:
    """Why a build failed: the host, by what was said in its log, or else the revision."""
    found = _BAD_BUILDER.search(said)
    if found is None:
        return LabFault.of(Fault.DOES_NOT_BUILD, why)
    start = said.rfind("\n", 0, found.start()) + 1
    line = said[start:].partition("\n")[0].strip()
    return LabFault.of(Fault.BUILDER, f"the build host cannot build it: {line}")
