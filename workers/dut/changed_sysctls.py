"""Restores the sysctls of a router that scenarios of a boot have changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from netbisect.workers.config.scenario import Scenario
from netbisect.workers.dut.freebsd_tools import parse_sysctls
from netbisect.workers.transport.ssh import Machine


class ChangedSysctls:
    """Original values of the sysctls of scenarios. Raises what `Machine.ask` raises."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._original: dict[str, str] = {}

    def restoring(self, scenario: Scenario) -> Scenario:
        """The scenario, with the original values of sysctls that only earlier ones set."""
        own = {**scenario.sysctls, **scenario.optional}
        values = self._values({**own, **self._original})
        self._original = {name: values[name] for name in own if name in values} | self._original
        earlier = {name: value for name, value in self._changed(values).items() if name not in own}
        return replace(scenario, sysctls={**earlier, **scenario.sysctls})

    def restore(self) -> None:
        """Restores all sysctls; a value that the kernel refuses remains until the next boot."""
        if changed := self._changed(self._values(self._original)):
            pairs = (f"{name}={value}" for name, value in changed.items())
            self._machine.ask(*(["sysctl", "-in", pair] for pair in pairs))

    def _values(self, names: Iterable[str]) -> dict[str, str]:
        names = list(names)
        return parse_sysctls(self._machine.ask(["sysctl", "-ie", *names])[0]) if names else {}

    def _changed(self, values: dict[str, str]) -> dict[str, str]:
        """Original values of changed sysctls, without those that the kernel no longer has."""
        return {
            name: value
            for name, value in self._original.items()
            if values.get(name, value) != value
        }
