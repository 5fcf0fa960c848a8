"""Packets on their way: from a generator's port through a router to a receiver's port.

What a sender sends is written down when it starts, second by second. What arrives in a span of
time follows from that, from what the router forwards and from the luck of the seconds; so a
program that wakes up late prints the same numbers as one that is on time.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from netbisect.demo.lab.config import Wire
from netbisect.demo.lab.faults import Fault
from netbisect.demo.lab.machine import Host
from netbisect.demo.lab.router import Router

_OVERHEAD_BYTES = 24
"""CRC, preamble and gap that every frame takes on the wire besides."""
_RAMP = 0.36
"""Of the rate, in a sender's first second."""
_SLOW = 0.6
_FADE = 0.001
"""Of its rate, that a fading sender loses in a second."""
_FLAP_AFTER, _FLAP = 12.0, 3.0
"""Seconds of traffic until the link goes down, and for how long."""
_DAMAGE = 0.001
"""Of the packets that pass a bad cable."""


@dataclass(frozen=True, slots=True)
class Second:
    """One line of a sender: from, to, packets."""

    begin: float
    end: float
    packets: int


@dataclass(slots=True)
class Flow:
    """What one sender sends."""

    family: str
    size: int
    destination_mac: str
    seconds: tuple[Second, ...]
    stopped: float = math.inf
    """When it was interrupted."""

    def packets(self, begin: float, end: float) -> float:
        """How many leave the sender in that span."""
        total = 0.0
        for second in self._during(begin, end):
            overlap = self._overlap(second, begin, end)
            total += second.packets * overlap / (second.end - second.begin)
        return total

    def busy(self, begin: float, end: float) -> float:
        """For how long of that span it sends, in seconds."""
        return sum(self._overlap(second, begin, end) for second in self._during(begin, end))

    def _during(self, begin: float, end: float) -> tuple[Second, ...]:
        first = bisect_left(self.seconds, begin, key=lambda second: second.end)
        return self.seconds[first : bisect_left(self.seconds, end, key=lambda one: one.begin)]

    def _overlap(self, second: Second, begin: float, end: float) -> float:
        return max(0.0, min(end, second.end, self.stopped) - max(begin, second.begin))


def schedule(
    start: float, count: int, pps: float, luck: random.Random, fade: float = 0.0
) -> Iterable[Second]:
    """The seconds of a sender that sends `count` packets at `pps`, and less as it fades."""
    left, begin, share = count, start, _RAMP
    while left > 0:
        length = 1.0 + luck.uniform(0.0004, 0.0014)
        packets = int(pps * length * share * (1 + luck.gauss(0, 0.0004)))
        if packets >= left:
            yield Second(begin, begin + length * left / packets, left)
            return
        yield Second(begin, begin + length, packets)
        left, begin, share = left - packets, begin + length, 1.0
        pps *= 1 - fade


@dataclass(slots=True)
class Link:
    """A wire with what is on it."""

    wire: Wire
    router: Router
    generator: Host
    receiver: Host
    flow: Flow | None = None
    outage: tuple[float, float] | None = None
    """From when to when its link is down."""

    def introduce(self) -> None:
        """The router is told who is at both ends, as by static entries in its rc.conf."""
        wire = self.wire
        self.router.neighbours = {
            part: next(one.mac for one in host.ports if one.name == port)
            for part, host, port in (
                ("ingress", self.generator, wire.generator_port),
                ("egress", self.receiver, wire.receiver_port),
            )
        }

    def line_rate(self, size: int) -> float:
        """Packets of `size` bytes that fit on it, per second."""
        share = _SLOW if Fault.SLOW_SENDER in self.generator.faults else 1.0
        return share * self.wire.bits / (8 * (size + _OVERHEAD_BYTES))

    @property
    def fade(self) -> float:
        """Of its rate, that the sender loses in a second."""
        return _FADE if Fault.FADING_SENDER in self.generator.faults else 0.0

    def bounce(self, host: Host, port: str) -> None:
        """A port is opened or closed for netmap: its link goes down and comes up, at both ends."""
        host.link_changed(port, "DOWN", "UP")
        sends = (host.name, port) == (self.generator.name, self.wire.generator_port)
        self.router.link_changed(self.router.ports[0 if sends else 1].name, "DOWN", "UP")

    def send(self, flow: Flow) -> None:
        """A sender starts."""
        self.flow = flow
        self.outage = None
        if self._any(Fault.LINK_FLAPS):
            start = flow.seconds[0].begin + _FLAP_AFTER
            self.outage = start, start + _FLAP
            self.bounce(self.generator, self.wire.generator_port)
        self.router.bear_load()

    def sent(self, flow: Flow) -> None:
        """A sender has ended: the ports count what passed them."""
        total = round(flow.packets(0, math.inf))
        forwarded = min(total, round(self.router.capacity(flow.family) * flow.busy(0, math.inf)))
        ingress, egress = (self.router.counters[port.name] for port in self.router.ports)
        generator = self.generator.counters[self.wire.generator_port]
        receiver = self.receiver.counters[self.wire.receiver_port]
        generator.sent += total
        # As Intel's drivers do: what the router had no room for is an error, too.
        ingress.received += forwarded
        ingress.received_errors += total - forwarded
        egress.sent += forwarded
        receiver.received += forwarded
        for machine, counters, packets in (
            (self.router, ingress, total),
            (self.receiver, receiver, forwarded),
        ):
            if Fault.BAD_CABLE in machine.faults:
                counters.damaged += round(_DAMAGE * packets)
                counters.received_errors += round(_DAMAGE * packets)

    def _any(self, fault: Fault) -> bool:
        return any(fault in one.faults for one in (self.router, self.generator, self.receiver))

    def arriving(self, begin: float, end: float, factor: float) -> int:
        """Packets that reach the receiver in that span; `factor` is the luck of the second."""
        flow = self.flow
        if flow is None or self._any(Fault.CABLE_OUT):
            return 0
        if flow.destination_mac != self.router.ports[0].mac:
            return 0
        down, up = self.outage or (end, end)
        spans = ((begin, min(end, down)), (max(begin, up), end))
        capacity = self.router.capacity(flow.family) * factor
        return sum(
            int(min(flow.packets(first, last), capacity * flow.busy(first, last)))
            for first, last in spans
            if first < last
        )


class Network:
    """All wires of the lab."""

    def __init__(self, links: Iterable[Link]) -> None:
        self.links = tuple(links)

    def from_generator(self, host: str, port: str) -> Link | None:
        """The link a sender on that port feeds."""
        for link in self.links:
            if (link.wire.generator, link.wire.generator_port) == (host, port):
                return link
        return None

    def through(self, router: str) -> Link | None:
        """The link that a router is in the middle of."""
        return next((link for link in self.links if link.wire.router == router), None)

    def to_receiver(self, host: str, port: str) -> Link | None:
        """The link that ends at that port."""
        for link in self.links:
            if (link.wire.receiver, link.wire.receiver_port) == (host, port):
                return link
        return None
