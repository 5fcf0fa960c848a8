"""What can go wrong between a revision and its sample, and what it asks for."""

from __future__ import annotations

import time
import uuid

from netbisect.bisect.model import Dud, Reaction, Stage


class LabFault(Exception):  # noqa: N818 - a fault of the lab, in the lab's own word
    """No sample came of it; carries the place, the reaction and what the machine said."""

    def __init__(self, stage: Stage, reaction: Reaction, why: str, log: str = "") -> None:
        super().__init__(why)
        self.stage = stage
        self.reaction = reaction
        self.why = why
        self.log = log

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
            seconds=time.time() - started,
            testbed=testbed,
            scenario=scenario,
            log=self.log or log,
        )


class UnreachableError(Exception):
    """A machine does not answer ssh."""


class HostKeyError(Exception):
    """A machine shows another host key than the known one: it is not the machine we know."""


class CommandError(Exception):
    """A command on a machine failed or hung."""

    def __init__(self, machine: str, command: str, status: int | None, said: str) -> None:
        how = "did not end in time" if status is None else f"exited with status {status}"
        super().__init__(f"{machine}: `{command}` {how}: {said.strip() or 'it said nothing'}")
        self.status = status
        self.said = said


def lab_fault(stage: Stage, error: Exception, reaction: Reaction = Reaction.RETRY) -> LabFault:
    """What an error of a machine means at that stage.

    Whatever was tried: a machine with another host key is not to be trusted.
    """
    if isinstance(error, HostKeyError):
        reaction = Reaction.QUARANTINE
    log = error.said if isinstance(error, CommandError) else ""
    return LabFault(stage, reaction, str(error), log)
