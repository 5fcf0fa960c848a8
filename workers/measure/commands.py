"""Runs the commands of a scenario and reads what `measure` prints."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.custom_measurement import HostCommand, MetricTable
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.transport.errors import CommandError, LabFault
from netbisect.workers.transport.limited_output import write_log
from netbisect.workers.transport.ssh import Machine

_NOT_FOUND = 127
_ALLOWANCE = 10
"""Seconds for the command to end after its signal."""


class MeasureError(ValueError):
    """`measure` failed, or what it printed is no measurement; one sentence."""


@dataclass(slots=True)
class ScenarioCommands:
    """The commands of one run of a scenario."""

    scenario: Scenario
    hosts: Mapping[str, Machine]
    """By part: dut, generator, receiver."""
    variables: dict[str, object]
    seconds: float
    """Duration of the run."""

    def prepare(self) -> None:
        """Cleans up after an interrupted run, and prepares the machines.

        Raises:
            UnreachableError, HostKeyError: a host does not answer.
            LabFault: a command failed.
        """
        self.clean_up()
        for command in self.scenario.prepare:
            try:
                self._run(command, "--foreground")
            except CommandError as error:
                raise failed_preparation(command, error, self.scenario.name) from error

    def clean_up(self) -> None:
        """Runs `clean_up`; failures are ignored.

        Raises:
            UnreachableError, HostKeyError: a host does not answer.
        """
        for command in self.scenario.clean_up:
            with contextlib.suppress(CommandError):
                self._run(command)

    def measure(self, results: Mapping[str, object], log: Path) -> dict[str, float]:
        """Runs `measure`; returns its numbers by metric.

        Args:
            results: Additional variables from the traffic, by name.
            log: For its output, with the suffix .measure.json.

        Raises:
            UnreachableError, HostKeyError: a host does not answer.
            MeasureError: it failed, or printed no measurement.
        """
        command = self.scenario.measure
        if command is None:
            return {}
        self.variables |= results
        try:
            output = self._run(command, seconds=self.seconds)
        except CommandError as error:
            raise MeasureError(f"measure on the {command.on} failed: {_reason(error)}") from error
        write_log(log.with_name(f"{log.name}.measure.json"), output)
        return numbers(output, self.scenario.metrics) if self.scenario.metrics else {}

    def _run(self, command: HostCommand, *options: str, seconds: float = 0.0) -> str:
        """Runs a script on its host; returns its standard output. Raises what `Machine.run` raises.

        The script is read from standard input, because the login shell of root may be csh(1), and
        as a whole, because its own commands read /dev/null. `seconds` are added to its time limit.
        `options` are those of timeout(1), which without `--foreground` waits on FreeBSD for all
        programs that the script leaves in the background.
        """
        machine = self.hosts[command.on]
        variables = self.variables.items()
        assignments = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables)
        for folder in {path.rpartition("/")[0] for path in machine.programs.values()}:
            assignments += f"PATH={shlex.quote(folder)}:$PATH\n"
        script = f"{assignments}main() (\n{command.run}\n)\nmain </dev/null\nstatus=$?\n"
        # 255 is the status of ssh(1) without a connection, and of kenv(1) without the variable.
        script += "[ $status -ne 255 ] || status=1\nexit $status\n"
        limit = math.ceil(command.timeout + seconds)
        return machine.run(
            ["timeout", *options, "-s", "INT", str(limit), "sh"],
            stdin=script.encode(),
            timeout=limit + _ALLOWANCE,
        )


def _reason(error: CommandError) -> str:
    """The last line of a failed script, or how it ended."""
    lines = error.output.strip().splitlines()
    how = "it did not end in time" if error.status in (None, 124) else f"status {error.status}"
    return lines[-1].strip() if lines else how


def failed_preparation(command: HostCommand, error: CommandError, scenario: str) -> LabFault:
    """The fault of a failed `prepare`: the kernel's if the DUT refused it, else the lab's."""
    why = f"{scenario}: prepare on the {command.on} failed: {_reason(error)}"
    if command.on == "dut" and error.status not in (None, _NOT_FOUND):
        return LabFault(Fault.SCENARIO, why, error.output)
    return LabFault(Fault.COMMAND, why, error.output, stage=Stage.BENCH)


def numbers(output: str, metrics: Iterable[MetricTable]) -> dict[str, float]:
    """The numbers of the declared metrics, by name, from a JSON object.

    Raises:
        MeasureError: a number is missing, in another unit or out of bounds, or not declared.
    """
    try:
        data = json.loads(output)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise MeasureError(f"measure printed {_short(output)}; expected a JSON object")
    declared = list(metrics)
    if not any(one.path for one in declared):
        names = [one.name for one in declared]
        for name in data:
            if name not in names:
                raise MeasureError(
                    f"measure printed the metric {name!r}, which the scenario does not declare; "
                    f"expected {', '.join(names)}"
                )
    elif data.get("error"):  # as iperf3 reports it
        raise MeasureError(f"measure failed: {data['error']}")
    return {one.name: _number(one, data) for one in declared}


def _number(metric: MetricTable, data: Any) -> float:  # noqa: ANN401 - JSON
    value = data
    for key in (metric.path or metric.name).split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict):
        unit = value.get("unit", metric.unit)
        if unit != metric.unit:
            raise MeasureError(
                f"measure printed {metric.name} in {unit!r}; the scenario declares {metric.unit!r}"
            )
        value = value.get("value")
    number = 0.0
    with contextlib.suppress(OverflowError):  # an integer of more than 308 digits
        number = float(value) if type(value) in (int, float) else 0.0
    if not 0 < number < math.inf:
        raise MeasureError(
            f"measure printed {value!r:.40} for {metric.name}; expected a number above 0"
        )
    if not metric.least <= number <= metric.most:
        raise MeasureError(
            f"{metric.name} is {number:g} {metric.unit}, expected {metric.least:g} to "
            f"{metric.most:g}"
        )
    return number


def _short(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return repr(line[:60]) if line else "nothing"
