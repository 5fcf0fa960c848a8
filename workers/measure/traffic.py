"""Runs pkt-gen at both ends of a testbed."""

from __future__ import annotations

import contextlib
import math
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config import pktgen_options
from netbisect.workers.config.scenario import Scenario, Traffic
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import drivers, freebsd_tools, ports
from netbisect.workers.measure import pktgen
from netbisect.workers.transport.errors import LabFault, UnreachableError, bench_faults
from netbisect.workers.transport.ssh import SSH_FAILED, Connections, Machine, Process

_READY_SECONDS = 30.0
"""For the receivers to open their ports, besides `link_wait`."""
_READY_POLL = 0.01
_FLOWING = 3
"""Seconds of packets until the load is steady."""
_END_SECONDS = 10.0
"""For pkt-gen to end after a signal."""


@dataclass(frozen=True, slots=True)
class PktGen:
    """A running pkt-gen and its growing output."""

    who: str
    """Its name in reports, such as `the generator`."""
    machine: Machine
    process: Process
    log: Path
    share: float
    """Share of the packets that all generators offer together."""
    port: str
    """Name of its interface."""

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def check_connection(self, status: int | None) -> None:
        """Checks that ssh, with this exit status, kept the connection during the run.

        Raises:
            UnreachableError: connection lost.
        """
        said = pktgen.refused(self.output) or pktgen.complaint(self.output)
        if status == SSH_FAILED and not said:
            raise UnreachableError(self.machine.address, "the connection was lost during the run")


@dataclass(frozen=True, slots=True)
class Flows:
    """The running generators and receivers."""

    sending: Sequence[PktGen]
    receiving: Sequence[PktGen]

    @property
    def outputs(self) -> pktgen.Outputs:
        """What all have printed so far."""
        return pktgen.Outputs(
            {one.who: one.output for one in self.sending},
            {one.who: one.output for one in self.receiving},
            {one.who: one.share for one in self.sending},
        )


@dataclass(frozen=True, slots=True)
class _Order:
    """A pkt-gen to start."""

    part: str
    """Part of the testbed."""
    command: list[str]
    port: str
    """Name of the interface."""
    mark: str = ""
    """Distinguishes several of one part: `60 bytes`."""
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class TrafficRunner:
    """The generators and receivers of one testbed."""

    testbed: Testbed
    connections: Connections
    find: Callable[[str], ports.Interface]
    """The interface of a part of the testbed."""
    logs: Path

    def run(self, scenario: Scenario, name: str, seconds: float) -> pktgen.Outputs:
        """Sends packets; returns the output of all pkt-gens.

        Args:
            scenario: Traffic; the router is not set up.
            name: Base name of the log files.
            seconds: Duration.

        Raises:
            LabFault: the run did not take place.
        """
        timing, mixed = self.testbed.timing, bool(traffic_of(scenario).mix)
        # A pkt-gen that ends resets its port, also for those that send from its other rings, so all
        # of a mix are ended together (and a receiver on their host with them).
        longest = max(seconds, timing.run_timeout) if mixed else seconds
        with self._flows(scenario, name, longest) as flows:
            if mixed:
                self._wait_for(
                    flows.sending,
                    flows.sending,
                    lambda output: _seconds(output) >= seconds,
                    timing.run_timeout,
                )
                _stop(flows.sending)
            _wait(flows.sending, timing.run_timeout)
            ended = [(one, one.process.poll()) for one in flows.sending]
            for one in flows.sending:
                one.process.kill()  # one that hangs
            self._wait_for(flows.receiving, flows.receiving, _silent)
            _stop(flows.receiving)
            for one, status in (*ended, *((one, one.process.poll()) for one in flows.receiving)):
                one.check_connection(status)
        return flows.outputs

    @contextlib.contextmanager
    def steady(self, scenario: Scenario, name: str, seconds: float) -> Iterator[Flows]:
        """Sends packets inside the block, for at most `seconds`; they already flow.

        Raises:
            LabFault: no packets.
        """
        longest = self.testbed.timing.run_timeout + seconds
        with self._flows(scenario, name, longest, seconds) as flows:
            if not self._wait_for(flows.sending, flows.receiving, _flowing):
                dry = [one.who for one in flows.receiving if not _flowing(one.output)]
                why = f"{' and '.join(dry) or 'the receiver'} sees no packets"
                raise LabFault(Fault.NO_TRAFFIC, why, stage=Stage.BENCH)
            yield flows
            _stop(flows.sending)
            _stop(flows.receiving)

    @contextlib.contextmanager
    def _flows(
        self, scenario: Scenario, name: str, seconds: float, more: float = 0.0
    ) -> Iterator[Flows]:
        """Receivers and senders, running within the block.

        Args:
            scenario: Traffic.
            name: Base name of the log files.
            seconds: Duration.
            more: Seconds until every pkt-gen ends, besides `run_timeout`.

        Raises:
            LabFault: a machine does not answer, a command failed, or a port was not found.
        """
        timing = self.testbed.timing
        self.logs.mkdir(parents=True, exist_ok=True)
        # Ends every pkt-gen, even if this process dies.
        limit = ["timeout", "-s", "INT", f"{math.ceil(timing.run_timeout + more)}"]
        with bench_faults(self.testbed), contextlib.ExitStack() as stack:

            def start(orders: Iterable[_Order]) -> list[PktGen]:
                return [stack.enter_context(self._running(one, limit, name)) for one in orders]

            senders, receivers = self._senders(scenario, seconds), self._receivers()
            receiving = start(receivers)
            # A late receiver loses seconds of the run, which the checks of the sample detect.
            self._wait_for(receiving, receiving, pktgen.ready)
            time.sleep(timing.settle)
            yield Flows(start(senders), receiving)

    @contextlib.contextmanager
    def _running(self, order: _Order, limit: list[str], name: str) -> Iterator[PktGen]:
        end = f"{order.part} {order.mark}".strip()
        log = self.logs / f"{name}.{end.replace('generator', 'sender').replace(' ', '-')}"
        machine = self.connections.machine(self.testbed.ports[order.part][0])
        who = self.testbed.roles[order.part]
        who += f" ({order.mark})" if order.mark else ""
        with machine.running([*limit, *order.command], log) as process:
            yield PktGen(who, machine, process, log, order.share, order.port)

    def _wait_for(
        self,
        alive: Sequence[PktGen],
        among: Sequence[PktGen],
        holds: Callable[[str], bool],
        limit: float = _READY_SECONDS,
    ) -> bool:
        """Waits for a condition on the output of all of `among`.

        False if one of `alive` has ended, or after `limit` seconds besides `link_wait`.
        """
        deadline = time.monotonic() + self.testbed.timing.link_wait + limit
        while time.monotonic() < deadline and all(one.process.poll() is None for one in alive):
            if all(holds(one.output) for one in among):
                return True
            time.sleep(_READY_POLL)
        return False

    def _receivers(self) -> Iterator[_Order]:
        wait = self.testbed.timing.link_wait
        for part, host in self.testbed.hosts("receiver").items():
            port = self.find(part).name
            yield _Order(part, pktgen.receiver_command(port, wait, host), port)

    def _senders(self, scenario: Scenario, seconds: float) -> list[_Order]:
        """Each generator sends an equal share of the packets, and of each size of a mix.

        Raises:
            LabFault: a port has fewer rings than a mix has sizes.
        """
        testbed, traffic = self.testbed, traffic_of(scenario)
        number, offered = len(testbed.generators), testbed.offered_rate(traffic)
        wait = testbed.timing.link_wait
        orders = []
        for part, host in testbed.hosts("generator").items():
            port, beyond = self.find(part), testbed.wires[part]
            macs = port.mac, testbed.ports[beyond][1].mac or self.find(beyond).mac
            machine = self.connections.machine(host.address)
            if why := lacking_rings(machine, port.name, len(traffic.mix)):
                raise LabFault(Fault.SCENARIO, f"{scenario.name}: {testbed.roles[part]}: {why}")
            for ring, (size, share) in enumerate(traffic.sizes.items()):
                rate = offered * share / number
                one, place, sender, mark = traffic, port.name, host, ""
                if traffic.mix:
                    place, mark = pktgen_options.of_ring(port.name, ring), f"{size} bytes"
                    cpu = None if host.first_cpu is None else host.first_cpu + ring
                    sender = replace(host, threads=1, first_cpu=cpu)
                    one = replace(traffic, size=size, mix=(), rate=max(1, round(rate)))
                elif traffic.rate:
                    one = replace(traffic, rate=max(1, traffic.rate // number))
                command = pktgen.sender_command(
                    place, one, int(rate * seconds), sender, macs=macs, wait=wait
                )
                orders.append(_Order(part, command, port.name, mark, share / number))
        return orders


def rings(machine: Machine, interface: str, way: str) -> int:
    """Number of rings to send or receive (`tx`, `rx`); 0: unknown, of drivers without iflib(4)."""
    places = drivers.count_sysctls(interface)
    output = machine.ask(["sysctl", "-ie", *places])[0] if places else ""
    return drivers.iflib_queues(interface, way, freebsd_tools.parse_sysctls(output))


def lacking_rings(machine: Machine, interface: str, sizes: int) -> str:
    """Why a port cannot send a mix of so many sizes, each from a ring of its own, or ""."""
    count = rings(machine, interface, "tx") if sizes else 0
    if not 0 < count < sizes:
        return ""
    return (
        f"{interface} has {count} of {sizes} transmit rings that the mix needs, one for each size"
    )


def _stop(running: Sequence[PktGen]) -> None:
    """Ends those that still run, but none of other testbeds on the same host."""
    for machine, port in {(one.machine, one.port) for one in running if one.process.poll() is None}:
        machine.try_run(["pkill", "-INT", "-x", "-f", f"pkt-gen .*[ :]{port}[- ].*"])
    _wait(running, _END_SECONDS)


def _wait(running: Sequence[PktGen], limit: float) -> None:
    """Waits until all have ended, for at most `limit` seconds."""
    deadline = time.monotonic() + limit
    for one in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, deadline - time.monotonic()))


def traffic_of(scenario: Scenario) -> Traffic:
    """The packets of a scenario.

    Raises:
        LabFault: it has none.
    """
    if scenario.traffic is None:
        why = f"{scenario.name} has no [traffic]; expected a scenario that pkt-gen sends"
        raise LabFault(Fault.SCENARIO, why)
    return scenario.traffic


def _silent(receiver: str) -> bool:
    """Whether the last packets have arrived, by the output of a receiver."""
    rates = pktgen.all_rates(receiver)
    return bool(rates) and rates[-1] <= sample_validity.STRAY_SHARE * max(rates)


def _flowing(receiver: str) -> bool:
    """Whether the load is steady, by the output of the receiver."""
    return _seconds(receiver) >= _FLOWING


def _seconds(output: str) -> int:
    """Number of seconds with packets."""
    return sum(rate > 0 for rate in pktgen.all_rates(output))
