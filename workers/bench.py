"""One scenario on a booted router: rules on, traffic through, a sample out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Boot, Conditions, Sample, Stage
from netbisect.workers import firewall, freebsd, pktgen, ports, userland, vm
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
    traffic_fault,
)
from netbisect.workers.lab import Scenario, Testbed
from netbisect.workers.mux import SSH_FAILED
from netbisect.workers.observe import Seen, Watch, as_data, judge
from netbisect.workers.ssh import Connections, Machine, Process

_READY_SECONDS = 30.0
"""For a receiver to open its port, besides the wait that it is told."""
_READY_POLL = 0.01
_FLOWING = 3
"""Seconds of packets after which a load is steady."""
_END_SECONDS = 10.0
"""For pkt-gen to end when it is told to, or when no more packets come."""


class Bench:
    """The generator, the receiver and the router of one testbed."""

    def __init__(
        self,
        testbed: Testbed,
        connections: Connections,
        say: Callable[[str], None],
        logs: Path,
    ) -> None:
        self.testbed = testbed
        self.router = connections.machine(testbed.dut.address)
        self.generator = connections.machine(testbed.generator.address)
        self.receiver = connections.machine(testbed.receiver.address)
        self.say = say
        self.logs = logs
        self._finder = ports.Finder()
        self._hosts: dict[str, str] = {}
        self._watch = Watch(testbed, self.router, self.generator, self.receiver, self._finder)
        self._runs: Counter[str] = Counter()
        self._knows_programs = False
        """They stay for as long as the router is up."""

    # ------------------------------------------------------------------------------- the run

    def measure(self, scenario: Scenario, boot: Boot) -> tuple[Conditions, Sample]:
        """One run.

        Raises:
            LabFault: there was no run to judge. A run that went wrong is a Sample with problems.
        """
        started = time.time()
        conditions = self._conditions(scenario)
        scenario = self._named(scenario)
        self._set_up(scenario)
        before = self._look(scenario)
        name = self._run_name(scenario)
        sender, receiver = self.traffic(scenario, name, self.testbed.timing.run)
        after = self._look(scenario, before)
        observed = json.dumps(as_data(before, after), indent=1)
        (self.logs / f"{name}.observed.json").write_text(f"{observed}\n")
        pps, offered_pps, problems = judge(
            self.testbed, scenario, (sender, receiver), before, after
        )
        sample = Sample(
            id=uuid.uuid4().hex,
            boot=boot.id,
            testbed=self.testbed.name,
            scenario=scenario.name,
            pps=pps,
            offered_pps=offered_pps,
            received=tuple(pktgen.all_rates(receiver)),
            offered=tuple(pktgen.all_rates(sender)),
            problems=tuple(problems),
            conditions=conditions.digest,
            at=started,
            seconds=time.time() - started,
        )
        return conditions, sample

    @contextlib.contextmanager
    def under_load(
        self, scenario: Scenario, pps: float, seconds: float
    ) -> Iterator[tuple[Path, Path]]:
        """Sends packets at that rate while the block runs, for a look at the router meanwhile.

        Args:
            scenario: Rules and traffic.
            pps: Packets per second to send.
            seconds: That the block takes.

        Yields:
            What sender and receiver say, as files that grow; packets flow when the block begins.

        Raises:
            LabFault: they do not, or the router cannot be set up.
        """
        scenario = self._named(scenario)
        self._set_up(scenario)
        self.logs.mkdir(parents=True, exist_ok=True)
        sent, received = (
            self.logs / f"{scenario.name}.load.{end}" for end in ("sender", "receiver")
        )
        limit = self._limit(seconds)
        try:
            steady = replace(scenario, traffic=replace(scenario.traffic, rate=round(pps)))
            sender = self._sender_command(steady, self.testbed.timing.run_timeout + seconds)
            receiver = pktgen.receiver_command(
                self._interface("receiver").name, self.testbed.timing.link_wait
            )
            with self.receiver.running([*limit, *receiver], received) as receiving:
                self._wait_until_ready(receiving, received)
                time.sleep(self.testbed.timing.settle)
                with self.generator.running([*limit, *sender], sent) as sending:
                    self._wait_for_packets(sending, received)
                    yield sent, received
                    self.generator.try_run(["pkill", "-INT", "-x", "pkt-gen"])
                    self._wait(sending, _END_SECONDS)
                self._wait(receiving, _END_SECONDS)
        except (UnreachableError, HostKeyError, CommandError, ports.NoPortError) as error:
            raise lab_fault(Stage.BENCH, error) from error

    def _wait_for_packets(self, sending: Process, received: Path) -> None:
        """Until the receiver has seen some seconds of them.

        Raises:
            LabFault: it does not see any.
        """
        deadline = time.monotonic() + self.testbed.timing.link_wait + _READY_SECONDS
        while time.monotonic() < deadline and sending.poll() is None:
            rates = pktgen.all_rates(received.read_text(errors="replace"))
            if sum(rate > 0 for rate in rates) >= _FLOWING:
                return
            time.sleep(_READY_POLL)
        raise LabFault.of(Fault.NO_TRAFFIC, "the receiver sees no packets", stage=Stage.BENCH)

    def _set_up(self, scenario: Scenario) -> None:
        try:
            if not self._knows_programs:
                userland.use(self.router)
                self._knows_programs = True
            firewall.switch_off(self.router)
            firewall.set_up(self.router, scenario)
        except CommandError as error:
            # The kernel's own firewall does not load or refuses the rules: this revision
            # cannot do the scenario, others can.
            raise lab_fault(Stage.BENCH, error, Fault.SCENARIO) from error
        except (UnreachableError, HostKeyError) as error:
            raise lab_fault(Stage.BENCH, error) from error

    def _limit(self, seconds: float = 0.0) -> list[str]:
        """What a command begins with: whatever happens to us, no pkt-gen outlives its run."""
        return ["timeout", "-s", "INT", f"{math.ceil(self.testbed.timing.run_timeout + seconds)}"]

    def _look(self, scenario: Scenario, before: Seen | None = None) -> Seen:
        try:
            if before is None:
                return self._watch.look(scenario)
            return self._watch.look_again(scenario, before)
        except HostKeyError as error:
            raise lab_fault(Stage.BENCH, error) from error

    def _run_name(self, scenario: Scenario) -> str:
        """Of a run's files: the scenario's, with a number from the second run on."""
        self._runs[scenario.name] += 1
        run = self._runs[scenario.name]
        return scenario.name if run == 1 else f"{scenario.name}.{run}"

    def traffic(self, scenario: Scenario, name: str, seconds: float) -> tuple[str, str]:
        """Sends the scenario's packets for that long; what sender and receiver said.

        Args:
            scenario: what to send; the router is left as it is.
            name: of the two files in the folder of logs.
            seconds: for how long to send.

        Raises:
            LabFault: there was no run.
        """
        timing = self.testbed.timing
        receiver_log = self.logs / f"{name}.receiver"
        sender_log = self.logs / f"{name}.sender"
        self.logs.mkdir(parents=True, exist_ok=True)
        try:
            sender_command = self._sender_command(scenario, seconds)
            receiver_command = pktgen.receiver_command(
                self._interface("receiver").name, timing.link_wait
            )
            limit = self._limit()
            with self.receiver.running([*limit, *receiver_command], receiver_log) as receiving:
                self._wait_until_ready(receiving, receiver_log)
                time.sleep(timing.settle)
                with self.generator.running([*limit, *sender_command], sender_log) as sending:
                    self._wait(sending, timing.run_timeout)
                    sent = sending.poll()
                self._wait(receiving, timing.settle + 10)
                if receiving.poll() is None:
                    self.receiver.try_run(["pkill", "-INT", "-x", "pkt-gen"])
                    self._wait(receiving, 5)
                _must_have_stayed(self.generator, sent)
                _must_have_stayed(self.receiver, receiving.poll())
        except UnreachableError as error:
            generator, receiver = self.generator.address, self.receiver.address
            raise traffic_fault(error, generator, receiver) from error
        except (HostKeyError, CommandError, ports.NoPortError) as error:
            raise lab_fault(Stage.BENCH, error) from error
        return (
            sender_log.read_text(errors="replace"),
            receiver_log.read_text(errors="replace"),
        )

    def _wait_until_ready(self, receiving: Process, log: Path) -> None:
        """Until the receiver has its port open, or has ended, or takes too long.

        Who comes too late loses seconds of the run; the sample's own rules tell then.
        """
        deadline = time.monotonic() + self.testbed.timing.link_wait + _READY_SECONDS
        while time.monotonic() < deadline and receiving.poll() is None:
            if pktgen.ready(log.read_text(errors="replace")):
                return
            time.sleep(_READY_POLL)

    @staticmethod
    def _wait(process: Process, limit: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)

    def _sender_command(self, scenario: Scenario, seconds: float) -> list[str]:
        traffic = scenario.traffic
        return pktgen.sender_command(
            self._interface("generator").name,
            count=int(self.testbed.offered_rate(traffic) * seconds),
            size=traffic.size,
            family=traffic.family,
            source=traffic.source,
            destination=traffic.destination,
            source_mac=self._interface("generator").mac,
            destination_mac=self.testbed.dut.ingress.mac or self._interface("ingress").mac,
            checksums=traffic.checksums,
            wait=self.testbed.timing.link_wait,
            rate=traffic.rate,
        )

    def _named(self, scenario: Scenario) -> Scenario:
        """With this boot's names of the router's ports in its sysctls."""
        if not scenario.names_ports:
            return scenario
        try:
            names = {part: self._interface(part).name for part in ("ingress", "egress")}
        except (UnreachableError, HostKeyError, CommandError, ports.NoPortError) as error:
            raise lab_fault(Stage.BENCH, error) from error
        return scenario.at({part: freebsd.device(name) for part, name in names.items()})

    def _interface(self, which: str) -> ports.Interface:
        """A data port by its part in the testbed."""
        testbed = self.testbed
        ends = {
            "generator": (self.generator, testbed.generator.port),
            "receiver": (self.receiver, testbed.receiver.port),
            "ingress": (self.router, testbed.dut.ingress),
            "egress": (self.router, testbed.dut.egress),
        }
        machine, port = ends[which]
        wanted = [one for other, one in ends.values() if other is machine]
        return self._finder.find(machine, port, wanted)

    # ----------------------------------------------------------------------------- the router

    def clean_up(self) -> None:
        """No firewall is left on; a router that does not answer is left as it is."""
        try:
            firewall.switch_off(self.router)
        except (UnreachableError, HostKeyError, CommandError) as error:
            self.say(f"{self.testbed.name}: the firewall could not be switched off: {error}")

    def _conditions(self, scenario: Scenario) -> Conditions:
        """What must be equal for another sample to be comparable with this one.

        The driver's name is left out on purpose: a revision may rename it, and that revision may
        be the culprit.
        """
        if not self._hosts:
            try:
                for end in (self.generator, self.receiver):
                    end.open()  # while the router is asked
                said = self.router.run(["sysctl", "-n", "hw.ncpu"], ["sysctl", "-n", "hw.model"])
                processors, _, cpu = said.strip().partition("\n")
                generator = self.generator.run(["uname", "-v"]).strip()
            except UnreachableError as error:
                generator, receiver = self.generator.address, self.receiver.address
                raise traffic_fault(error, generator, receiver) from error
            except (HostKeyError, CommandError) as error:
                raise lab_fault(Stage.BENCH, error) from error
            self._hosts = {"cpu": cpu, "processors": processors, "generator": generator}
            if self.testbed.vm is not None:
                self._hosts["virtual machine"] = vm.conditions(self.testbed.vm)
        described = json.dumps(asdict(scenario), sort_keys=True)
        values = {
            **self._hosts,
            "kernel_config": self.testbed.kernel_config,
            "line_rate_pps": str(self.testbed.line_rate_pps),
            "run_seconds": f"{self.testbed.timing.run:g}",
            "scenario": hashlib.sha256(described.encode()).hexdigest()[:16],
        }
        return Conditions.of(self.testbed.name, scenario.name, values)


def _must_have_stayed(machine: Machine, status: int | None) -> None:
    """A run of which one end was lost is none, however much of it was seen.

    Raises:
        UnreachableError: ssh lost the connection over which the process ran.
    """
    if status == SSH_FAILED:
        raise UnreachableError(machine.address, "the connection was lost during the run")
