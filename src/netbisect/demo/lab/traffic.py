"""Traffic from a generator port through a router to a receiver port.

The schedule of a sender is fixed at its start. Received packets follow from the schedule, the rate
of the router and the noise of the seconds, so that a late reader sees the same numbers.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import Host
from netbisect.demo.lab.router import SimulatedRouter

_OVERHEAD_BYTES = 24
"""Bytes of CRC, preamble and gap per frame."""
_RAMP = 0.36
"""Share of the rate in the first second of a sender."""
_SLOW = 0.6
_FLAP_AFTER, _FLAP = 12.0, 3.0
"""Seconds of traffic until the link goes down, and duration."""
_DAMAGE = 0.001
"""Share of packets corrupted by a bad cable."""
_ON_THE_WAY = 2000.0
"""Nanoseconds of an empty packet from host to host, without the router's work."""


@dataclass(frozen=True, slots=True)
class Second:
    """A second of a sender: begin, end, packets."""

    begin: float
    end: float
    packets: int


@dataclass(slots=True)
class Flow:
    """The packets of a sender."""

    family: str
    size: int
    destination_mac: str
    seconds: tuple[Second, ...]
    stopped: float = math.inf
    """Time of the interrupt."""
    flows: int = 1
    """Pairs of its ends."""

    def packets(self, begin: float, end: float) -> float:
        """Number of packets sent in an interval."""
        total = 0.0
        for second in self._during(begin, end):
            overlap = self._overlap(second, begin, end)
            total += second.packets * overlap / (second.end - second.begin)
        return total

    def busy(self, begin: float, end: float) -> float:
        """Seconds of sending in an interval."""
        return sum(self._overlap(second, begin, end) for second in self._during(begin, end))

    def _during(self, begin: float, end: float) -> tuple[Second, ...]:
        first = bisect_left(self.seconds, begin, key=lambda second: second.end)
        return self.seconds[first : bisect_left(self.seconds, end, key=lambda one: one.begin)]

    def _overlap(self, second: Second, begin: float, end: float) -> float:
        return max(0.0, min(end, second.end, self.stopped) - max(begin, second.begin))


def schedule(start: float, count: int, pps: float, noise: random.Random) -> Iterable[Second]:
    """The seconds of a sender of `count` packets at `pps`."""
    left, begin, share = count, start, _RAMP
    while left > 0:
        length = 1.0 + noise.uniform(0.0004, 0.0014)
        packets = int(pps * length * share * (1 + noise.gauss(0, 0.0004)))
        if packets >= left:
            yield Second(begin, begin + length * left / packets, left)
            return
        yield Second(begin, begin + length, packets)
        left, begin, share = left - packets, begin + length, 1.0


@dataclass(slots=True)
class SimulatedLink:
    """Generator port -> router -> receiver port, and their traffic."""

    router: SimulatedRouter
    ingress: int
    """Position of the router's port."""
    generator: Host
    generator_port: str
    receiver: Host
    receiver_port: str
    flows: list[Flow] = field(default_factory=list)
    """Flows of the last senders; several send at the same time from a ring each."""
    outage: tuple[float, float] | None = None
    """Begin and end of the link failure."""
    answers: bool = False
    """Whether the receiver sends packets back."""
    peers: tuple[SimulatedLink, ...] = ()
    """All links of its router; each receiver gets an equal share of their flows."""

    @property
    def egress(self) -> int:
        """Position of the router's port."""
        return self.ingress + 1

    def introduce(self) -> None:
        """Sets addresses, and the neighbours of the router, like static entries in rc.conf."""
        for position, host, port in (
            (self.ingress, self.generator, self.generator_port),
            (self.egress, self.receiver, self.receiver_port),
        ):
            host.addresses[port] = [f"inet 198.{18 + position}.0.1 netmask 0xffffff00"]
            mac = next(one.mac for one in host.ports if one.name == port)
            self.router.neighbours[position] = mac

    def line_rate(self, size: int) -> float:
        """Line rate for packets of `size` bytes, in packets per second."""
        share = _SLOW if InjectedFault.SLOW_SENDER in self.generator.faults else 1.0
        return share * self.router.bed.bits / (8 * (size + _OVERHEAD_BYTES))

    def bounce(self, host: Host, port: str) -> None:
        """Opens or closes a port for netmap: the link goes down and up at both ends."""
        host.link_changed(port, "DOWN", "UP")
        sends = (host.name, port) == (self.generator.name, self.generator_port)
        position = self.ingress if sends else self.egress
        self.router.link_changed(self.router.ports[position].name, "DOWN", "UP")

    def send(self, flow: Flow) -> None:
        """Starts a sender."""
        self.flows = [one for one in self.flows if one.stopped == math.inf] + [flow]
        self.outage = None
        if self._any(InjectedFault.LINK_FLAPS):
            start = flow.seconds[0].begin + _FLAP_AFTER
            self.outage = start, start + _FLAP
            self.bounce(self.generator, self.generator_port)
        self.router.bear_load(flow.flows)

    def sent(self, flow: Flow) -> None:
        """Ends a sender and updates the port counters."""
        total, end = round(flow.packets(0, math.inf)), flow.stopped
        capacity = self.router.capacity(flow.family) / len(self.peers)
        room = capacity * self.busy(0, end)
        forwarded = min(total, round(room * total / max(1.0, self.packets(0, end))))
        self.router.forward(flow.family, forwarded)
        ports = (self.router.ports[one] for one in (self.ingress, self.egress))
        ingress, egress = (self.router.counters[port.name] for port in ports)
        generator = self.generator.counters[self.generator_port]
        receiver = self.receiver.counters[self.receiver_port]
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
            if InjectedFault.BAD_CABLE in machine.faults:
                counters.damaged += round(_DAMAGE * packets)
                counters.received_errors += round(_DAMAGE * packets)

    def packets(self, begin: float, end: float) -> float:
        """Number of packets sent in an interval."""
        return sum(flow.packets(begin, end) for flow in self.flows)

    def busy(self, begin: float, end: float) -> float:
        """Seconds of sending in an interval."""
        return max((flow.busy(begin, end) for flow in self.flows), default=0.0)

    def round_trip(self, mac: str) -> float:
        """Nanoseconds of a packet to the receiver and back; 0 if no answer comes."""
        router = self.router
        capacity = router.capacity("inet4")
        lost = not self.answers or self._any(InjectedFault.CABLE_OUT) or not capacity
        if lost or mac != router.ports[self.ingress].mac:
            return 0.0
        return 2 * (_ON_THE_WAY + 1e9 * router.queues() / capacity)

    def _any(self, fault: InjectedFault) -> bool:
        return any(fault in one.faults for one in (self.router, self.generator, self.receiver))

    @property
    def entering(self) -> list[Flow]:
        """The flows that the router takes from the generator."""
        port = self.router.ports[self.ingress]
        if InjectedFault.CABLE_OUT in self.generator.faults:
            return []
        return [flow for flow in self.flows if flow.destination_mac == port.mac]

    def arriving(self, begin: float, end: float, factor: float) -> int:
        """Packets received in an interval; `factor` is the noise of the second."""
        flows = [flow for one in self.peers for flow in one.entering]
        cut = any(InjectedFault.CABLE_OUT in one.faults for one in (self.router, self.receiver))
        if not flows or cut:
            return 0
        down, up = self.outage or (end, end)
        spans = ((begin, min(end, down)), (max(begin, up), end))
        capacity = self.router.capacity(flows[0].family) * factor
        packets = 0
        for first, last in spans:
            if first < last:
                sent = sum(flow.packets(first, last) for flow in flows)
                busy = max(flow.busy(first, last) for flow in flows)
                packets += int(min(sent, capacity * busy) / len(self.peers))
        return packets


class Network:
    """All wires of the lab."""

    def __init__(self, links: Iterable[SimulatedLink]) -> None:
        self.links = tuple(links)
        for link in self.links:
            link.peers = tuple(one for one in self.links if one.router is link.router)

    def from_generator(self, host: str, port: str) -> SimulatedLink | None:
        """The link of a generator port."""
        ends = {(link.generator.name, link.generator_port): link for link in self.links}
        return ends.get((host, port))

    def through(self, router: str) -> SimulatedLink | None:
        """The link through a router."""
        return next((link for link in self.links if link.router.name == router), None)

    def to_receiver(self, host: str, port: str) -> SimulatedLink | None:
        """The link of a receiver port."""
        ends = {(link.receiver.name, link.receiver_port): link for link in self.links}
        return ends.get((host, port))
