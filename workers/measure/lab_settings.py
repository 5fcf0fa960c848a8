"""Settings of a router by its owner, as conditions of samples.

Only the settings of loader.conf and sysctl.conf count, not the resulting values of a kernel: a
commit that changes a default must be found.
"""

from __future__ import annotations

import hashlib
import re

from netbisect.workers.config.tunables import PREFIXES

_OWN = {"net.inet.ip.fw.default_to_accept"}
"""Set by netbisect itself."""
_HINT = re.compile(r"hint\.(?!acpi\.|smbios\.)")
"""Hints for devices; the loader itself notes addresses of tables, which move, below these two."""
_BIOS = ("smbios.bios.vendor", "smbios.bios.version", "smbios.bios.reldate")


def of_router(kenv: str, sysctl_conf: str) -> dict[str, str]:
    """Tunables, sysctls, hash of the hints, and BIOS, by name.

    Args:
        kenv: Output of kenv(1).
        sysctl_conf: Text of /etc/sysctl.conf, or "".
    """
    environment = _pairs(kenv)
    found = _chosen(environment)
    for name, value in _chosen(_pairs(sysctl_conf)).items():
        found[f"{name} (sysctl.conf)"] = value
    hints = sorted(f"{name}={value}" for name, value in environment.items() if _HINT.match(name))
    if hints:
        found["hints"] = hashlib.sha256("\n".join(hints).encode()).hexdigest()[:16]
    if bios := " ".join(environment[name] for name in _BIOS if name in environment):
        found["BIOS"] = bios
    return found


def _chosen(values: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in values.items()
        if name.startswith(PREFIXES) and name not in _OWN
    }


def _pairs(text: str) -> dict[str, str]:
    """Values by name, without comments and quotes."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("#")[0].partition("=")
        if equals:
            found[name.strip()] = value.strip().strip('"')
    return found
