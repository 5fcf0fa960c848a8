"""Validity of samples: rates per second, and the state of the machines before and after the run.

Unknown values are no problem. A run with problems is stored and shown, but never used.

Uses the standard library only, because it runs on lab hosts.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SATURATED_SHARE = 0.98
"""Share of the offered rate from which the generator is the limit."""
OFFERED_SHARE = 0.99
"""Minimum offered rate, as a share of the line rate."""
RECEIVED_SHARE = 1.005
"""Maximum received rate, as a share of the offered rate; clocks of hosts differ."""
DRIFT = 0.01
"""Change of the offered rate from the first to the last third of a run that is worth a warning."""
FALTERING_SHARE = 0.95
"""Share of the line rate below which a second is slow; 10 Gbit/s generators vary by 2 %."""
SLOW_SECONDS = 0.1
"""Maximum share of slow seconds."""
ERROR_SHARE = 1e-5
"""Maximum share of errors; links that come up count a few."""
OTHER_LOAD_PERCENT = 20.0
"""Maximum load of other programs on the router before the run, in percent of one processor."""
_GAP = 0.5
"""Share of a generator's packets below which a second within a run is a gap."""
STRAY_SHARE = 0.001
"""Share of the highest rate up to which a second has stray packets only."""
_LEAST_PACKETS = 100_000
"""Packets from which the shares of queues say something."""
_UNEVEN_SECONDS = 2
"""Tolerance between the seconds of sender and receiver."""
_TOP_CLOCK = 0.99
"""Share of the highest clock below which a processor is throttled; turbo shows as 1 MHz more."""


def saturated(pps: float, offered_pps: float) -> bool:
    """Whether the router forwards nearly all offered packets, so the generator is the limit.

    Such a sample is valid, but shows neither gains nor small drops. False if more packets were
    received than offered.
    """
    return 0 < SATURATED_SHARE * offered_pps <= pps <= RECEIVED_SHARE * offered_pps


@dataclass(frozen=True, slots=True)
class PortState:
    """State of a data port; unknown values are "" or None."""

    name: str
    link: str = ""
    """Status of ifconfig(8): `active`, `no carrier`."""
    packets: int | None = None
    """In and out since boot, as the other counters."""
    errors: int | None = None
    """In and out. None for router ports, where errors include overload."""
    damaged: int | None = None
    """Packets with CRC errors."""
    queues: dict[str, int] = field(default_factory=dict)
    """Packets by queue of the driver: `tx 0`."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """State of the machines of a testbed."""

    ports: dict[str, PortState] = field(default_factory=dict)
    """By role: `the router's ingress`, `the generator`, `the receiver`."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings that must not change during a run: sysctls, modules, versions."""
    clock: float | None = None
    """Clock of the router's slowest processor, MHz."""
    top_clock: float | None = None
    """Highest clock, MHz; None if unknown or chosen by the hardware."""
    tripped: tuple[str, ...] = ()
    """Thermal sensors that throttled a processor since the last reading."""
    hot: tuple[str, ...] = ()
    """Sensors at or above their throttling temperature, with both values."""
    programs: dict[str, float] = field(default_factory=dict)
    """Router programs by name: percent of one processor, average of the last minute."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Record of a run; rates in packets per second."""

    pps: float
    """Received rate; 0 if unknown."""
    offered_pps: Mapping[str, float]
    """Offered rate by generator, as the reports name it; 0 if unknown."""
    line_rate: float
    """Requested rate of all generators together."""
    offered: Mapping[str, Sequence[float]]
    """Per second by generator, from the first second with packets to the last."""
    received: Mapping[str, Sequence[float]]
    """Per second by receiver."""
    before: MachineState
    after: MachineState
    wanted: dict[str, str] = field(default_factory=dict)
    """Requested settings."""
    link_changes: tuple[str, ...] = ()
    """Data ports that lost their link since `before`, from the logs, with counts."""
    flows: int = 0
    """Number of flows; 0 if unknown."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Share of the requested rate that each generator must offer; empty: equal shares."""


def problems(run: RunRecord) -> list[str]:
    """Problems of a run, one sentence each; empty if it is valid."""
    return [
        *_load(run),
        *_links(run),
        *_errors(run),
        *_settings(run),
        *_throttling(run),
        *_other_load(run.before),
    ]


def warnings(run: RunRecord) -> list[str]:
    """What a reader of a valid run should know, one sentence each."""
    return [*_drift(run), *_shared_queues(run)]


def _drift(run: RunRecord) -> Iterator[str]:
    # A router beyond its limit forwards the same of a load that is a few percent higher; a load
    # that is too low is a problem, and one below the limit is marked as saturated.
    for who, rates in run.offered.items():
        change = _change(rates[1:-2])
        if abs(change) > DRIFT:
            yield f"the rate of {who} drifted by {100 * change:+.1f} % within the run"


def _shared_queues(run: RunRecord) -> Iterator[str]:
    """Ports where a queue takes more than half of the way from its even share to all packets."""
    if run.flows == 1:
        return
    for part, after in run.after.ports.items():
        before = run.before.ports.get(part)
        for direction in ("rx", "tx"):
            grown = {
                queue: packets - (before.queues.get(queue, 0) if before else packets)
                for queue, packets in after.queues.items()
                if queue.startswith(f"{direction} ")
            }
            total = sum(grown.values())
            if len(grown) < 2 or total < _LEAST_PACKETS:  # noqa: PLR2004 - one queue takes all
                continue
            busiest = max(grown, key=lambda queue: grown[queue])
            share = grown[busiest] / total
            if share > (1 + 1 / len(grown)) / 2:
                yield (
                    f"flows meet on one queue: {100 * share:.0f} % of the packets of {part} "
                    f"({after.name}) went through {busiest} of {len(grown)} queues"
                )


def _load(run: RunRecord) -> Iterator[str]:
    sent = [len(rates) for rates in run.offered.values()]
    wanted = {who: run.line_rate * run.shares.get(who, 1 / len(sent)) for who in run.offered}
    known = [who for who, pps in run.offered_pps.items() if pps]
    alone = {
        who: _load_of(who, run.offered_pps[who], run.offered[who], wanted[who]) for who in known
    }
    # The others end before a slow generator, which takes longer for the same packets.
    last = max((len(run.offered[who]) for who in known if not alone[who]), default=0)
    for who in known:
        rates = run.offered[who]
        padded = [*rates, *(last - len(rates)) * [0.0]]  # no packets after an early end
        problem = alone[who] or _load_of(who, run.offered_pps[who], padded, wanted[who])
        if problem:
            yield problem
    total = sum(run.offered_pps.values())
    if all(run.offered_pps.values()) and run.pps > RECEIVED_SHARE * total:
        yield f"received {run.pps:,.0f} pps, more than was offered"
    arrived = max((len(_inside(received)) for received in run.received.values()), default=0)
    if len(sent) > 1 and arrived > (1 + SLOW_SECONDS) * max(sent) + _UNEVEN_SECONDS:
        yield (
            f"the generators did not send at the same time: each sent for at most {max(sent)} "
            f"seconds, and packets arrived for {arrived}"
        )


def _load_of(who: str, pps: float, rates: Sequence[float], wanted: float) -> str:
    """The problem of one generator, by its median, its seconds and its share of the load, or ""."""
    steady = rates[1:-2]  # the first second is a ramp, the last two are a tail
    slow = sum(rate < FALTERING_SHARE * wanted for rate in steady)
    if pps < OFFERED_SHARE * wanted:
        return f"{who} offered {pps:,.0f} pps, less than 99 % of {wanted:,.0f}"
    if slow > SLOW_SECONDS * len(steady):
        return (
            f"{who} offered less than 95 % of {wanted:,.0f} pps in {slow} of {len(steady)} seconds"
        )
    return ""


def _change(rates: Sequence[float]) -> float:
    """Relative change of the median from the first to the last third."""
    third = len(rates) // 3
    if not third:
        return 0.0
    first, last = statistics.median(rates[:third]), statistics.median(rates[-third:])
    return last / first - 1 if first else 0.0


def _links(run: RunRecord) -> Iterator[str]:
    for when, look in (("before", run.before), ("after", run.after)):
        for part, port in look.ports.items():
            if port.link not in ("", "active"):
                yield f"{part} ({port.name}) has no link {when} the run: {port.link}"
    # netmap takes links down on open and close; a logged link change counts only with
    # missing packets.
    sent = [sum(rate > 0 for rate in rates) for rates in run.offered.values()]
    lost = max((missing(sent, received) for received in run.received.values()), default=0)
    if run.link_changes and lost:
        seconds = "second" if lost == 1 else "seconds"
        ports = ", ".join(run.link_changes)
        yield f"packets were missing for {lost} {seconds}, and links went down: {ports}"


def _inside(received: Sequence[float]) -> Sequence[float]:
    """From the first second with packets to the last, without stray ones before and after."""
    least = STRAY_SHARE * max(received, default=0.0)
    busy = [index for index, rate in enumerate(received) if rate > least]
    return received[busy[0] : busy[-1] + 1] if busy else ()


def missing(sent: Collection[int], received: Sequence[float]) -> int:
    """Seconds of a run without the packets of half a generator or more, by the median rate.

    Includes the seconds after an early end of the receiver; 0 if nothing was received.

    Args:
        sent: Seconds with packets of each generator.
        received: Rates of one receiver.
    """
    rates = _inside(received)
    if not rates or not sent:
        return 0
    # The ramp of the sender may span two seconds of the receiver, and so may the ends of several.
    tail = 1 + max(sent) - min(sent) + (len(sent) > 1)
    together = rates[2 : max(0, len(rates) - tail)]
    usual = statistics.median(rate for rate in rates if rate > 0)
    least = (1 - (1 - _GAP) / len(sent)) * usual
    early = max(sent) - len(rates) - _UNEVEN_SECONDS
    return sum(rate < least for rate in together) + max(0, early)


def _errors(run: RunRecord) -> Iterator[str]:
    for part, after in run.after.ports.items():
        before = run.before.ports.get(part)
        if before is None:
            continue
        packets = _more(before.packets, after.packets) or 0
        for kind in ("damaged", "errors"):
            more = _more(getattr(before, kind), getattr(after, kind))
            if more and more > ERROR_SHARE * packets:
                what = "packets with a wrong CRC" if kind == "damaged" else "errors"
                yield f"{part} ({after.name}) counted {more:,} {what} during the run"
                break  # damaged packets are among the errors


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _settings(run: RunRecord) -> Iterator[str]:
    for name, wanted in run.wanted.items():
        found = run.before.settings.get(name, wanted)
        if found != wanted:
            yield f"{name} was {found!r} before the run, ordered was {wanted!r}"
    for name, before in run.before.settings.items():
        after = run.after.settings.get(name, before)
        if after != before:
            yield f"{name} changed during the run, from {before!r} to {after!r}"


def _throttling(run: RunRecord) -> Iterator[str]:
    for when, look in (("before", run.before), ("after", run.after)):
        top = look.top_clock
        if look.clock is not None and top is not None and look.clock < _TOP_CLOCK * top:
            yield f"the router ran at {look.clock:g} MHz of {top:g} {when} the run"
            break
    tripped = [place for place in run.after.tripped if place not in run.before.tripped]
    if tripped:
        yield f"the router was throttled for its heat during the run: {', '.join(tripped)}"
    if run.after.hot:
        yield f"the router was too hot after the run: {', '.join(run.after.hot)}"


def _other_load(before: MachineState) -> Iterator[str]:
    total = sum(before.programs.values())
    if total >= OTHER_LOAD_PERCENT:
        chief = max(before.programs, key=lambda name: before.programs[name])
        yield (
            f"other programs took {total:.0f} % of a processor of the router before the run, "
            f"{chief} most of it"
        )
