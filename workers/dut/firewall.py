"""Sets up the DUT for a scenario, switches its firewall off, and restores its sysctls.

The management network stays open: pf passes packets until rules are loaded; ipfw accepts by
default and is disabled while its rules change. A firewall in the kernel cannot be unloaded: it is
disabled, its rules and states are flushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netbisect.workers.config.scenario import Scenario
from netbisect.workers.dut.freebsd_tools import parse_sysctls
from netbisect.workers.transport.errors import CommandError
from netbisect.workers.transport.ssh import Machine

_IPFW_SWITCHES = ("net.inet.ip.fw.enable", "net.inet6.ip6.fw.enable")
_DISABLE = {
    "pf": [["pfctl", "-q", "-d"], ["pfctl", "-q", "-F", "all"]],
    "ipfw": [
        ["sysctl", "-in", *(f"{name}=0" for name in _IPFW_SWITCHES)],
        ["ipfw", "-q", "-f", "flush"],
    ],
}
_UPON = {
    "pf": ("pflog", "pfsync", "pflow"),
    "ipfw": (
        "dummynet",
        "ipfw_nat64",
        "ipfw_nptv6",
        "ipfw_nat",
        "ipfw_pmod",
        "ipfw_compat",
        "ng_ipfw",
        "ipdivert",
    ),
}
"""Modules to unload before the firewall, by force: ipdivert refuses otherwise."""


def switch_off(machine: Machine) -> None:
    """Unloads firewalls with rules and states. Raises what `Machine.run` raises."""
    kldstat, *built_in = machine.ask(["kldstat"], *(["kldstat", "-m", name] for name in _DISABLE))
    loaded = _loaded(machine, kldstat)
    for (name, disable), module in zip(_DISABLE.items(), built_in, strict=True):
        if name not in loaded and not module:
            continue
        machine.ask(*disable)  # already off is fine
        if upon := [one for one in _UPON[name] if one in loaded]:
            machine.run(*(["kldunload", "-f", one] for one in upon))
            # This also unloads a firewall that was loaded as their dependency.
            loaded = _loaded(machine, *machine.ask(["kldstat"]))
        if name in loaded:  # rules and states go with the module
            machine.run(["kldunload", name])


def _loaded(machine: Machine, kldstat: str) -> set[str]:
    rows = (line.split() for line in kldstat.splitlines()[1:])
    loaded = {row[-1].removesuffix(".ko") for row in rows if row}
    if not loaded:
        raise CommandError(machine.address, "kldstat", 0, kldstat)
    return loaded


def set_up(machine: Machine, scenario: Scenario) -> None:
    """Sets sysctls, firewall and rules. Raises what `Machine.run` raises."""
    commands: list[Sequence[str]] = [
        ["sysctl", "-n", f"{name}={value}"] for name, value in scenario.sysctls.items()
    ]
    commands += [["sysctl", "-in", f"{name}={value}"] for name, value in scenario.optional.items()]
    rules = b""
    if scenario.firewall == "pf":
        rules = "".join(f"{rule}\n" for rule in scenario.rules).encode()
        commands += [["kldload", "-n", "pf"], ["pfctl", "-q", "-f", "-"], ["pfctl", "-q", "-e"]]
    elif scenario.firewall == "ipfw":
        commands += [
            ["kenv", "net.inet.ip.fw.default_to_accept=1"],
            ["kldload", "-n", "ipfw"],
            *_DISABLE["ipfw"],
            *(["ipfw", "-q", "add", *rule.split()] for rule in scenario.rules),
            ["sysctl", "-in", *(f"{name}=1" for name in _IPFW_SWITCHES)],
        ]
    if commands:
        machine.run(*commands, stdin=rules)


class ChangedSysctls:
    """Original values of the sysctls of scenarios. Raises what `Machine.run` raises."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._original: dict[str, str] = {}

    def begin(self, scenario: Scenario) -> None:
        """Saves the values that the scenario will change; restores those of earlier scenarios.

        Restored values are not checked as settings of the scenario: a port of em(4), igb(4) or
        igc(4) reports the flow control that was last set on any of them.
        """
        own = {**scenario.sysctls, **scenario.optional}
        values = self._values({**own, **self._original})
        self._original = {name: values[name] for name in own if name in values} | self._original
        earlier = {name: value for name, value in self._changed(values).items() if name not in own}
        if earlier:
            pairs = (f"{name}={value}" for name, value in earlier.items())
            self._machine.run(*(["sysctl", "-n", pair] for pair in pairs))

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
