"""Loader tunables, `[tunables]` of a testbed and of a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def check_tunables(tunables: Mapping[str, Scalar]) -> None:
    """Checks names and values.

    Raises:
        ValueError: a name or value that cannot be passed on, or that belongs to netbisect.
    """
    for name, value in tunables.items():
        check(_NAME.match(name), f"tunable {name!r}: expected a name such as net.isr.maxthreads")
        check(
            _VALUE.match(str(value)),
            f"tunable {name}: {value!r}: expected a number, or letters without spaces and quotes",
        )
        check(
            not name.startswith(_RESERVED),
            f"tunable {name}: it is set by netbisect itself; expected another one",
        )


def parse_tunables(text: str) -> dict[str, Scalar]:
    """The tunables of `NAME=VALUE,NAME=VALUE`, sorted by name.

    Raises:
        ValueError: as `check_tunables`.
    """
    found: dict[str, Scalar] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        check(equals, f"tunable {part!r}: expected NAME=VALUE")
        check(name not in found, f"tunable {name!r}: expected once")
        found[name] = value
    check_tunables(found)
    return dict(sorted(found.items()))
