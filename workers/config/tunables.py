"""Loader tunables, and the settings in the name of a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from netbisect.workers.config.toml import Scalar
from netbisect.workers.config.validation import check

_NAME = re.compile(r"[A-Za-z]\w*(\.[\w-]+)+\Z", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9._:,+-]{1,127}\Z")
"""Values that need no quotes anywhere; loader(8) takes 128 bytes with the terminating null."""
PANIC_TUNABLES = {
    "debug.debugger_on_panic": "0",
    "debug.trace_on_panic": "1",
    "kern.panic_reboot_wait_time": "5",
}
"""After a panic: print the stack and reboot without debugger."""
_RESERVED = ("netbisect.", "vfs.root.", *PANIC_TUNABLES)

SYSCTL_MARK = "sysctl:"
"""Before a sysctl in the name of a scenario; other settings are tunables."""
SYSCTL = re.compile(
    r"(?:[\w%-]|\{(?:ingress|egress)\})+(?:\.(?:[\w%-]|\{(?:ingress|egress)\})+)+\Z", re.ASCII
)
"""Names of sysctls; `{ingress}` and `{egress}` stand for ports of the router."""
_SYSCTL_VALUE = re.compile(r"[A-Za-z0-9._:-]{1,127}\Z")
PREFIXES = ("hw.", "net.", "dev.", "kern.hz", "kern.sched.", "kern.ipc.", "machdep.", "vm.pmap.")
"""Prefixes of tunables and sysctls that can change a rate; docs/lab.md lists them."""


@dataclass(frozen=True, slots=True)
class NamedSettings:
    """The settings in the name of a scenario."""

    tunables: dict[str, Scalar] = field(default_factory=dict)
    """For loader(8), at the boot."""
    sysctls: dict[str, Scalar] = field(default_factory=dict)
    """For sysctl(8), after the boot."""

    @property
    def text(self) -> str:
        """`NAME=VALUE,sysctl:NAME=VALUE`, the same for the same settings."""
        return ",".join(
            f"{mark}{name}={value}"
            for mark, values in (("", self.tunables), (SYSCTL_MARK, self.sysctls))
            for name, value in sorted(values.items())
        )


def check_tunables(tunables: Mapping[str, Scalar]) -> None:
    """Checks names and values.

    Raises:
        ValueError: a name or value that cannot be passed on, or that belongs to netbisect.
    """
    for name, value in tunables.items():
        check(_NAME.match(name), f"tunable {name!r}: expected a name such as net.isr.maxthreads")
        _check_value("tunable", name, value, _VALUE)
        check(
            not name.startswith(_RESERVED),
            f"tunable {name}: it is set by netbisect itself; expected another one",
        )


def _check_sysctls(sysctls: Mapping[str, Scalar]) -> None:
    for name, value in sysctls.items():
        check(
            SYSCTL.match(name) and name.startswith(PREFIXES),
            f"sysctl {name!r}: expected a name that begins with {', '.join(PREFIXES)}",
        )
        _check_value("sysctl", name, value, _SYSCTL_VALUE)


def _check_value(kind: str, name: str, value: Scalar, form: re.Pattern[str]) -> None:
    wanted = "a number, or letters without spaces and quotes"
    check(form.match(str(value)), f"{kind} {name}: {value!r}: expected {wanted}")


def parse_settings(text: str) -> NamedSettings:
    """The settings of `NAME=VALUE,sysctl:NAME=VALUE`.

    Raises:
        ValueError: a name or value that cannot be set, or that belongs to netbisect.
    """
    found = NamedSettings()
    for part in text.split(","):
        kind = "sysctl" if part.startswith(SYSCTL_MARK) else "tunable"
        values = found.sysctls if kind == "sysctl" else found.tunables
        name, equals, value = part.removeprefix(SYSCTL_MARK).partition("=")
        check(equals, f"{kind} {name!r}: expected NAME=VALUE")
        check(name not in values, f"{kind} {name!r}: expected once")
        values[name] = value
    check_tunables(found.tunables)
    _check_sysctls(found.sysctls)
    return found
