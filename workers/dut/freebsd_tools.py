"""Parses the output of FreeBSD's tools about ports, sensors and programs.

Missing or unexpected output means unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from netbisect.bisect.model.sample_validity import MachineState, PortState

HARDWARE_CLOCK = ("dev.hwpstate_intel.0.%driver", "dev.hwpstate_amd.0.epp")
"""One exists if the processor chooses its clock itself; a low clock then means idle.

hwpstate_amd(4) has `epp` with CPPC only: hwpstate_attach() in hwpstate_amd.c of FreeBSD 16.
"""
_DEVICE = re.compile(r"([a-z]\w*?)(\d+)\Z")
_COUNT = re.compile(r"[0-9]{1,20}\Z")
_KERNEL, _INIT = "0", "1"
"""Process IDs."""
_LOG_LINES = 4000
"""Compared lines of a log; FreeBSD's message buffer holds fewer."""


def parse_sysctls(output: str) -> dict[str, str]:
    """Values by name, from `sysctl -e`."""
    pairs = (line.partition("=") for line in output.splitlines())
    return {name: value.strip() for name, equals, value in pairs if equals}


def parse_which(output: str) -> str:
    """Path of a program, or ""; csh says on standard output that there is none."""
    path = output.strip()
    return path if path.startswith("/") else ""


def device(name: str) -> str:
    """An interface as in sysctl(8): `igb.2` for igb2; "" if it has no unit number."""
    found = _DEVICE.match(name)
    return ".".join(found.groups()) if found else ""


def parse_port(
    name: str, link: str, netstat: str, damaged_values: Iterable[str], *, overloaded: bool
) -> PortState:
    """State of a port.

    An overloaded router counts dropped packets as errors, so only CRC errors count there.

    Args:
        name: The interface.
        link: From ifconfig(8), or "".
        netstat: As `parse_netstat` takes it.
        damaged_values: Counters of CRC errors, "" for unknown ones; the first known one counts.
        overloaded: Whether it is a port of the router.
    """
    counters = parse_netstat(netstat)
    damaged = [parse_count(value) for value in damaged_values]
    return PortState(
        name=name,
        link=link,
        packets=_sum(counters, "received-packets", "sent-packets"),
        errors=None if overloaded else _sum(counters, "received-errors", "send-errors"),
        damaged=next((number for number in damaged if number is not None), None),
    )


def parse_netstat(netstat: str) -> Mapping[str, Any]:
    """Counters of an interface, from `netstat -I NAME -bn --libxo json`."""
    try:
        rows = json.loads(netstat)["statistics"]["interface"]
        return next(row for row in rows if str(row["network"]).startswith("<Link#"))
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return {}


def _sum(counters: Mapping[str, Any], *names: str) -> int | None:
    numbers = [parse_count(str(counters.get(name))) for name in names]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(names) else None


def parse_count(text: str) -> int | None:
    """A count, or None."""
    digits = text.strip()
    return int(digits) if _COUNT.match(digits) else None


def free_kib(row: str) -> int | None:
    """Free KiB in a row of `df -k`, or None; df shows less than 0 where root uses UFS's reserve."""
    words = row.split()
    if len(words) < 4:  # noqa: PLR2004 - device, blocks, used, free
        return None
    return 0 if words[3].startswith("-") else parse_count(words[3])


def parse_sensors(values: Mapping[str, str]) -> MachineState:
    """Clocks, thermal sensors and temperatures, from sysctls."""
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
    return MachineState(
        clock=min(known, default=None),
        top_clock=max(tops, default=None) if values.keys().isdisjoint(HARDWARE_CLOCK) else None,
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
        return float(text.replace(",", "."))  # of ps and sysctl in the locale of root
    except ValueError:
        return None


def parse_ps(ps: str) -> dict[str, float]:
    """Percent of a processor by program, without the kernel and the ps(1) command itself.

    Kernel processes have PID 0 as parent. The sshd and shell above ps(1) are ignored: a slow key
    exchange would count as other load.

    Args:
        ps: Output of `ps -ax -o pid= -o ppid= -o pcpu= -o comm=`.
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


def parse_vmstat(vmstat: str) -> dict[str, int]:
    """Interrupts since boot by source, from `vmstat -i`."""
    found = {}
    for line in vmstat.splitlines():
        words = line.split()
        if len(words) < 3 or line[0].isspace():  # noqa: PLR2004 - source, total, rate
            continue
        source, total = " ".join(words[:-2]), parse_count(words[-2])
        if source != "Total" and total is not None and parse_count(words[-1]) is not None:
            found[source] = total
    return found


def new_lines(before: list[str], after: list[str]) -> list[str]:
    """New lines of a log that drops its oldest lines and may cut the first one."""
    before, after = before[-_LOG_LINES:], after[-_LOG_LINES:]
    for start in range(len(before)):
        kept = len(before) - start
        if before[start + 1 :] == after[1:kept] and after and before[start].endswith(after[0]):
            return after[kept:]
    return after
