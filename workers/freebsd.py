"""Reads what FreeBSD's own tools print of ports, sensors and programs.

What is missing, or in another form than expected, is unknown: no machine is too old to measure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from netbisect.bisect.validity import Look, Port
from netbisect.workers import ports

_DAMAGED = ("dev.{}.{}.mac_stats.crc_errs", "dev.{}.{}.stats.rx_fcs_err")
"""Where drivers count packets with a wrong CRC: Intel's, Chelsio's."""
HARDWARE_CLOCK = "dev.hwpstate_intel.0.%driver"
"""There where the processor chooses its own clock: a low one then means that it is idle."""
_DEVICE = re.compile(r"([a-z]\w*?)(\d+)\Z")


def values_in(said: str) -> dict[str, str]:
    """Values by name, from `sysctl -e`."""
    pairs = (line.partition("=") for line in said.splitlines())
    return {name: value.strip() for name, equals, value in pairs if equals}


def wrong_crc(names: Iterable[str]) -> list[str]:
    """The sysctls that may count the packets with a wrong CRC of these interfaces."""
    devices = [found for name in names if (found := _DEVICE.match(name))]
    return [place.format(*device.groups()) for device in devices for place in _DAMAGED]


def port(
    interface: ports.Interface, netstat: str, values: Mapping[str, str], *, overloaded: bool
) -> Port:
    """What is known of a port.

    A router that is offered more than it takes counts what it misses as errors, so there only
    packets with a wrong CRC count.
    """
    counters = _counters(netstat)
    damaged = [_number(values.get(name)) for name in wrong_crc([interface.name])]
    return Port(
        name=interface.name,
        link=interface.status if interface.up else "",
        packets=_sum(counters, "received-packets", "sent-packets"),
        errors=None if overloaded else _sum(counters, "received-errors", "send-errors"),
        damaged=next((number for number in damaged if number is not None), None),
    )


def _counters(netstat: str) -> Mapping[str, Any]:
    """The counters of an interface as a whole, from `netstat -I NAME -bn --libxo json`."""
    try:
        rows = json.loads(netstat)["statistics"]["interface"]
        return next(row for row in rows if str(row["network"]).startswith("<Link#"))
    except (ValueError, KeyError, TypeError, StopIteration):
        return {}


def _sum(counters: Mapping[str, Any], *names: str) -> int | None:
    numbers = [_number(str(counters.get(name))) for name in names]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(names) else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


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
    """Percent of a processor by name; the kernel's own processes have no parent but the first."""
    found: dict[str, float] = {}
    for line in ps.splitlines():
        words = line.split(maxsplit=2)
        percent = _real(words[1]) if len(words) > 2 else None  # noqa: PLR2004 - parent, percent, name
        if percent is not None and words[0] != "0":
            found[words[2]] = found.get(words[2], 0.0) + percent
    return found


def new_lines(before: list[str], after: list[str]) -> list[str]:
    """What was added to a log that forgets its oldest lines, and may cut the first one."""
    for start in range(len(before)):
        kept = len(before) - start
        if before[start + 1 :] == after[1:kept] and after and before[start].endswith(after[0]):
            return after[kept:]
    return after
