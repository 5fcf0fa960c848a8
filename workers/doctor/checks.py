"""Checks of the doctor: pure functions over the output of FreeBSD's tools."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from netbisect.workers.config import pktgen_options
from netbisect.workers.config.scenario import Scenario
from netbisect.workers.config.testbed import FRAME_BYTES, Testbed
from netbisect.workers.dut import drivers, freebsd_tools, ports
from netbisect.workers.measure import pktgen

CLOCK_SECONDS = 10.0
"""Tolerated difference of a machine's clock."""
_ROOM = 2.0
"""Free space in /boot, in kernels: two test kernels are kept there."""
_SPEED = re.compile(r"([0-9]{1,6})(G?)[Bb]ase")
_LEAST_SHARE = 0.99
"""Minimal share of the line rate that the generator must offer."""
_PAUSES = ("rxpause", "txpause")
_FAST_WITH_REDIRECTS = 13
"""Major release from which on inet4 has its fast path in spite of redirects."""
PANIC_SYSCTL = "debug.debugger_on_panic"
NETMAP_SYSCTL = "dev.netmap.admode"
_EMULATED = "2"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One line of the report."""

    where: str
    what: str
    good: bool
    found: str


class CheckResult(NamedTuple):
    """Result of a check."""

    good: bool
    found: str


def room(df: str, du: str, known_good: str) -> Iterator[tuple[str, CheckResult]]:
    """Known-good kernel, and free space.

    Args:
        df: Output of `df -k /boot`.
        du: Output of `du -sk /boot/KNOWN_GOOD`.
        known_good: That folder.
    """
    size = freebsd_tools.parse_count(du.split(maxsplit=1)[0]) if du.split() else None
    there = f"/boot/{known_good}, {size >> 10} MiB" if size is not None else ""
    result = CheckResult(bool(there), there or f"there is no /boot/{known_good}")
    yield "known-good kernel", result
    free = freebsd_tools.free_kib("".join(df.splitlines()[1:]))
    if free is None:
        yield "room in /boot", CheckResult(False, "unknown output of df")
        return
    needed = int(_ROOM * (size or 0))
    lacking = f", {needed >> 10} are needed" if free < needed else ""
    yield "room in /boot", CheckResult(not lacking, f"{free >> 10} MiB free{lacking}")


def settings(
    values: Mapping[str, str], scenarios: Sequence[Scenario], release: str
) -> Iterator[tuple[str, CheckResult]]:
    """Sysctls of the DUT: forwarding, redirects, reboot after a panic.

    Redirects end the fast path of inet6 (ip6_input.c:717), and of inet4 before FreeBSD 13
    (ip_input.c:564-585 of 13.2 has no such condition).

    Args:
        values: The sysctls.
        scenarios: Scenarios of the testbed.
        release: Output of `uname -r`.
    """
    major = freebsd_tools.parse_count(release.partition(".")[0])
    for family, tree in (("inet4", "net.inet.ip"), ("inet6", "net.inet6.ip6")):
        used = [one for one in scenarios if one.traffic and one.traffic.family == family]
        if not used:
            continue
        forwarding = values.get(f"{tree}.forwarding", "unknown")
        result = CheckResult(forwarding == "1", f"{tree}.forwarding={forwarding}")
        yield f"forwarding {family}", result
        if family == "inet4" and (major or 0) >= _FAST_WITH_REDIRECTS:
            continue
        name = f"{tree}.redirect"
        redirect = values.get(name, "unknown")
        set_anyway = redirect != "0" and all(name in one.sysctls for one in used)
        note = ", which every scenario sets" if set_anyway else ""
        result = CheckResult(set_anyway or redirect == "0", f"{name}={redirect}{note}")
        yield f"redirects {family}", result
    if (panic := values.get(PANIC_SYSCTL)) is not None:
        advice = "" if panic == "0" else ": it would wait in the debugger; expected 0"
        yield "after a panic", CheckResult(not advice, f"{PANIC_SYSCTL}={panic}{advice}")


def scenario_sysctls(names: Collection[str], values: Mapping[str, str]) -> CheckResult:
    """Checks that the running kernel knows the sysctls of the scenarios."""
    if unknown := [name for name in names if name not in values]:
        return CheckResult(False, f"{', '.join(unknown)}: unknown to the running kernel")
    return CheckResult(True, ", ".join(names))


def mtu(interface: ports.Interface, largest: int) -> CheckResult:
    """Checks that pkt-gen sends the largest packets, bytes without CRC: its limit is the MTU."""
    good = not 0 < interface.mtu < largest
    text = f"{interface.name}: {interface.mtu or 'unknown'}"
    remedy = f"; packets of {largest} bytes need ifconfig {interface.name} mtu {largest}"
    return CheckResult(good, text if good else text + remedy)


def threads(name: str, way: str, rings: int, number: int) -> CheckResult:
    """Checks the threads of pkt-gen against the rings of a port: each of several uses one ring.

    Args:
        name: Name of the port.
        way: `tx`, or `rx` at a receiver, which misses packets on rings without a thread.
        rings: Number of rings; 0 if unknown.
        number: Number of threads, above one.
    """
    kind, wanted = ("receive", f"1 or {rings}") if way == "rx" else ("transmit", f"up to {rings}")
    good = not rings or number == rings or (way == "tx" and number < rings)
    text = f"{name}: {number} threads, {rings or 'an unknown number of'} {kind} rings"
    return CheckResult(good, text if good else f"{text}; expected {wanted} threads")


def link(
    interface: ports.Interface, values: Mapping[str, str], line_rate_pps: int, share: float = 1.0
) -> CheckResult:
    """Link, speed and flow control of a data port.

    Args:
        interface: The interface.
        values: Sysctls with those of its flow control.
        line_rate_pps: Required rate in packets of 60 bytes.
        share: Share of that rate that passes the port.
    """
    text = " ".join(filter(None, (interface.name, interface.mac, interface.status)))
    if interface.status not in ("", "active") or not interface.up:
        return CheckResult(False, text if interface.up else f"{text}, and is not up")
    if speed := _SPEED.search(interface.media):
        bits = int(speed[1]) * (1e9 if speed[2] else 1e6)
        fits = bits / (8 * (60 + FRAME_BYTES))
        text += f", {bits / 1e9:g} Gbit/s"
        if share * line_rate_pps > 1.001 * fits:
            part = f" and {100 * share:.0f} % of it pass here" if share != 1 else ""
            text += f": {fits:,.0f} pps fit, line_rate_pps is {line_rate_pps:,}{part}"
            return CheckResult(False, text)
    paused = [word for word in _PAUSES if word in interface.media]
    paused = paused or drivers.pausing(interface.name, values)
    driver = drivers.driver_of(interface.name)
    if paused:
        where = " in loader.conf" if driver and driver.tunable else ""
        text += f": flow control is on ({', '.join(paused)}); expected off{where}"
    elif driver is None:
        text += (
            ": its driver is unknown, so neither flow control nor CRC errors are looked at; known "
            f"are {', '.join(drivers.DRIVERS)}"
        )
    return CheckResult(not paused and driver is not None, text)


def ends(scenarios: Iterable[Scenario]) -> Iterable[tuple[str, str, str]]:
    """Required routes: egress or ingress, family, first and last addresses.

    Those to 240.0.0.0/4 are only there while their scenario runs.
    """
    found: dict[tuple[str, str, str], None] = {}
    for traffic in (one.traffic for one in scenarios if one.traffic):
        for part, text in (("ingress", traffic.source), ("egress", traffic.destination)):
            for end in text.split("-"):
                address = end[1:].partition("]") if end.startswith("[") else end.partition(":")
                if not ipaddress.ip_address(address[0]).is_reserved:
                    found[part, traffic.family, address[0]] = None
    return found


def route(output: str, address: str, interfaces: Collection[str]) -> tuple[CheckResult, str, str]:
    """Checks the interface of a route; also returns it and the address of the next hop."""
    pairs = (line.partition(": ") for line in output.splitlines())
    values = {name.strip(): value.strip() for name, colon, value in pairs if colon}
    through = values.get("interface", "")
    gateway = values.get("gateway", "") if "GATEWAY" in values.get("flags", "") else ""
    text = f"{address} on {through}" + (f" by {gateway}" if gateway else "")
    if not through:
        text = f"{address}: no route"
    elif through not in interfaces:
        text += f"; expected on {' or '.join(interfaces)}"
    elif values.get("destination") == "default":
        text += ", but by the default route alone"
    else:
        return CheckResult(True, text), through, gateway or address
    return CheckResult(False, text), through, ""


def neighbour(output: str, address: str, macs: Collection[str]) -> CheckResult:
    """Checks a static ARP or NDP entry; `macs` are those of the ports behind, if known."""
    lines = (line for line in output.splitlines() if address in line and "permanent" in line)
    line = next(lines, "")
    if not line:
        return CheckResult(False, f"{address}: no static entry; it would be asked for under load")
    known = re.search(r"([0-9a-f]{2}(?::[0-9a-f]{2}){5})", line)
    entered = known[1] if known else "unknown"
    other = f"; the port there has {' or '.join(macs)}" if macs and entered not in macs else ""
    return CheckResult(not other, f"{address} is {entered}{other}")


def clock(output: str, before: float, after: float) -> CheckResult:
    """Difference of a machine's clock (`date -u +%s`) from this host's."""
    seconds = freebsd_tools.parse_count(output)
    if seconds is None:
        return CheckResult(False, "unknown output of date")
    apart = seconds + 0.5 - (before + after) / 2
    good = abs(apart) <= CLOCK_SECONDS + (after - before) / 2
    return CheckResult(good, f"{apart:+.0f} s apart" if not good else "within 10 s of this host's")


def netmap(pkt_gen: str, admode: str | None) -> CheckResult:
    """Checks netmap of a host, and pkt-gen by the output of `which pkt-gen`."""
    text = freebsd_tools.parse_which(pkt_gen)
    if not text:
        return CheckResult(False, "there is no pkt-gen; it is in FreeBSD's port net/pkt-gen")
    if admode == _EMULATED:
        text = f"{NETMAP_SYSCTL}=2: netmap is emulated, which is slow; expected 0"
    elif admode is None:
        text += ", but the kernel has no netmap"
    return CheckResult(admode not in (None, _EMULATED), text)


def pkt_gen_options(pkt_gen: str, usage: str, needed: Mapping[str, frozenset[str]]) -> CheckResult:
    """Checks that pkt-gen has the options that scenarios need.

    Args:
        pkt_gen: Path of the program.
        usage: Output of `pkt-gen -h`.
        needed: Letters of the options, by scenario.
    """
    has = pktgen_options.described(usage)
    if not has:
        return CheckResult(False, f"{pkt_gen} -h prints no usage text{pktgen.last_line(usage)}")
    lacks = [
        f"no option {', '.join(f'-{letter}' for letter in sorted(letters - has))} for {name}"
        for name, letters in needed.items()
        if letters - has
    ]
    advice = "; -U is `checksums` in [traffic]" if any("-U" in one for one in lacks) else ""
    return CheckResult(not lacks, f"{pkt_gen}: {'; '.join(lacks)}{advice}" if lacks else pkt_gen)


def rates(
    testbed: Testbed,
    wanted: float,
    offered: Mapping[str, float],
    received: Mapping[str, float],
    shares: Mapping[str, float],
) -> CheckResult:
    """Checks the rates of a short run, by generator and by receiver.

    Args:
        testbed: The testbed.
        wanted: Packets per second that all generators must offer together.
        offered: Packets per second by generator.
        received: Packets per second by receiver.
        shares: Share of each generator of `wanted`.
    """
    text = f"{sum(offered.values()):,.0f} pps offered, {sum(received.values()):,.0f} received"
    if len(offered) + len(received) > 2:  # noqa: PLR2004 - more than one of each
        each = (f"{who} {pps:,.0f}" for who, pps in (*offered.items(), *received.items()))
        text += f" ({', '.join(each)})"
    if any(pps < _LEAST_SHARE * wanted * shares[who] for who, pps in offered.items()):
        text += f"; {testbed.name} must offer {wanted:,.0f}"
        if len(offered) > 1:
            parts = (f"{who} {wanted * share:,.0f}" for who, share in shares.items())
            text += f" ({', '.join(parts)})"
        return CheckResult(False, text)
    good = all(received.values())
    return CheckResult(good, text if good else f"{text}: nothing comes through")
