"""Measures one scenario on a booted router."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from netbisect.bisect.model.entities import Boot, Conditions, Sample, Stage
from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.metric import metric_of
from netbisect.workers.config.scenario import LOSS, Scenario, settings_of
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import drivers, firewall, freebsd_tools, ports
from netbisect.workers.dut.running_kernel import use_shipped_tools
from netbisect.workers.measure import commands, lab_settings, no_drop, pktgen
from netbisect.workers.measure.telemetry import Snapshot, Telemetry, as_data, evaluate_run
from netbisect.workers.measure.traffic import Flows, TrafficRunner, traffic_of
from netbisect.workers.transport.errors import CommandError, MachineError, bench_faults, lab_fault
from netbisect.workers.transport.limited_output import write_log
from netbisect.workers.transport.ssh import Connections, Machine
from netbisect.workers.vm import vm

_PARTS = ("ingress", "egress", "generator", "receiver")
"""Parts of the testbed whose ports are variables of commands."""


class Bench:
    """Generators, receivers and router of one testbed."""

    def __init__(
        self,
        testbed: Testbed,
        connections: Connections,
        say: Callable[[str], None],
        logs: Path,
    ) -> None:
        self.testbed = testbed
        self.router = connections.machine(testbed.dut.address)
        self._ends = {
            part: connections.machine(host.address)
            for end in ("generator", "receiver")
            for part, host in testbed.hosts(end).items()
        }
        self.say = say
        self.logs = logs
        self._interface = ports.PortFinder(testbed, connections).find
        self._hosts: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._watch = Telemetry(testbed, connections, self._interface)
        self.traffic = TrafficRunner(testbed, connections, self._interface, logs)
        self._runs: Counter[str] = Counter()
        self._changed = firewall.ChangedSysctls(self.router)
        self._knows_programs = False
        """Programs stay until the next boot."""

    def open(self) -> None:
        """Starts to connect to generators and receivers, while the router boots."""
        for machine in self._ends.values():
            machine.open()

    def measure(self, scenario: Scenario, boot: Boot) -> list[tuple[Conditions, Sample]]:
        """One run: a sample of each series of the scenario, the leading one first.

        Raises:
            LabFault: the run did not take place. A bad run is a sample with problems.
        """
        started = time.time()
        self.logs.mkdir(parents=True, exist_ok=True)
        values = self._conditions(scenario)
        scenario = self._named(scenario)
        self._set_up(scenario)
        found: dict[str, float] = {}
        failure: list[str] = []
        with self._prepared(scenario) as work:
            before = self._look(scenario)
            name = self._run_name(scenario)
            outputs = pktgen.Outputs({}, {})
            if scenario.traffic:
                outputs = self.traffic.run(scenario, name, self.testbed.timing.run)
            try:
                found = work.measure(self._results(scenario, name, outputs), self.logs / name)
            except commands.MeasureError as error:
                failure.append(str(error))
            after = self._look(scenario, before)
        observed = json.dumps(as_data(before, after), indent=1)
        write_log(self.logs / f"{name}.observed.json", f"{observed}\n")
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
            received=tuple(pktgen.sums(outputs.received)),
            offered=tuple(pktgen.sums(outputs.sent)),
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

    def _results(self, scenario: Scenario, name: str, outputs: pktgen.Outputs) -> dict[str, object]:
        """Variables of `measure` from the traffic; searches for the no-drop rate if ordered."""
        results: dict[str, object] = {"packets": round(sum(pktgen.sums(outputs.received)))}
        traffic = scenario.traffic
        if traffic and scenario.no_drop_steps:

            def send(rate: int) -> pktgen.Outputs:
                step = replace(scenario, traffic=replace(traffic, rate=rate))
                return self.traffic.run(step, f"{name}.at-{rate}", no_drop.STEP_SECONDS)

            results["no_drop"] = no_drop.search(
                outputs, scenario.no_drop_steps, send, scenario.no_drop_loss
            )
        return results

    def _of_series(
        self, series: str, sample: Sample, values: dict[str, str], number: float
    ) -> tuple[Conditions, Sample]:
        """The sample of one series of a run, from that of the packets per second.

        `number` is that of another metric; 0 if unknown.
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
        with bench_faults(self.testbed):
            hosts = {"dut": self.router, **self._ends}
            variables = self._variables(scenario) if scenario.prepare or scenario.measure else {}
            work = commands.ScenarioCommands(scenario, hosts, variables, self.testbed.timing.run)
            try:
                work.prepare()
                yield work
                work.clean_up()
            except BaseException:  # including SystemExit from a signal, also while it cleans up
                with contextlib.suppress(MachineError):
                    work.clean_up()
                raise

    def _variables(self, scenario: Scenario) -> dict[str, object]:
        """Variables of the commands, by name."""
        return {
            **{part: self._interface(part).name for part in _PARTS},
            "ingress_mac": self._interface("ingress").mac,
            "seconds": round(self.testbed.timing.run),
            "link_wait": self.testbed.timing.link_wait,
            "rate": round(self.testbed.offered_rate(scenario.traffic)) if scenario.traffic else 0,
            **scenario.values,
            **self.testbed.values,
        }

    @contextlib.contextmanager
    def under_load(self, scenario: Scenario, pps: float, seconds: float) -> Iterator[Flows]:
        """Sends packets at a given rate inside the block.

        Args:
            scenario: Rules, commands and traffic; `measure` is not run.
            pps: Packets per second, of all generators together.
            seconds: Maximal duration of the block.

        Yields:
            The running pkt-gens; packets already flow.

        Raises:
            LabFault: no packets, or the router cannot be set up.
        """
        scenario = self._named(scenario)
        self._set_up(scenario)
        steady = replace(scenario, traffic=replace(traffic_of(scenario), rate=round(pps)))
        with (
            self._prepared(scenario),
            self.traffic.steady(steady, f"{scenario.name}.load", seconds) as flows,
        ):
            yield flows

    def _set_up(self, scenario: Scenario) -> None:
        """Sets the router up.

        Raises:
            LabFault: it cannot be set up.
        """
        with bench_faults(self.testbed):
            try:
                if not self._knows_programs:
                    use_shipped_tools(self.router)
                    self._knows_programs = True
                firewall.switch_off(self.router)
                self._changed.begin(scenario)
                firewall.set_up(self.router, scenario)
            except CommandError as error:
                # The kernel's own firewall does not load or refuses the rules: this revision
                # cannot do the scenario, others can.
                raise lab_fault(Stage.BENCH, error, Fault.SCENARIO) from error

    def _look(self, scenario: Scenario, before: Snapshot | None = None) -> Snapshot:
        with bench_faults(self.testbed):
            if before is None:
                return self._watch.look(scenario)
            return self._watch.look_again(scenario, before)

    def _run_name(self, scenario: Scenario) -> str:
        """Base name of a run's files; numbered from the second run on."""
        self._runs[scenario.name] += 1
        run = self._runs[scenario.name]
        return scenario.name if run == 1 else f"{scenario.name}.{run}"

    def _named(self, scenario: Scenario) -> Scenario:
        """The scenario with this boot's port names in its sysctls."""
        if not scenario.depends_on_ports:
            return scenario
        with bench_faults(self.testbed):
            names = {part: self._interface(part).name for part in self.testbed.dut_ports}
        return scenario.at({part: freebsd_tools.device(name) for part, name in names.items()})

    def clean_up(self) -> None:
        """Switches the firewall off and restores sysctls, if the router answers."""
        try:
            self._clean_up()
        except SystemExit:  # from a signal
            self._clean_up()
            raise

    def _clean_up(self) -> None:
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
            with bench_faults(self.testbed):
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
        commands = ["sysctl", "-n", "hw.ncpu"], ["sysctl", "-n", "hw.model"], ["kenv"]
        processors, cpu, kenv = self.router.run(*commands).split("\n", 2)
        found = {"cpu": cpu.strip(), "processors": processors.strip()}
        for part in testbed.hosts("generator"):
            found[part] = self._ends[part].run(["uname", "-v"]).strip()
        (sysctl_conf,) = self.router.ask(["cat", "/etc/sysctl.conf"])
        settings = lab_settings.of_router(kenv, sysctl_conf)
        hosts = testbed.hosts("generator") | testbed.hosts("receiver")
        programs = {machine: _pkt_gen(machine) for machine in dict.fromkeys(self._ends.values())}
        for part, machine in self._ends.items():
            settings[f"pkt-gen threads of the {part}"] = " ".join(pktgen.threads(hosts[part]))
            settings[f"pkt-gen of the {part}"] = programs[machine]
        if testbed.vm is not None:
            settings["virtual machine"] = vm.conditions(testbed.vm)
        return found | {name: value for name, value in settings.items() if value}

    def _features(self) -> dict[str, str]:
        """Drivers, queues and options of the router's ports, for reports."""
        names = {}
        for part in self.testbed.dut_ports:
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
    if scenario.traffic and not scenario.traffic.mix:
        del values["traffic"]["mix"]
    if scenario.no_drop_loss == LOSS:
        del values["no_drop_loss"]
    if "measure" in values or "prepare" in values:
        values["values"] = {**scenario.values, **testbed.values}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _pkt_gen(machine: Machine) -> str:
    """Beginning of the SHA-256 of a host's pkt-gen, or ""."""
    place = freebsd_tools.parse_which(machine.ask(["which", "pkt-gen"])[0])
    digest = machine.ask(["sha256", "-r", place])[0] if place else ""
    return digest.partition(" ")[0][:16]
