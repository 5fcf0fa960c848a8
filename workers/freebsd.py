"""Reads what FreeBSD's own tools print of ports, sensors and programs.

What is missing, or in another form than expected, is unknown: no machine is too old to measure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from netbisect.bisect.validity import Look, Port

_DAMAGED = ("mac_stats.crc_errs", "stats.rx_fcs_err")
"""Where drivers count packets with a wrong CRC, below their device: Intel's, Chelsio's."""
HARDWARE_CLOCK = "dev.hwpstate_intel.0.%driver"
"""There where the processor chooses its own clock: a low one then means that it is idle."""
_DEVICE = re.compile(r"([a-z]\w*?)(\d+)\Z")
_COUNT = re.compile(r"[0-9]{1,20}\Z")
_KERNEL, _INIT = "0", "1"
"""Numbers of processes."""
_LOG_LINES = 4000
"""Of a log that are compared; FreeBSD's buffer has room for fewer."""


def values_in(said: str) -> dict[str, str]:
    """Values by name, from `sysctl -e`."""
    pairs = (line.partition("=") for line in said.splitlines())
    return {name: value.strip() for name, equals, value in pairs if equals}


def wrong_crc(names: Iterable[str]) -> list[str]:
    """The sysctls that may count the packets with a wrong CRC of these interfaces."""
    devices = [found for name in names if (found := device(name))]
    return [f"dev.{one}.{leaf}" for one in devices for leaf in _DAMAGED]


def device(name: str) -> str:
    """An interface as sysctl(8) writes it: `igb.2` for igb2; "" for one that is no device."""
    found = _DEVICE.match(name)
    return ".".join(found.groups()) if found else ""


def port(
    name: str, link: str, netstat: str, values: Mapping[str, str], *, overloaded: bool
) -> Port:
    """What is known of a port; `link` as ifconfig(8) says, "" where it is unknown.

    A router that is offered more than it takes counts what it misses as errors, so there only
    packets with a wrong CRC count.
    """
    counters = counters_in(netstat)
    damaged = [count(values.get(place, "")) for place in wrong_crc([name])]
    return Port(
        name=name,
        link=link,
        packets=_sum(counters, "received-packets", "sent-packets"),
        errors=None if overloaded else _sum(counters, "received-errors", "send-errors"),
        damaged=next((number for number in damaged if number is not None), None),
    )


def counters_in(netstat: str) -> Mapping[str, Any]:
    """The counters of an interface as a whole, from `netstat -I NAME -bn --libxo json`."""
    try:
        rows = json.loads(netstat)["statistics"]["interface"]
        return next(row for row in rows if str(row["network"]).startswith("<Link#"))
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return {}


def _sum(counters: Mapping[str, Any], *names: str) -> int | None:
    numbers = [count(str(counters.get(name))) for name in names]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(names) else None


def count(text: str) -> int | None:
    """A number of things; None where the text, without the space around it, is none."""
    digits = text.strip()
    return int(digits) if _COUNT.match(digits) else None


def sensors(values: Mapping[str, str]) -> Look:
    """Clocks, thermal sensors and temperatures of the router, from its sysctls."""
    clocks = [_real(value) for name, value in values.items() if name.endswith(".freq")]
    levels = [
        _real(level.partition("/")[0])
        for name, value in values.items()
        if name.endswith(".freq_levels")
        for level in value.split()
    ]
    known = [clock for clock in clocks if clock is not None]
    tops = [level for level in levels if level is not None]
    tripped = tuple(
        name.removesuffix(".coretemp.throttle_log")
        for name, value in values.items()
        if name.endswith(".coretemp.throttle_log") and value == "1"
    )
    return Look(
        clock=min(known, default=None),
        top_clock=None if HARDWARE_CLOCK in values else max(tops, default=None),
        tripped=tripped,
        hot=tuple(_hot(values)),
    )


def _hot(values: Mapping[str, str]) -> Iterable[str]:
    for name, value in values.items():
        place, _, leaf = name.rpartition(".")
        if leaf != "temperature":
            continue
        limit = values.get(f"{place}.coretemp.tjmax") or values.get(f"{place}._PSV", "")
        degrees, most = _real(value.rstrip("C")), _real(limit.rstrip("C"))
        if degrees is not None and most is not None and degrees >= most > 0:
            yield f"{place} {degrees:g} of {most:g} C"


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def programs(ps: str) -> dict[str, float]:
    """Percent of a processor by name, of what is neither the kernel's nor there for our question.

    The kernel's own processes have no parent but the first. A ps(1), and the shell and the sshd
    that it runs under, are gone or asleep while packets flow; where keys are exchanged slowly they
    would be taken for other work.

    Args:
        ps: what `ps -ax -o pid= -o ppid= -o pcpu= -o comm=` says.
    """
    rows: dict[str, tuple[str, float, str]] = {}
    for line in ps.splitlines():
        words = line.split(maxsplit=3)
        percent = _real(words[2]) if len(words) > 3 else None  # noqa: PLR2004 - columns
        if percent is not None:
            rows[words[0]] = words[1], percent, words[3]
    for one in [number for number, (_, _, name) in rows.items() if name == "ps"]:
        number = one
        while number in rows and number != _INIT:
            number = rows.pop(number)[0]
    found: dict[str, float] = {}
    for parent, percent, name in rows.values():
        if parent != _KERNEL:
            found[name] = found.get(name, 0.0) + percent
    return found


def interrupts(vmstat: str) -> dict[str, int]:
    """How many there were since the machine started, by source, from `vmstat -i`."""
    found = {}
    for line in vmstat.splitlines():
        words = line.split()
        if len(words) < 3 or line[0].isspace():  # noqa: PLR2004 - source, total, rate
            continue
        source, total = " ".join(words[:-2]), count(words[-2])
        if source != "Total" and total is not None and count(words[-1]) is not None:
            found[source] = total
    return found


def new_lines(before: list[str], after: list[str]) -> list[str]:
    """What was added to a log that forgets its oldest lines, and may cut the first one."""
    before, after = before[-_LOG_LINES:], after[-_LOG_LINES:]
    for start in range(len(before)):
        kept = len(before) - start
        if before[start + 1 :] == after[1:kept] and after and before[start].endswith(after[0]):
            return after[kept:]
    return after
