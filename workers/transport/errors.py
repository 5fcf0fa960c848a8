"""Exceptions of lab operations; `bisect/model/faults.py` defines the consequences."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator

from netbisect.bisect.model.entities import Failure, Reaction, Stage
from netbisect.bisect.model.faults import RULES, Fault
from netbisect.workers.config.testbed import Testbed

_NO_ROOM = "No space left on device"
_READ_ONLY = "Read-only file system"
_BAD_BUILDER = re.compile(
    rf"{_NO_ROOM}|disk quota exceeded|[Cc]annot allocate memory|out of memory"
    r"|(?:c?make|sh|env|bash|ninja)[^\n]*: (?:command )?not found|\bError 127\b|Error code 127\b"
    r"|unable to execute command: (?:Killed|Terminated)|(?:Killed|Terminated) signal terminated"
    r"|\*\*\* (?:\[[^\]\n]*\] )?(?:Killed|Terminated|Hangup|Interrupt|Signal (?:1|2|9|15)"
    r"|Error (?:code )?1(?:30|37|43))\b"
)
"""Patterns in build logs that point to the host, not the revision."""


class LabFault(Exception):  # noqa: N818 - a fault of the lab, in the lab's own word
    """A failed operation, with stage, reaction and log."""

    def __init__(
        self,
        fault: Fault,
        why: str,
        log: str = "",
        *,
        stage: Stage | None = None,
        reaction: Reaction | None = None,
    ) -> None:
        """`stage` is needed if the fault's rule has none; `reaction` replaces that of the rule."""
        super().__init__(why)
        rule = RULES[fault]
        place = rule.stage or stage
        assert place is not None, f"where did {fault} strike?"
        self.fault = fault
        self.why = why
        self.log = log
        self.stage = place
        self.reaction = reaction or rule.reaction
        self.tries = rule.tries
        """Attempts, including the first one."""

    def failure(
        self, revision: str, started: float, *, testbed: str = "", scenario: str = "", log: str = ""
    ) -> Failure:
        """The failure as a fact; `log` is used if the fault has none."""
        return Failure(
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
            fault=self.fault,
        )


class BusyError(Exception):
    """Another command has the testbed; the message names it."""


class NoiseError(Exception):
    """Noise could not be measured; the message is the reason."""


class MachineError(Exception):
    """A machine failed: it does not answer, or not as expected."""

    def __init__(self, text: str, machine: str = "") -> None:
        """`machine` is its ssh address; "" if unknown."""
        super().__init__(text)
        self.machine = machine


class UnreachableError(MachineError):
    """A machine did not answer."""

    def __init__(self, machine: str, output: str = "") -> None:
        super().__init__(f"{machine}: {output.strip() or 'no answer'}", machine)


class HostKeyError(MachineError):
    """A machine has an unknown host key."""


class CommandError(MachineError):
    """A command on a machine failed or timed out."""

    def __init__(self, machine: str, command: str, status: int | None, output: str) -> None:
        how = "did not end in time" if status is None else f"exited with status {status}"
        super().__init__(f"{machine}: `{command}` {how}: {output.strip() or 'no output'}", machine)
        self.status = status
        self.output = output


def lab_fault(stage: Stage, error: MachineError, fault: Fault = Fault.COMMAND) -> LabFault:
    """The fault of an exception at a stage.

    An unknown host key, and a disk that cannot be written, take precedence over `fault`.
    """
    log = error.output if isinstance(error, CommandError) else ""
    if isinstance(error, HostKeyError):
        fault = Fault.HOST_KEY
    elif stage is not Stage.BENCH and _NO_ROOM in log:
        fault = Fault.DISK_FULL
    elif stage is not Stage.BENCH and _READ_ONLY in log:
        fault = Fault.UNFIT
    return LabFault(fault, str(error), log, stage=stage)


def bench_fault(error: MachineError, testbed: Testbed) -> LabFault:
    """The fault of an error during a run; one of a traffic host is not the revision's.

    An error of a DUT that also generates or receives may be that of its kernel.
    """
    names = {host.address: Fault.RECEIVER_DIES for host in testbed.receivers}
    names |= {host.address: Fault.GENERATOR_DIES for host in testbed.generators}
    names |= {testbed.dut.address: Fault.COMMAND}
    return lab_fault(Stage.BENCH, error, names.get(error.machine, Fault.COMMAND))


@contextlib.contextmanager
def bench_faults(testbed: Testbed) -> Iterator[None]:
    """Runs the block; errors of machines and ports are faults of a run.

    Raises:
        LabFault: a machine does not answer, a command failed, or a port was not found.
    """
    try:
        yield
    except MachineError as error:
        raise bench_fault(error, testbed) from error


def build_fault(output: str, why: str) -> LabFault:
    """The fault of a failed build: the host's if its log shows that, else the revision's."""
    found = _BAD_BUILDER.search(output)
    if found is None:
        return LabFault(Fault.DOES_NOT_BUILD, why)
    start = output.rfind("\n", 0, found.start()) + 1
    line = output[start:].partition("\n")[0].strip()
    return LabFault(Fault.BUILDER, f"the build host cannot build it: {line}")
