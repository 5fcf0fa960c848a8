"""Decides whether what a run gave is a sample: the gate before everything that is computed.

It looks at what was offered and received, second by second, and at the machines before and
after the run. What a machine does not tell is unknown, and unknown is no problem. Whatever
speaks against a run is a sentence; a run with one of them is kept and shown, and never used.

Needs the standard library alone, as all that runs on the hosts of a lab.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SATURATED_SHARE = 0.98
"""Of what was offered, from which on a rate is the generator's and not the router's."""
OFFERED_SHARE = 0.99
"""Of the line rate that the generator must reach for a run to count."""
RECEIVED_SHARE = 1.005
"""Of what was offered, that can be received: clocks of two hosts differ, packets do not grow."""
DRIFT = 0.01
"""By which the offered rate may change from the first to the last third of a run."""
FALTERING_SHARE = 0.95
"""Of the line rate, below which a second is a slow one; good generators of 10 Gbit/s wobble by
2 % from second to second."""
SLOW_SECONDS = 0.1
"""Of a run's seconds, that may be slow."""
ERROR_SHARE = 1e-5
"""Of the packets of a run, that may be errors: links that come up count a few of them."""
OTHER_LOAD_PERCENT = 20.0
"""Of one processor of the router, that its programs may take together before the traffic starts."""
_GAP = 0.5
"""Of the median, below which a second in the midst of a run is a gap."""
_UNEVEN_SECONDS = 2
"""By which a sender and a receiver may differ in when their seconds begin and end."""
_TOP_CLOCK = 0.99
"""Of the highest clock, below which a processor is throttled; turbo is written as 1 MHz more."""


def saturated(pps: float, offered_pps: float) -> bool:
    """The router forwards (nearly) all that it is offered: the rate is the generator's.

    Such a sample is valid, but can neither improve nor show a small drop. Where more came than
    was offered, what was offered is not known, and the answer is no.
    """
    return 0 < SATURATED_SHARE * offered_pps <= pps <= RECEIVED_SHARE * offered_pps


@dataclass(frozen=True, slots=True)
class Port:
    """A data port at one moment; what is not known is "" or None."""

    name: str
    link: str = ""
    """As ifconfig(8) says: `active`, `no carrier`."""
    packets: int | None = None
    """In and out since the machine started, as the other counters."""
    errors: int | None = None
    """In and out. On a router's port this must stay None: there they count overload too."""
    damaged: int | None = None
    """Packets that arrived with a wrong CRC."""


@dataclass(frozen=True, slots=True)
class Look:
    """The machines of a testbed at one moment."""

    ports: dict[str, Port] = field(default_factory=dict)
    """By what they are: `the router's ingress`, `the generator`, `the receiver`."""
    settings: dict[str, str] = field(default_factory=dict)
    """What must stay as it is during a run: sysctls, modules, versions."""
    clock: float | None = None
    """Of the router's slowest processor, MHz."""
    top_clock: float | None = None
    """The highest it has, MHz; None also where the hardware chooses by itself."""
    tripped: tuple[str, ...] = ()
    """Thermal sensors that have throttled a processor since they were last read."""
    hot: tuple[str, ...] = ()
    """Places at or above the temperature from which on they are throttled, with both."""
    programs: dict[str, float] = field(default_factory=dict)
    """On the router, by name: percent of one processor, averaged over the last minute."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that is known of a run; rates in packets per second."""

    pps: float
    """What was received; 0 when nothing can be said."""
    offered_pps: float
    """What was offered; 0 when nothing can be said."""
    line_rate: float
    """What was to be offered."""
    offered: Sequence[float]
    """Second by second, from the first with packets to the last."""
    received: Sequence[float]
    before: Look
    after: Look
    wanted: dict[str, str] = field(default_factory=dict)
    """Settings as they were ordered."""
    link_changes: tuple[str, ...] = ()
    """Data ports that lost their link since `before`, by the machines' logs, and how often."""


def problems(run: Run) -> list[str]:
    """Why this is not a sample, one sentence each; nothing when it is one."""
    return [
        *_load(run),
        *_links(run),
        *_errors(run),
        *_settings(run),
        *_throttling(run),
        *_other_load(run.before),
    ]


def _load(run: Run) -> Iterator[str]:
    if not run.offered_pps:
        return
    least = OFFERED_SHARE * run.line_rate
    steady = run.offered[1:-2]  # the first second is a ramp, the last two are a tail
    slow = sum(rate < FALTERING_SHARE * run.line_rate for rate in steady)
    change = _change(steady)
    if run.offered_pps < least:
        yield (
            f"the generator offered {run.offered_pps:,.0f} pps, less than 99 % of "
            f"{run.line_rate:,.0f}"
        )
    elif slow > SLOW_SECONDS * len(steady):
        yield (
            f"the generator offered less than 95 % of {run.line_rate:,.0f} pps "
            f"in {slow} of {len(steady)} seconds"
        )
    if abs(change) > DRIFT:
        yield f"the rate of the generator drifted by {100 * change:+.1f} % within the run"
    if run.pps > RECEIVED_SHARE * run.offered_pps:
        yield f"received {run.pps:,.0f} pps, more than was offered"


def _change(rates: Sequence[float]) -> float:
    """From the first to the last third, relative; medians, so that single seconds do not matter."""
    third = len(rates) // 3
    if not third:
        return 0.0
    first, last = statistics.median(rates[:third]), statistics.median(rates[-third:])
    return last / first - 1 if first else 0.0


def _links(run: Run) -> Iterator[str]:
    for when, look in (("before", run.before), ("after", run.after)):
        for part, port in look.ports.items():
            if port.link not in ("", "active"):
                yield f"{part} ({port.name}) has no link {when} the run: {port.link}"
    # Opening and closing a port for netmap takes its link down too, at both of its ends. So a
    # line in a log is a flap only when packets were missing while they were sent.
    lost = missing(run.offered, run.received)
    if run.link_changes and lost:
        seconds = "second" if lost == 1 else "seconds"
        ports = ", ".join(run.link_changes)
        yield f"packets were missing for {lost} {seconds}, and links went down: {ports}"


def missing(offered: Sequence[float], received: Sequence[float]) -> int:
    """Seconds of a run in which less than half of the usual came.

    A receiver ends by itself when nothing comes any more, so the seconds at its end in which
    packets were still sent are among them. 0 where nothing came at all.
    """
    busy = [index for index, rate in enumerate(received) if rate > 0]
    if not busy:
        return 0
    # A sender's first second is a ramp, and may lie in two seconds of a receiver.
    inside = received[busy[0] + 2 : busy[-1]]
    usual = statistics.median(received[index] for index in busy)
    sent = sum(rate > 0 for rate in offered)
    early = sent - (busy[-1] - busy[0] + 1) - _UNEVEN_SECONDS
    return sum(rate < _GAP * usual for rate in inside) + max(0, early)


def _errors(run: Run) -> Iterator[str]:
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


def _settings(run: Run) -> Iterator[str]:
    for name, wanted in run.wanted.items():
        found = run.before.settings.get(name, wanted)
        if found != wanted:
            yield f"{name} was {found!r} before the run, ordered was {wanted!r}"
    for name, before in run.before.settings.items():
        after = run.after.settings.get(name, before)
        if after != before:
            yield f"{name} changed during the run, from {before!r} to {after!r}"


def _throttling(run: Run) -> Iterator[str]:
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


def _other_load(before: Look) -> Iterator[str]:
    total = sum(before.programs.values())
    if total >= OTHER_LOAD_PERCENT:
        chief = max(before.programs, key=lambda name: before.programs[name])
        yield (
            f"other programs took {total:.0f} % of a processor of the router before the run, "
            f"{chief} most of it"
        )
