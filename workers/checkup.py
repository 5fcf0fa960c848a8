"""What can be said of a testbed's machines from what they answer: the checks of the doctor.

Each takes what FreeBSD's own tools print and gives a sentence of what was found, and whether it
is in order. Nothing here talks to a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from netbisect.workers import freebsd, ports
from netbisect.workers.lab import Scenario, Testbed

CLOCK_SECONDS = 10.0
"""By which a machine's clock may differ from this host's."""
_ROOM = 2.0
"""Known-good kernels that must fit into what is free in /boot: two test kernels stay there."""
_SPEED = re.compile(r"([0-9]{1,6})(G?)[Bb]ase")
_OVERHEAD_BYTES = 24
_LEAST_SHARE = 0.99
"""Of the line rate that the generator must offer."""
_PAUSES = ("rxpause", "txpause")
PANIC_SYSCTL = "debug.debugger_on_panic"
NETMAP_SYSCTL = "dev.netmap.admode"
_EMULATED = "2"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    where: str
    what: str
    good: bool
    found: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, wherever that was."""

    good: bool
    found: str


def room(df: str, du: str, known_good: str) -> Iterator[tuple[str, Finding]]:
    """The known-good kernel, the file system of /boot and what is free there.

    Args:
        df: of `df -kT /boot`.
        du: of `du -sk /boot/KNOWN_GOOD`.
        known_good: that folder.
    """
    size = freebsd.count(du.split(maxsplit=1)[0]) if du.split() else None
    if size is not None:
        yield "known-good kernel", Finding(True, f"/boot/{known_good}, {size >> 10} MiB")
    else:
        yield "known-good kernel", Finding(False, f"there is no /boot/{known_good}")
    words = df.splitlines()[-1].split() if len(df.splitlines()) > 1 else []
    free = freebsd.count(words[4]) if len(words) > 4 else None  # noqa: PLR2004 - device, type, blocks, used, free
    if free is None:
        yield "room in /boot", Finding(False, "df does not tell")
        return
    kind = words[1]
    needed = _ROOM * (size or 0)
    said = f"{free >> 10} MiB free"
    if free < needed:
        said += f", {int(needed) >> 10} are needed"
    yield "room in /boot", Finding(free >= needed, said)
    if kind == "zfs":
        said = (
            "zfs: its loader cannot reset nextboot.conf, so a kernel that panics would be booted "
            "for ever; expected ufs"
        )
    yield "file system of /boot", Finding(kind != "zfs", said if kind == "zfs" else kind)


def settings(
    values: Mapping[str, str], scenarios: Sequence[Scenario]
) -> Iterator[tuple[str, Finding]]:
    """The DUT's sysctls: it forwards, sends no redirects, and reboots by itself after a panic."""
    for family, tree in (("inet4", "net.inet.ip"), ("inet6", "net.inet6.ip6")):
        used = [one for one in scenarios if one.traffic.family == family]
        if not used:
            continue
        forwarding = values.get(f"{tree}.forwarding", "unknown")
        yield f"forwarding {family}", Finding(forwarding == "1", f"{tree}.forwarding={forwarding}")
        name = f"{tree}.redirect"
        redirect = values.get(name, "unknown")
        set_anyway = all(str(one.sysctls.get(name)) == "0" for one in used)
        said = f"{name}={redirect}"
        if set_anyway and redirect != "0":
            said += ", which every scenario sets to 0"
        yield f"redirects {family}", Finding(set_anyway or redirect == "0", said)
    panic = values.get(PANIC_SYSCTL)
    if panic is not None:
        good = panic == "0"
        said = f"{PANIC_SYSCTL}={panic}"
        yield (
            "after a panic",
            Finding(good, said if good else f"{said}: it would wait in the debugger; expected 0"),
        )


def link(interface: ports.Interface, values: Mapping[str, str], line_rate_pps: int) -> Finding:
    """A data port: its link, its speed, its flow control.

    Args:
        interface: as ifconfig says.
        values: sysctls, of which `flow_control` is looked at.
        line_rate_pps: packets of 60 bytes that must fit.
    """
    said = " ".join(filter(None, (interface.name, interface.mac, interface.status)))
    if interface.status == "no carrier" or not interface.up:
        return Finding(False, said if interface.up else f"{said}, and is not up")
    speed = _SPEED.search(interface.media)
    if speed:
        bits = int(speed[1]) * (1e9 if speed[2] else 1e6)
        fits = bits / (8 * (60 + _OVERHEAD_BYTES))
        said += f", {bits / 1e9:g} Gbit/s"
        if line_rate_pps > 1.001 * fits:
            return Finding(
                False, f"{said}: {fits:,.0f} pps fit, line_rate_pps is {line_rate_pps:,}"
            )
    paused = [word for word in _PAUSES if word in interface.media]
    control = values.get(flow_control(interface.name), "0")
    if paused or control != "0":
        told = ", ".join(paused) or f"{flow_control(interface.name)}={control}"
        return Finding(False, f"{said}: flow control is on ({told}); expected off")
    return Finding(True, said)


def flow_control(name: str) -> str:
    """The sysctl of Intel's drivers; an interface that is no device has none."""
    return f"dev.{freebsd.device(name) or name}.fc"


def ends(scenarios: Iterable[Scenario]) -> Iterator[tuple[str, str, str]]:
    """What the DUT must have a route for: egress or ingress, family, first and last addresses."""
    seen = set()
    for scenario in scenarios:
        traffic = scenario.traffic
        for part, text in (("ingress", traffic.source), ("egress", traffic.destination)):
            for end in text.split("-"):
                found = (part, traffic.family, _address(end))
                if found not in seen:
                    seen.add(found)
                    yield found


def _address(end: str) -> str:
    """Of one end of a range: without brackets and port."""
    return end[1:].partition("]")[0] if end.startswith("[") else end.partition(":")[0]


def route_question(family: str, address: str) -> list[str]:
    """What `route` reads."""
    return ["route", "-n", "get", "-inet" if family == "inet4" else "-inet6", address]


def neighbour_question(family: str, address: str) -> list[str]:
    """What `neighbour` reads."""
    return ["arp" if family == "inet4" else "ndp", "-n", address]


def route(said: str, address: str, interface: str) -> tuple[Finding, str]:
    """Whether an address lies behind that interface, and whose MAC address must be known."""
    values = {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(": ") for line in said.splitlines())
        if colon
    }
    through = values.get("interface", "")
    if not through:
        return Finding(False, f"{address}: no route"), ""
    gateway = values.get("gateway", "") if "GATEWAY" in values.get("flags", "") else ""
    told = f"{address} on {through}" + (f" by {gateway}" if gateway else "")
    if through != interface:
        return Finding(False, f"{told}; expected on {interface}"), ""
    if values.get("destination") == "default":
        return Finding(False, f"{told}, but by the default route alone"), ""
    return Finding(True, told), gateway or address


def neighbour(said: str, address: str, mac: str) -> Finding:
    """Whether a MAC address is entered for good; `mac` is that of the port behind, or ""."""
    line = next((line for line in said.splitlines() if address in line and "permanent" in line), "")
    if not line:
        return Finding(False, f"{address}: no static entry; it would be asked for under load")
    known = re.search(r"([0-9a-f]{2}(?::[0-9a-f]{2}){5})", line)
    entered = known[1] if known else "unknown"
    if mac and entered != mac:
        return Finding(False, f"{address} is {entered}; the port there has {mac}")
    return Finding(True, f"{address} is {entered}")


def clock(said: str, before: float, after: float) -> Finding:
    """How far a machine's clock, `date -u +%s`, is from this host's before and after."""
    told = freebsd.count(said)
    if told is None:
        return Finding(False, "date does not tell")
    apart = told + 0.5 - (before + after) / 2
    good = abs(apart) <= CLOCK_SECONDS + (after - before) / 2
    return Finding(good, f"{apart:+.0f} s apart" if not good else "within 10 s of this host's")


def netmap(pkt_gen: str, admode: str | None) -> Finding:
    """Whether a host has what generates and counts packets."""
    if not pkt_gen.strip():
        return Finding(False, "there is no pkt-gen; it is in FreeBSD's port net/pkt-gen")
    if admode is None:
        return Finding(False, f"{pkt_gen.strip()}, but the kernel has no netmap")
    if admode == _EMULATED:
        return Finding(False, f"{NETMAP_SYSCTL}=2: netmap is emulated, which is slow; expected 0")
    return Finding(True, pkt_gen.strip())


def rates(testbed: Testbed, wanted: float, offered: float, received: float) -> Finding:
    """Whether a generator offers what it must, and whether anything arrives."""
    said = f"{offered:,.0f} pps offered, {received:,.0f} received"
    if offered < _LEAST_SHARE * wanted:
        return Finding(False, f"{said}; {testbed.name} must offer {wanted:,.0f}")
    if not received:
        return Finding(False, f"{said}: nothing comes through")
    return Finding(True, said)
