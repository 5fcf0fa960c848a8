"""Switches a DUT's firewall on with a scenario's rules, and off without a trace.

Both modules are loaded so that the management network stays open: pf passes until rules are
loaded; ipfw is told to accept by default before it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.workers.lab import Scenario
from netbisect.workers.ssh import Machine

Commands = list[Sequence[str]]


def _off() -> dict[str, Commands]:
    return {
        "pf": [["pfctl", "-q", "-d"], ["pfctl", "-q", "-F", "all"], ["kldunload", "pf"]],
        "ipfw": [["ipfw", "-q", "-f", "flush"], ["kldunload", "ipfw"]],
    }


def switch_off(machine: Machine) -> None:
    """No firewall, no rules, no states. Raises what `Machine.run` raises."""
    loaded = machine.run(["kldstat"])
    for name, commands in _off().items():
        if f"{name}.ko" in loaded:
            for command in commands[:-1]:
                machine.try_run(command)  # already off is fine
            machine.run(commands[-1])


def switch_on(machine: Machine, scenario: Scenario) -> None:
    """The scenario's firewall with its rules. Raises what `Machine.run` raises."""
    if scenario.firewall == "pf":
        rules = "\n".join(scenario.rules) + "\n"
        machine.run(["kldload", "-n", "pf"])
        machine.run(["pfctl", "-q", "-f", "-"], stdin=rules.encode())
        machine.run(["pfctl", "-q", "-e"])
    elif scenario.firewall == "ipfw":
        machine.run(
            ["kenv", "net.inet.ip.fw.default_to_accept=1"],
            ["kldload", "-n", "ipfw"],
            ["ipfw", "-q", "-f", "flush"],
            *(["ipfw", "-q", "add", *rule.split()] for rule in scenario.rules),
        )
