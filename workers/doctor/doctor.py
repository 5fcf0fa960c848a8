"""Checks every machine of the lab, testbeds in parallel.

Nothing is changed; packets are sent only on request.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from netbisect.workers.build.build_host import compiler_of
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.vm import Vm
from netbisect.workers.doctor import checks
from netbisect.workers.doctor.checks import CheckResult, DoctorCheck
from netbisect.workers.dut import drivers, freebsd_tools, nextboot_zfs, ports
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.bench import Bench
from netbisect.workers.transport.errors import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
)
from netbisect.workers.transport.ssh import Connections, Machine
from netbisect.workers.vm import vm

_LEAST_ROOM = 2 << 30
"""Minimal free bytes of a builder: the objects of one FreeBSD kernel."""
_HEADERS = (Path("/usr/include"), Path("/usr/local/include"))
_GIT_SECONDS = 60.0
_TRAFFIC_SECONDS = 10.0
_USAGE_SECONDS = 10.0
_FAULTS = (UnreachableError, HostKeyError, CommandError, LabFault, ports.PortNotFoundError)
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
                yield from _builder(builder)
        for bed in beds:
            yield from bed.result()


# -------------------------------------------------------------------------------------- builders


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
    heads = [line.partition("refs/heads/")[2] for line in done.stdout.splitlines()]
    if done.returncode != 0:
        return DoctorCheck("source", "repository", good=False, found=done.stderr.strip())
    return DoctorCheck(
        "source", "branches", good=bool(heads), found=", ".join(heads[:6]) or "no branch at all"
    )


def _builder(builder: Builder) -> Iterator[DoctorCheck]:
    """Checks a builder; valid only on its own host."""
    make = builder.make_command[0]
    if "/" in make and not make.startswith("/"):
        # tools/build/make.py is part of the tree.
        tree = builder.directory / "source"
        there = not tree.exists() or (tree / make).exists()
        found = str(tree / make) if tree.exists() else f"{make} comes with the tree"
        yield DoctorCheck(builder.name, "make", good=there, found=found if there else f"no {found}")
    else:
        yield _tool(builder.name, "make", [make], "")
    if builder.cross_bindir is not None:
        yield _tool(builder.name, "compiler", [compiler_of(builder)], "")
        yield _tool(builder.name, "linker", [f"{builder.cross_bindir}/ld.lld"], "")
        if platform.system() == "Linux":
            yield _cross_tools(builder.name)
    yield _disk(builder)


def _cross_tools(where: str) -> DoctorCheck:
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
    return DoctorCheck(where, "tools of the bootstrap", good=not missing, found=found)


def _disk(builder: Builder) -> DoctorCheck:
    place = builder.directory
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free >> 30} GiB free at {place}"
    if free < _LEAST_ROOM:
        text += f", {_LEAST_ROOM >> 30} are needed"
    return DoctorCheck(builder.name, "disk", good=free >= _LEAST_ROOM, found=text)


def _tool(where: str, what: str, command: Sequence[str], absent: str) -> DoctorCheck:
    """Checks that a program exists, without running it."""
    found = shutil.which(command[0]) if command else None
    return DoctorCheck(
        where,
        what,
        good=found is not None,
        found=found or (f"no {command[0]} on this host" if command else absent),
    )


# -------------------------------------------------------------------------------------- testbeds


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
            self._try("virtual machine", functools.partial(_virtual, bed.vm))
        with Connections(self._lab.ssh) as connections:
            router = connections.machine(bed.dut.address)
            answers = self._try(
                f"dut {bed.dut.address}",
                lambda: DeviceUnderTest(bed, connections, lambda _: None).look().bootfile,
            )
            self._ports(connections)
            if answers:
                self._dut(router)
            for address in dict.fromkeys((bed.generator.address, bed.receiver.address)):
                self._host(connections.machine(address))
            if self._rates and all(check.good for check in self._found):
                self._traffic(connections)
        cycle = bed.power.cycle if bed.power else ()
        self._found.append(_tool(bed.name, "power", cycle, "the lab file names no switch"))
        attach = bed.console.command if bed.console else ()
        self._found.append(_tool(bed.name, "console", attach, "the lab file names no console"))
        return self._found

    def _add(self, what: str, finding: CheckResult) -> None:
        self._found.append(DoctorCheck(self._testbed.name, what, finding.good, finding.found))

    def _try(self, what: str, look: Callable[[], str | CheckResult]) -> bool:
        try:
            found = look()
        except _FAULTS as error:
            found = CheckResult(False, str(error))
        finding = found if isinstance(found, CheckResult) else CheckResult(True, found)
        self._add(what, finding)
        return finding.good

    def _ports(self, connections: Connections) -> None:
        bed = self._testbed
        for part, address, port in (
            ("ingress", bed.dut.address, bed.dut.ingress),
            ("egress", bed.dut.address, bed.dut.egress),
            ("generator", bed.generator.address, bed.generator.port),
            ("receiver", bed.receiver.address, bed.receiver.port),
        ):
            machine = connections.machine(address)

            def look(
                part: str = part, machine: Machine = machine, port: PortSelector = port
            ) -> CheckResult:
                found = ports.read_inventory(machine, [port]).find(port)
                self._interfaces[part] = found
                values = self._flow_control(machine, part, found.name)
                return checks.link(found, values, self._testbed.line_rate_pps)

            self._try(f"{part} {address}", look)

    def _flow_control(self, machine: Machine, part: str, name: str) -> dict[str, str]:
        """Sysctls of a port's flow control without those that every scenario sets."""
        device = freebsd_tools.device(name)
        names = [
            one
            for one in drivers.flow_control(name)
            if not all(
                one.replace(device, f"{{{part}}}") in scenario.optional
                for scenario in self._scenarios
            )
        ]
        output = machine.ask(["sysctl", "-ie", *names])[0] if names else ""
        return freebsd_tools.parse_sysctls(output)

    def _dut(self, router: Machine) -> None:
        good = self._testbed.dut.known_good
        before = time.time()
        try:
            date, release, df, du, output = router.ask(
                ["date", "-u", "+%s"],
                ["uname", "-r"],
                ["df", "-kT", "/boot"],
                ["du", "-sk", f"/boot/{good}"],
                ["sysctl", "-ie", *_SYSCTLS],
            )
            after = time.time()
            self._add("release of the dut", CheckResult(bool(release.strip()), release.strip()))
            self._add("clock of the dut", checks.clock(date, before, after))
            for what, finding in checks.room(df, du, good, self._testbed.dut.deploy):
                self._add(what, finding)
            if self._testbed.dut.deploy == "nextboot-zfs":
                why = nextboot_zfs.lacking(router.ask(nextboot_zfs.QUESTION)[0])
                found = why or "nextboot and loader know the label of the pool"
                self._add("order in the label of the pool", CheckResult(not why, found))
            for what, finding in checks.settings(
                freebsd_tools.parse_sysctls(output), self._scenarios, release
            ):
                self._add(what, finding)
            self._sysctls(router)
            self._ways(router)
        except _FAULTS as error:
            self._add("the dut's settings", CheckResult(False, str(error)))

    def _sysctls(self, router: Machine) -> None:
        """Checks the sysctls of the scenarios."""
        devices: dict[str, str] = {
            part: freebsd_tools.device(self._interfaces[part].name)
            for part in ("ingress", "egress")
            if part in self._interfaces
        }
        known = [one for one in self._scenarios if not one.depends_on_ports or len(devices) > 1]
        names = dict.fromkeys(name for one in known for name in one.at(devices).sysctls)
        if names:
            values = freebsd_tools.parse_sysctls(router.ask(["sysctl", "-ie", *names])[0])
            self._add("sysctls of scenarios", checks.scenario_sysctls(names, values))

    def _ways(self, router: Machine) -> None:
        """Checks routes and static ARP/NDP entries of the flows."""
        ways = [way for way in checks.ends(self._scenarios) if way[0] in self._interfaces]
        outputs = router.ask(*(checks.route_question(family, end) for _, family, end in ways))
        routes: dict[str, list[CheckResult]] = {}
        nexts: dict[tuple[str, str, str], None] = {}
        for (part, family, end), answer in zip(ways, outputs, strict=True):
            finding, follows = checks.route(answer, end, self._interfaces[part].name)
            routes.setdefault(part, []).append(finding)
            if follows:
                nexts[part, family, follows] = None
        for part, findings in routes.items():
            self._all(f"routes through {part}", findings)
        if not nexts:
            return
        answers = router.ask(*(checks.neighbour_question(family, end) for _, family, end in nexts))
        entries: dict[str, list[CheckResult]] = {}
        for (part, _, end), answer in zip(nexts, answers, strict=True):
            behind = self._interfaces.get("generator" if part == "ingress" else "receiver")
            mac = behind.mac if behind else ""
            entries.setdefault(part, []).append(checks.neighbour(answer, end, mac))
        for part, findings in entries.items():
            self._all(f"static entries on {part}", findings)

    def _all(self, what: str, findings: Sequence[CheckResult]) -> None:
        """Joins several results into one line."""
        bad = [one for one in findings if not one.good]
        text = "; ".join(one.found for one in bad or findings)
        self._add(what, CheckResult(not bad, text))

    def _host(self, machine: Machine) -> None:
        before = time.time()
        try:
            date, release, pkt_gen, output = machine.ask(
                ["date", "-u", "+%s"],
                ["uname", "-r"],
                ["which", "pkt-gen"],
                ["sysctl", "-ie", checks.NETMAP_SYSCTL],
            )
        except _FAULTS as error:
            self._add(f"host {machine.address}", CheckResult(False, str(error)))
            return
        name = machine.address
        self._add(f"release of {name}", CheckResult(bool(release.strip()), release.strip()))
        self._add(f"clock of {name}", checks.clock(date, before, time.time()))
        if self._testbed.vm is not None:
            there = bool(pkt_gen.strip())
            found = pkt_gen.strip() if there else "written when the virtual machine is switched on"
            finding = CheckResult(there, found)
        else:
            admode = freebsd_tools.parse_sysctls(output).get(checks.NETMAP_SYSCTL)
            finding = checks.netmap(pkt_gen, admode)
        if finding.good:
            self._try(f"pkt-gen on {name}", lambda: self._options(machine, finding.found))
        else:
            self._add(f"pkt-gen on {name}", finding)

    def _options(self, machine: Machine, pkt_gen: str) -> CheckResult:
        """Checks the options of pkt-gen, by what it says of itself on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "usage"
            with (
                machine.running(["pkt-gen", "-h"], log) as process,
                contextlib.suppress(subprocess.TimeoutExpired),
            ):
                process.wait(_USAGE_SECONDS)
            usage = log.read_text(errors="replace")
        needed = {one.name: pktgen.needed_options(one, self._testbed) for one in self._scenarios}
        return checks.pkt_gen_options(pkt_gen, usage, needed)

    def _traffic(self, connections: Connections) -> None:
        scenario = next((one for one in self._scenarios if one.traffic), None)
        traffic = scenario.traffic if scenario else None
        if scenario is None or traffic is None:
            return

        def look() -> CheckResult:
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(self._testbed, connections, lambda _: None, Path(folder))
                outputs = bench.traffic(scenario, scenario.name, _TRAFFIC_SECONDS)
            return self._judged(self._testbed.offered_rate(traffic), *outputs)

        self._try("rates", look)

    def _judged(self, wanted: float, sender: str, receiver: str) -> CheckResult:
        try:
            offered = pktgen.offered_rate(sender)
        except pktgen.PktGenOutputError as error:
            return CheckResult(False, pktgen.complaint(sender) or str(error))
        busy = [rate for rate in pktgen.all_rates(receiver) if rate > 0]
        received = statistics.median(busy) if busy else 0.0
        return checks.rates(self._testbed, wanted, offered, received)
