"""Checks every machine of the lab, testbeds in parallel.

Nothing is changed; packets are sent only on request.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from netbisect.workers.build.build_host import compiler_of
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.vm import Vm
from netbisect.workers.doctor import checks
from netbisect.workers.doctor.checks import CheckResult, DoctorCheck
from netbisect.workers.dut import drivers, freebsd_tools, ports
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.traffic import TrafficRunner, lacking_rings, rings
from netbisect.workers.transport.errors import BusyError, LabFault, MachineError
from netbisect.workers.transport.locks import lock_testbed
from netbisect.workers.transport.ssh import Connections, Machine
from netbisect.workers.vm import vm

_USUAL_MTU = 1500
_LEAST_ROOM = 2 << 30
"""Minimal free bytes of a builder: the objects of one FreeBSD kernel."""
_HEADERS = (Path("/usr/include"), Path("/usr/local/include"))
_GIT_SECONDS = 60.0
_TRAFFIC_SECONDS = 10.0
_USAGE_SECONDS = 10.0
_ROUTES = {"inet4": "-inet", "inet6": "-inet6"}
_NEIGHBOURS = {"inet4": "arp", "inet6": "ndp"}
_SYSCTLS = (
    "net.inet.ip.forwarding",
    "net.inet.ip.redirect",
    "net.inet6.ip6.forwarding",
    "net.inet6.ip6.redirect",
    checks.PANIC_SYSCTL,
)


def examine(lab: Lab, *, testbed: str = "", rates: bool = False) -> Iterator[DoctorCheck]:
    """All checks in the order of the lab file.

    Args:
        lab: The lab.
        testbed: The only testbed to check; "" for all, with builders and source.
        rates: Also send packets through each router for some seconds.

    Raises:
        FileError: unknown testbed.
    """
    chosen = [lab.testbed(testbed)] if testbed else list(lab.testbeds)
    with ThreadPoolExecutor(len(chosen)) as pool:
        beds = [pool.submit(_TestbedChecks(lab, bed, rates=rates).checks) for bed in chosen]
        if not testbed:
            yield _tree(lab)
            for builder in lab.builders:
                for what, result in _builder(builder):
                    yield DoctorCheck(builder.name, what, *result)
        for bed in beds:
            yield from bed.result()


def _tree(lab: Lab) -> DoctorCheck:
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--heads", lab.source.repository],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return DoctorCheck("source", "repository", good=False, found=str(error))
    if done.returncode != 0:
        return DoctorCheck("source", "repository", good=False, found=done.stderr.strip())
    heads = [line.partition("refs/heads/")[2] for line in done.stdout.splitlines()]
    found = ", ".join(heads[:6]) or "no branch at all"
    return DoctorCheck("source", "branches", good=bool(heads), found=found)


def _builder(builder: Builder) -> Iterator[tuple[str, CheckResult]]:
    """Checks a builder; valid only on its own host."""
    make = builder.make_command[0]
    if "/" in make and not make.startswith("/"):
        # tools/build/make.py is part of the tree.
        tree = builder.directory / "source"
        there = not tree.exists() or (tree / make).exists()
        found = str(tree / make) if tree.exists() else f"{make} comes with the tree"
        yield "make", CheckResult(there, found if there else f"no {found}")
    else:
        yield "make", _tool([make])
    if builder.cross_bindir is not None:
        yield "compiler", _tool([compiler_of(builder)])
        yield "linker", _tool([f"{builder.cross_bindir}/ld.lld"])
        if platform.system() == "Linux":
            yield "tools of the bootstrap", _cross_tools()
    yield "disk", _disk(builder.directory)


def _cross_tools() -> CheckResult:
    """Checks what the bootstrap of FreeBSD's tools needs on Linux besides the compiler."""
    missing = [name for name in ("bison", "flex", "bc") if shutil.which(name) is None]
    missing += [
        name
        for name in ("archive.h", "bzlib.h")
        if not any((folder / name).is_file() for folder in _HEADERS)
    ]
    found = "bison, flex, bc, headers of libarchive and libbz2"
    if missing:
        found = f"no {', '.join(missing)}: install bison flex bc libarchive-dev libbz2-dev"
    return CheckResult(not missing, found)


def _disk(place: Path) -> CheckResult:
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    lacking = f", {_LEAST_ROOM >> 30} are needed" if free < _LEAST_ROOM else ""
    return CheckResult(not lacking, f"{free >> 30} GiB free at {place}{lacking}")


def _tool(command: Sequence[str], absent: str = "") -> CheckResult:
    """Checks that a program exists, without running it; `absent` is the message without one."""
    if not command:
        return CheckResult(False, absent)
    found = shutil.which(command[0])
    return CheckResult(found is not None, found or f"no {command[0]} on this host")


def _virtual(machine: Vm) -> CheckResult:
    """Checks QEMU."""
    try:
        conditions = vm.conditions(machine)
    except vm.VmError as error:
        return CheckResult(False, str(error))
    kvm = Path("/dev/kvm")
    if machine.accelerator == "kvm" and not os.access(kvm, os.R_OK | os.W_OK):
        return CheckResult(False, f"{conditions}, but {kvm} cannot be used; expected rights or tcg")
    return CheckResult(True, ", but ".join([conditions, *vm.concerns()]))


def _joined(results: Sequence[CheckResult]) -> CheckResult:
    """Several results as one: the bad ones, or else all."""
    bad = [one for one in results if not one.good]
    return CheckResult(not bad, "; ".join(one.found for one in bad or results))


def _boot_method(device: DeviceUnderTest) -> CheckResult:
    why = device.boot_method.misfit(device.look())
    found = f"deploy = {device.testbed.dut.deploy!r}"
    return CheckResult(not why, f"{found}, but the DUT {why}" if why else found)


class _TestbedChecks:
    """All checks of one testbed."""

    def __init__(self, lab: Lab, testbed: Testbed, *, rates: bool) -> None:
        self._lab = lab
        self._testbed = testbed
        self._rates = rates
        self._found: list[DoctorCheck] = []
        self._scenarios = lab.scenarios_of(testbed)
        self._interfaces: dict[str, ports.Interface] = {}

    def checks(self) -> list[DoctorCheck]:
        """Runs the checks over connections of their own."""
        bed = self._testbed
        if bed.vm is not None:
            self._add("virtual machine", _virtual(bed.vm))
        with Connections(self._lab.ssh) as connections:
            router = DeviceUnderTest(bed, connections, lambda _: None)
            dut = f"dut {bed.dut.address}"
            answers = self._try(dut, lambda: CheckResult(True, router.look().bootfile))
            finder = ports.PortFinder(bed, connections)
            for part, (address, _) in bed.ports.items():
                port = functools.partial(self._port, finder, connections.machine(address), part)
                self._try(f"{part} {address}", port)
            self._sizes(connections)
            self._threads(connections)
            if answers:
                self._dut(router)
            for address in dict.fromkeys(host.address for host in bed.generators + bed.receivers):
                self._host(connections.machine(address))
            if self._rates and all(check.good for check in self._found):
                self._traffic(connections, finder)
        cycle = bed.power.cycle if bed.power else ()
        self._add("power", _tool(cycle, "the lab file names no switch"))
        attach = bed.console.command if bed.console else ()
        self._add("console", _tool(attach, "the lab file names no console"))
        return self._found

    def _add(self, what: str, result: CheckResult) -> None:
        self._found.append(DoctorCheck(self._testbed.name, what, *result))

    def _try(self, what: str, look: Callable[[], CheckResult]) -> bool:
        try:
            result = look()
        except (MachineError, LabFault) as error:
            result = CheckResult(False, str(error))
        self._add(what, result)
        return result.good

    def _port(self, finder: ports.PortFinder, machine: Machine, part: str) -> CheckResult:
        found = self._interfaces[part] = finder.find(part)
        values = self._flow_control(machine, part, found.name)
        return checks.link(found, values, self._testbed.line_rate_pps, self._testbed.share(part))

    def _sizes(self, connections: Connections) -> None:
        """Checks that the generators' ports can send large packets, and several sizes."""
        traffic = [one.traffic for one in self._scenarios if one.traffic]
        sizes = max((len(one.mix) for one in traffic), default=0)
        largest = max((size for one in traffic for size in one.sizes), default=0)

        def look(machine: Machine, name: str) -> CheckResult:
            why = lacking_rings(machine, name, sizes)
            return CheckResult(not why, why or f"{name}: one for each of {sizes} sizes")

        for part, host in self._testbed.hosts("generator").items():
            port = self._interfaces.get(part)
            if port and largest > _USUAL_MTU:
                self._add(f"mtu of {part}", checks.mtu(port, largest))
            if port and sizes:
                machine = connections.machine(host.address)
                self._try(f"transmit rings of {part}", functools.partial(look, machine, port.name))

    def _threads(self, connections: Connections) -> None:
        """Checks the threads of pkt-gen against the rings of the ports."""

        def look(machine: Machine, name: str, way: str, number: int) -> CheckResult:
            return checks.threads(name, way, rings(machine, name, way), number)

        for end, way in (("generator", "tx"), ("receiver", "rx")):
            for part, host in self._testbed.hosts(end).items():
                port = self._interfaces.get(part)
                if port and host.threads > 1:
                    machine = connections.machine(host.address)
                    more = machine, port.name, way, host.threads
                    self._try(f"threads of {part}", functools.partial(look, *more))

    def _flow_control(self, machine: Machine, part: str, name: str) -> dict[str, str]:
        """Sysctls of a port's flow control without those that every scenario with packets sets."""
        device = freebsd_tools.device(name)
        names = [
            one
            for one in drivers.flow_control(name)
            if not all(
                one.replace(device, f"{{{part.partition(' ')[0]}}}") in scenario.optional
                for scenario in self._scenarios
                if scenario.traffic
            )
        ]
        output = machine.ask(["sysctl", "-ie", *names])[0] if names else ""
        return freebsd_tools.parse_sysctls(output)

    def _common(self, machine: Machine, who: str, *commands: Sequence[str]) -> list[str]:
        """Checks release and clock of a machine; returns the answers to more commands."""
        before = time.time()
        date, release, *answers = machine.ask(["date", "-u", "+%s"], ["uname", "-r"], *commands)
        after = time.time()
        self._add(f"release of {who}", CheckResult(bool(release.strip()), release.strip()))
        self._add(f"clock of {who}", checks.clock(date, before, after))
        return [release, *answers]

    def _dut(self, device: DeviceUnderTest) -> None:
        dut, router = self._testbed.dut, device.machine
        try:
            release, df, du, sysctls = self._common(
                router,
                "the dut",
                ["df", "-k", "/boot"],
                ["du", "-sk", f"/boot/{dut.known_good}"],
                ["sysctl", "-ie", *_SYSCTLS],
            )
            for what, result in checks.room(df, du, dut.known_good):
                self._add(what, result)
            self._try("boot method", lambda: _boot_method(device))
            values = freebsd_tools.parse_sysctls(sysctls)
            for what, result in checks.settings(values, self._scenarios, release):
                self._add(what, result)
            self._sysctls(router)
            self._routes(router)
        except MachineError as error:
            self._add("the dut's settings", CheckResult(False, str(error)))

    def _sysctls(self, router: Machine) -> None:
        """Checks the sysctls of the scenarios."""
        devices: dict[str, str] = {
            part: freebsd_tools.device(self._interfaces[part].name)
            for part in self._testbed.dut_ports
            if part in self._interfaces
        }
        all_known = len(devices) == len(self._testbed.dut_ports)
        known = [one for one in self._scenarios if not one.depends_on_ports or all_known]
        names = dict.fromkeys(name for one in known for name in one.at(devices).sysctls)
        if names:
            values = freebsd_tools.parse_sysctls(router.ask(["sysctl", "-ie", *names])[0])
            self._add("sysctls of scenarios", checks.scenario_sysctls(names, values))

    def _routes(self, router: Machine) -> None:
        """Checks routes and static ARP/NDP entries of the flows."""
        sides = {"ingress": self._behind("generator"), "egress": self._behind("receiver")}
        ways = [way for way in checks.ends(self._scenarios) if sides[way[0]]]
        outputs = router.ask(
            *(["route", "-n", "get", _ROUTES[family], end] for _, family, end in ways)
        )
        routes: dict[str, list[CheckResult]] = {}
        nexts: dict[tuple[str, str, str], str] = {}
        for (side, family, end), answer in zip(ways, outputs, strict=True):
            result, through, follows = checks.route(answer, end, sides[side])
            routes.setdefault(side, []).append(result)
            if follows:
                nexts[side, family, follows] = through
        for side, results in routes.items():
            self._add(f"routes through {side}", _joined(results))
        answers = router.ask(*([_NEIGHBOURS[family], "-n", end] for _, family, end in nexts))
        entries: dict[str, list[CheckResult]] = {}
        for ((side, _, end), through), answer in zip(nexts.items(), answers, strict=True):
            result = checks.neighbour(answer, end, sides[side][through])
            entries.setdefault(side, []).append(result)
        for side, results in entries.items():
            self._add(f"static entries on {side}", _joined(results))

    def _behind(self, end: str) -> dict[str, list[str]]:
        """MAC addresses of the generators or receivers by the DUT's interface before them."""
        found: dict[str, list[str]] = {}
        for part in self._testbed.hosts(end):
            port, host = map(self._interfaces.get, (self._testbed.wires[part], part))
            if port:
                found.setdefault(port.name, []).extend([host.mac] if host and host.mac else [])
        return found

    def _host(self, machine: Machine) -> None:
        name, netmap = machine.address, checks.NETMAP_SYSCTL
        try:
            commands = ["which", "pkt-gen"], ["sysctl", "-ie", netmap]
            _, pkt_gen, output = self._common(machine, name, *commands)
        except MachineError as error:
            self._add(f"host {name}", CheckResult(False, str(error)))
            return
        result = checks.netmap(pkt_gen, freebsd_tools.parse_sysctls(output).get(netmap))
        if self._testbed.vm is not None:
            absent = "written when the virtual machine is switched on"
            path = freebsd_tools.parse_which(pkt_gen)
            result = CheckResult(bool(path), path or absent)
        if result.good:
            self._try(f"pkt-gen on {name}", lambda: self._options(machine, result.found))
        else:
            self._add(f"pkt-gen on {name}", result)

    def _options(self, machine: Machine, pkt_gen: str) -> CheckResult:
        """Checks the options of pkt-gen, by its usage text on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "usage"
            with (
                machine.running(["pkt-gen", "-h"], log) as process,
                contextlib.suppress(subprocess.TimeoutExpired),
            ):
                process.wait(_USAGE_SECONDS)
            usage = log.read_text(errors="replace")
        hosts = self._testbed.generators + self._testbed.receivers
        needed = {one.name: pktgen.needed_options(one, *hosts) for one in self._scenarios}
        return checks.pkt_gen_options(pkt_gen, usage, needed)

    def _traffic(self, connections: Connections, finder: ports.PortFinder) -> None:
        scenario = next((one for one in self._scenarios if one.traffic), None)
        if scenario is None or scenario.traffic is None:
            return
        bed, wanted = self._testbed, self._testbed.offered_rate(scenario.traffic)

        def look() -> CheckResult:
            doing = "running netbisect-lab doctor --rates"
            try:
                with tempfile.TemporaryDirectory() as folder, lock_testbed(self._lab, bed, doing):
                    runner = TrafficRunner(bed, connections, finder.find, Path(folder))
                    outputs = runner.run(scenario, scenario.name, _TRAFFIC_SECONDS)
            except BusyError as error:
                return CheckResult(False, str(error))
            offered = {}
            for who, output in outputs.sent.items():
                try:
                    offered[who] = pktgen.offered_rate(output)
                except pktgen.PktGenOutputError as error:
                    mark = f"{who}: " if len(outputs.sent) > 1 else ""
                    return CheckResult(False, f"{mark}{pktgen.complaint(output) or error}")
            received = pktgen.busy_medians(outputs.received)
            return checks.rates(bed, wanted, offered, received, outputs.shares)

        self._try("rates", look)
