"""Measures one scenario on a booted router."""

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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from netbisect.bisect.model.entities import Boot, Conditions, Sample, Stage
from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.metric import metric_of
from netbisect.workers.build import userland
from netbisect.workers.config.scenario import LOSS, Scenario, Traffic, settings_of
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import drivers, firewall, freebsd_tools, ports
from netbisect.workers.measure import commands, lab_settings, no_drop, pktgen
from netbisect.workers.measure.telemetry import Snapshot, Telemetry, as_data, evaluate_run
from netbisect.workers.transport.errors import (
    CommandError,
    LabFault,
    MachineError,
    UnreachableError,
    bench_fault,
    lab_fault,
)
from netbisect.workers.transport.ssh import SSH_FAILED, Connections, Machine, Process
from netbisect.workers.vm import vm

_READY_SECONDS = 30.0
"""For the receiver to open its port, besides `link_wait`."""
_READY_POLL = 0.01
_FLOWING = 3
"""Seconds of packets until the load is steady."""
_END_SECONDS = 10.0
"""For pkt-gen to end after a signal or without packets."""


@dataclass(frozen=True, slots=True)
class Flows:
    """A running generator and receiver, and their growing output."""

    sending: Process
    receiving: Process
    sent: Path
    received: Path


class Bench:
    """Generator, receiver and router of one testbed."""

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
        self._interface = ports.PortFinder(testbed, connections).find
        self._hosts: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._watch = Telemetry(testbed, connections, self._interface)
        self._runs: Counter[str] = Counter()
        self._changed = firewall.ChangedSysctls(self.router)
        self._knows_programs = False
        """Programs stay until the next boot."""

    # ------------------------------------------------------------------------------- the run

    def measure(self, scenario: Scenario, boot: Boot) -> list[tuple[Conditions, Sample]]:
        """One run: a sample of each series of the scenario, the leading one first.

        Raises:
            LabFault: the run did not take place. A bad run is a sample with problems.
        """
        started = time.time()
        values = self._conditions(scenario)
        scenario = self._set_up(self._named(scenario))
        found: dict[str, float] = {}
        failure: list[str] = []
        with self._prepared(scenario) as work:
            before = self._look(scenario)
            name = self._run_name(scenario)
            outputs = ("", "")
            if scenario.traffic:
                outputs = self.traffic(scenario, name, self.testbed.timing.run)
            try:
                found = work.measure(self._results(scenario, name, outputs), self.logs / name)
            except commands.MeasureError as error:
                failure.append(str(error))
            after = self._look(scenario, before)
        observed = json.dumps(as_data(before, after), indent=1)
        (self.logs / f"{name}.observed.json").write_text(f"{observed}\n")
        rate, offered, problems, warnings = evaluate_run(
            self.testbed, scenario, outputs, before, after
        )
        sample = Sample(
            id=uuid.uuid4().hex,
            boot=boot.id,
            testbed=self.testbed.name,
            scenario=scenario.name,
            pps=rate,
            offered_pps=offered,
            received=tuple(pktgen.all_rates(outputs[1])),
            offered=tuple(pktgen.all_rates(outputs[0])),
            problems=(*problems, *failure),
            conditions="",
            at=started,
            seconds=time.time() - started,
            warnings=tuple(warnings),
        )
        return [
            self._of_series(one, sample, values, found.get(metric_of(one).name, 0.0))
            for one in scenario.series
        ]

    def _results(
        self, scenario: Scenario, name: str, outputs: tuple[str, str]
    ) -> dict[str, object]:
        """Variables of `measure` from the traffic; searches for the no-drop rate if ordered."""
        results: dict[str, object] = {"packets": round(sum(pktgen.all_rates(outputs[1])))}
        traffic = scenario.traffic
        if traffic and scenario.no_drop_steps:

            def send(rate: int) -> tuple[str, str]:
                step = replace(scenario, traffic=replace(traffic, rate=rate))
                return self.traffic(step, f"{name}.at-{rate}", no_drop.STEP_SECONDS)

            results["no_drop"] = no_drop.search(
                outputs, scenario.no_drop_steps, send, scenario.no_drop_loss
            )
        return results

    def _of_series(
        self, series: str, sample: Sample, values: dict[str, str], number: float
    ) -> tuple[Conditions, Sample]:
        """The sample of one series of a run, from that of the packets per second.

        Args:
            series: Name.
            sample: Packets per second.
            values: Conditions.
            number: Of another metric; 0 if unknown.
        """
        conditions = Conditions.of(self.testbed.name, series, values, self._seen)
        sample = replace(sample, id=uuid.uuid4().hex, scenario=series, conditions=conditions.digest)
        if metric_of(series).name:
            sample = replace(sample, pps=number, offered_pps=0.0, received=(), offered=())
        return conditions, sample

    @contextlib.contextmanager
    def _prepared(self, scenario: Scenario) -> Iterator[commands.ScenarioCommands]:
        """Runs the block between `prepare` and `clean_up` of the scenario.

        Raises:
            LabFault: `prepare` failed.
        """
        with self._faults():
            hosts = {"dut": self.router, "generator": self.generator, "receiver": self.receiver}
            variables = self._variables(scenario) if scenario.prepare or scenario.measure else {}
            work = commands.ScenarioCommands(scenario, hosts, variables, self.testbed.timing.run)
            try:
                work.prepare()
                yield work
            except Exception:
                with contextlib.suppress(MachineError):
                    work.clean_up()
                raise
            work.clean_up()

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Runs the block; errors of machines and ports are faults of this stage.

        Raises:
            LabFault: a machine does not answer, a command failed, or a port was not found.
        """
        try:
            yield
        except MachineError as error:
            generator, receiver = self.generator.address, self.receiver.address
            raise bench_fault(error, generator, receiver) from error

    def _variables(self, scenario: Scenario) -> dict[str, object]:
        """Variables of the commands, by name."""
        return {
            **{part: self._interface(part).name for part in self.testbed.ports},
            "ingress_mac": self._interface("ingress").mac,
            "seconds": round(self.testbed.timing.run),
            "link_wait": self.testbed.timing.link_wait,
            "rate": round(self.testbed.offered_rate(scenario.traffic)) if scenario.traffic else 0,
            **scenario.values,
            **self.testbed.values,
        }

    @contextlib.contextmanager
    def under_load(
        self, scenario: Scenario, pps: float, seconds: float
    ) -> Iterator[tuple[Path, Path]]:
        """Sends packets at a given rate inside the block.

        Args:
            scenario: Rules, commands and traffic; `measure` is not run.
            pps: Packets per second.
            seconds: Maximal duration of the block.

        Yields:
            Growing output files of sender and receiver; packets already flow.

        Raises:
            LabFault: no packets, or the router cannot be set up.
        """
        scenario = self._named(scenario)
        self._set_up(scenario)
        steady = replace(scenario, traffic=replace(_traffic(scenario), rate=round(pps)))
        longest = self.testbed.timing.run_timeout + seconds
        with (
            self._prepared(scenario),
            self._flows(steady, f"{scenario.name}.load", longest, seconds) as flows,
        ):
            if not self._wait_for(flows.sending, flows.received, _flowing):
                why = "the receiver sees no packets"
                raise LabFault.of(Fault.NO_TRAFFIC, why, stage=Stage.BENCH)
            yield flows.sent, flows.received
            self.generator.try_run(["pkill", "-INT", "-x", "pkt-gen"])
            self._wait(flows.sending, _END_SECONDS)
            self._wait(flows.receiving, _END_SECONDS)

    def _set_up(self, scenario: Scenario) -> Scenario:
        """Sets the router up; returns the scenario with the sysctls that had to be restored.

        Raises:
            LabFault: it cannot be set up.
        """
        with self._faults():
            try:
                if not self._knows_programs:
                    userland.use_shipped_tools(self.router)
                    self._knows_programs = True
                firewall.switch_off(self.router)
                scenario = self._changed.restoring(scenario)
                firewall.set_up(self.router, scenario)
            except CommandError as error:
                # The kernel's own firewall does not load or refuses the rules: this revision
                # cannot do the scenario, others can.
                raise lab_fault(Stage.BENCH, error, Fault.SCENARIO) from error
        return scenario

    def _look(self, scenario: Scenario, before: Snapshot | None = None) -> Snapshot:
        with self._faults():
            if before is None:
                return self._watch.look(scenario)
            return self._watch.look_again(scenario, before)

    def _run_name(self, scenario: Scenario) -> str:
        """Base name of a run's files; numbered from the second run on."""
        self._runs[scenario.name] += 1
        run = self._runs[scenario.name]
        return scenario.name if run == 1 else f"{scenario.name}.{run}"

    def traffic(self, scenario: Scenario, name: str, seconds: float) -> tuple[str, str]:
        """Sends packets; returns the output of sender and receiver.

        Args:
            scenario: Traffic; the router is not set up.
            name: Base name of the log files.
            seconds: Duration.

        Raises:
            LabFault: the run did not take place.
        """
        timing = self.testbed.timing
        with self._flows(scenario, name, seconds) as flows:
            self._wait(flows.sending, timing.run_timeout)
            sent = flows.sending.poll()
            flows.sending.kill()  # one that hangs
            self._wait(flows.receiving, timing.settle + 10)
            if flows.receiving.poll() is None:
                self.receiver.try_run(["pkill", "-INT", "-x", "pkt-gen"])
                self._wait(flows.receiving, 5)
            _must_have_stayed(self.generator, sent, flows.sent)
            _must_have_stayed(self.receiver, flows.receiving.poll(), flows.received)
        sender, receiver = (log.read_text(errors="replace") for log in (flows.sent, flows.received))
        return sender, receiver

    @contextlib.contextmanager
    def _flows(
        self, scenario: Scenario, name: str, seconds: float, more: float = 0.0
    ) -> Iterator[Flows]:
        """Receiver and sender, running within the block.

        Args:
            scenario: Traffic.
            name: Base name of the log files.
            seconds: Duration.
            more: Seconds until every pkt-gen ends, besides `run_timeout`.

        Raises:
            LabFault: a machine does not answer, a command failed, or a port was not found.
        """
        timing = self.testbed.timing
        sent, received = (self.logs / f"{name}.{end}" for end in ("sender", "receiver"))
        self.logs.mkdir(parents=True, exist_ok=True)
        # Ends every pkt-gen, even if this process dies.
        limit = ["timeout", "-s", "INT", f"{math.ceil(timing.run_timeout + more)}"]
        with self._faults():
            sender = [*limit, *self._sender_command(scenario, seconds)]
            receiver = [*limit, *self._receiver_command()]
            with self.receiver.running(receiver, received) as receiving:
                # A late receiver loses seconds of the run, which the checks of the sample detect.
                self._wait_for(receiving, received, pktgen.ready)
                time.sleep(timing.settle)
                with self.generator.running(sender, sent) as sending:
                    yield Flows(sending, receiving, sent, received)

    def _wait_for(self, process: Process, log: Path, holds: Callable[[str], bool]) -> bool:
        """Waits for a condition on the log; False if the process has ended, or the time is up."""
        deadline = time.monotonic() + self.testbed.timing.link_wait + _READY_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if holds(log.read_text(errors="replace")):
                return True
            time.sleep(_READY_POLL)
        return False

    @staticmethod
    def _wait(process: Process, limit: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)

    def _receiver_command(self) -> list[str]:
        testbed = self.testbed
        name = self._interface("receiver").name
        return pktgen.receiver_command(name, testbed.timing.link_wait, testbed.receiver)

    def _sender_command(self, scenario: Scenario, seconds: float) -> list[str]:
        testbed, traffic = self.testbed, _traffic(scenario)
        port = self._interface("generator")
        return pktgen.sender_command(
            port.name,
            traffic,
            int(testbed.offered_rate(traffic) * seconds),
            testbed.generator,
            macs=(port.mac, testbed.dut.ingress.mac or self._interface("ingress").mac),
            wait=testbed.timing.link_wait,
        )

    def _named(self, scenario: Scenario) -> Scenario:
        """The scenario with this boot's port names in its sysctls."""
        if not scenario.depends_on_ports:
            return scenario
        with self._faults():
            names = {part: self._interface(part).name for part in ("ingress", "egress")}
        return scenario.at({part: freebsd_tools.device(name) for part, name in names.items()})

    # ----------------------------------------------------------------------------- the router

    def clean_up(self) -> None:
        """Switches the firewall off and restores sysctls, if the router answers."""
        try:
            firewall.switch_off(self.router)
            self._changed.restore()
        except MachineError as error:
            self.say(f"{self.testbed.name}: the router could not be cleaned up: {error}")

    def _conditions(self, scenario: Scenario) -> dict[str, str]:
        """Conditions that comparable samples share.

        The driver's name is not included: the culprit may rename it.
        """
        if not self._hosts:
            with self._faults():
                self._hosts = self._of_hosts()
                self._seen = self._features()
        tunables = {**self.testbed.tunables, **scenario.tunables}
        sysctls = settings_of(scenario.name).sysctls
        return {
            **self._hosts,
            **{name: str(value) for name, value in tunables.items()},
            **{f"{name} (sysctl)": str(value) for name, value in sysctls.items()},
            "kernel_config": " ".join(self.testbed.kernel_configs),
            "line_rate_pps": str(self.testbed.line_rate_pps),
            "run_seconds": f"{self.testbed.timing.run:g}",
            "scenario": _digest(scenario, self.testbed),
        }

    def _of_hosts(self) -> dict[str, str]:
        """Conditions that stay until the next boot."""
        testbed = self.testbed
        ends = {"generator": self.generator, "receiver": self.receiver}
        for machine in ends.values():
            machine.open()  # while the router is inspected
        answer = self.router.run(["sysctl", "-n", "hw.ncpu"], ["sysctl", "-n", "hw.model"])
        processors, _, cpu = answer.strip().partition("\n")
        found = {"cpu": cpu, "processors": processors}
        found["generator"] = self.generator.run(["uname", "-v"]).strip()
        kenv, (sysctl_conf,) = (
            self.router.run(["kenv"]),
            self.router.ask(["cat", "/etc/sysctl.conf"]),
        )
        settings = lab_settings.of_router(kenv, sysctl_conf)
        for end, machine in ends.items():
            host = testbed.generator if end == "generator" else testbed.receiver
            settings[f"pkt-gen threads of the {end}"] = " ".join(pktgen.threads(host))
            settings[f"pkt-gen of the {end}"] = _pkt_gen(machine)
        if testbed.vm is not None:
            settings["virtual machine"] = vm.conditions(testbed.vm)
        return found | {name: value for name, value in settings.items() if value}

    def _features(self) -> dict[str, str]:
        """Drivers, queues and options of the router's ports, for reports."""
        names = {}
        for part in ("ingress", "egress"):
            with contextlib.suppress(ports.PortNotFoundError):
                names[part] = self._interface(part).name
        ifconfig, *answers = self.router.ask(
            ["ifconfig", "-a", "-m"],
            *(["sysctl", "-ie", *drivers.count_sysctls(name)] for name in names.values()),
        )
        found: dict[str, str] = {}
        for (part, name), answer in zip(names.items(), answers, strict=True):
            counts = drivers.queue_counts(name, freebsd_tools.parse_sysctls(answer))
            options = ports.options_of(ifconfig, name)
            about = {"driver": name, "queues": counts, "options": options}
            found |= {f"{key} of the {part}": value for key, value in about.items() if value}
        return found


def _digest(scenario: Scenario, testbed: Testbed) -> str:
    """Beginning of the SHA-256 of a scenario without its titles and tunables."""
    values = asdict(scenario)
    for shown in (values, *values["metrics"]):
        del shown["title"]
    del values["tunables"]
    for name in ("metrics", "prepare", "measure", "clean_up", "values", "no_drop_steps"):
        if not values[name]:  # scenarios without commands keep their conditions
            del values[name]
    if scenario.no_drop_loss == LOSS:
        del values["no_drop_loss"]
    if "measure" in values or "prepare" in values:
        values["values"] = {**scenario.values, **testbed.values}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _traffic(scenario: Scenario) -> Traffic:
    """The packets of a scenario.

    Raises:
        LabFault: it has none.
    """
    if scenario.traffic is None:
        why = f"{scenario.name} has no [traffic]; expected a scenario that pkt-gen sends"
        raise LabFault.of(Fault.SCENARIO, why)
    return scenario.traffic


def _flowing(receiver: str) -> bool:
    """Whether the load is steady, by the output of the receiver."""
    return sum(rate > 0 for rate in pktgen.all_rates(receiver)) >= _FLOWING


def _pkt_gen(machine: Machine) -> str:
    """Beginning of the SHA-256 of a host's pkt-gen, or ""."""
    place = machine.ask(["which", "pkt-gen"])[0].strip()
    digest = machine.ask(["sha256", "-r", place])[0] if place else ""
    return digest.partition(" ")[0][:16]


def _must_have_stayed(machine: Machine, status: int | None, log: Path) -> None:
    """Checks that ssh kept the connection during the run.

    Raises:
        UnreachableError: connection lost.
    """
    if status == SSH_FAILED and not pktgen.refused(log.read_text(errors="replace")):
        raise UnreachableError(machine.address, "the connection was lost during the run")
