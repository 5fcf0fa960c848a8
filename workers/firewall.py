"""Sets a DUT up for a scenario, and switches its firewall off without a trace.

Both modules are loaded so that the management network stays open: pf passes until rules are
loaded; ipfw is told to accept by default before it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.workers.lab import Scenario
from netbisect.workers.ssh import Machine

_DISABLE = {"pf": ["pfctl", "-q", "-d"], "ipfw": ["ipfw", "-q", "-f", "flush"]}


def switch_off(machine: Machine) -> None:
    """No firewall, no rules, no states. Raises what `Machine.run` raises."""
    loaded = machine.run(["kldstat"])
    for name, disable in _DISABLE.items():
        if f"{name}.ko" in loaded:
            machine.try_run(disable)  # already off is fine
            # Rules and states go with the module.
            machine.run(["kldunload", name])


def set_up(machine: Machine, scenario: Scenario) -> None:
    """The scenario's sysctls, its firewall, its rules. Raises what `Machine.run` raises."""
    commands: list[Sequence[str]] = [
        ["sysctl", "-n", f"{name}={value}"] for name, value in scenario.sysctls.items()
    ]
    rules = b""
    if scenario.firewall == "pf":
        rules = "".join(f"{rule}\n" for rule in scenario.rules).encode()
        commands += [["kldload", "-n", "pf"], ["pfctl", "-q", "-f", "-"], ["pfctl", "-q", "-e"]]
    elif scenario.firewall == "ipfw":
        commands += [
            ["kenv", "net.inet.ip.fw.default_to_accept=1"],
            ["kldload", "-n", "ipfw"],
            ["ipfw", "-q", "-f", "flush"],
            *(["ipfw", "-q", "add", *rule.split()] for rule in scenario.rules),
        ]
    if commands:
        machine.run(*commands, stdin=rules)
