"""lab.toml: machines, their connections, and the scenarios of each testbed.

docs/lab.md documents every key. These classes are the schema: an unknown key is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from netbisect.bisect.model.metric import scenario_of
from netbisect.workers.config import toml
from netbisect.workers.config.builder import Builder, Source
from netbisect.workers.config.scenario import Scenario, load_scenario
from netbisect.workers.config.testbed import Console, Power, Testbed, check_same_group
from netbisect.workers.config.toml import FileError
from netbisect.workers.config.validation import (
    check,
    check_size,
    check_unique,
    find_named,
    parse_size,
)
from netbisect.workers.config.vm import GUEST_MARK, HOST_MARK

FIREWALL_MODULES = ("pf", "pflog", "ipfw", "ipfw_nat", "libalias", "dummynet")
"""Modules of all firewalls: a scenario may be added after a kernel was built."""

TOOL_MODULES = ("hwpmc", "coretemp", "amdtemp")
"""Modules for profiles and temperatures."""

_IMPLIED_MODULES = {"ice": "ice_ddp", "nextboot-zfs": "zfs", "bootenv": "zfs"}
"""By driver and boot method. Without its DDP package, ice(4) has a single queue."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """OpenSSH with the user's configuration and keys."""

    config: Path | None = None
    """OpenSSH configuration file; None: ~/.ssh/config. Relative to lab.toml."""
    connect_timeout: int = 10
    """Seconds until an unreachable machine counts as down."""
    command_timeout: int = 60
    """Seconds until a simple command counts as hung."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "command_timeout"):
            check(getattr(self, name) > 0, f"{name} {getattr(self, name)}: expected seconds > 0")


def worker_name(host: Builder | Testbed) -> str:
    """Name of the Buildbot worker."""
    return host.worker or host.name


@dataclass(frozen=True, slots=True, repr=False)
class Lab:
    """A whole lab file."""

    source: Source
    builders: tuple[Builder, ...]
    testbeds: tuple[Testbed, ...]
    ssh: Ssh = field(default_factory=Ssh)
    kernels: Path = Path("kernels")
    """Folder for received kernels on hosts with testbeds."""
    kernel_space: str = "20 GB"
    """Disk space for finished kernels per host."""
    scenario_directories: tuple[Path, ...] = ()
    """Folders with additional scenario files; they take precedence over built-in ones."""

    def __post_init__(self) -> None:
        check_size("kernel_space", self.kernel_space)
        check(self.builders, "builders: expected at least one")
        check(self.testbeds, "testbeds: expected at least one")
        for kind, items in (("builder", self.builders), ("testbed", self.testbeds)):
            check_unique(kind, [item.name for item in items])
        arches = {builder.arch for builder in self.builders}
        for testbed in self.testbeds:
            check(
                testbed.arch in arches,
                f"testbed {testbed.name!r}: no builder has arch {testbed.arch!r}; "
                f"found {', '.join(sorted(arches))}",
            )
            for peer in self.peers(testbed):
                check_same_group(testbed, peer)

    def __repr__(self) -> str:
        """Names only: Buildbot logs the arguments of each step."""
        return f"<Lab of {', '.join(testbed.name for testbed in self.testbeds)}>"

    def peers(self, testbed: Testbed) -> tuple[Testbed, ...]:
        """The other testbeds of its group."""
        return tuple(
            one
            for one in self.testbeds
            if testbed.group and one.group == testbed.group and one is not testbed
        )

    def modules(self, builder: Builder) -> tuple[str, ...]:
        """Modules to build, by folder of sys/modules; empty: all."""
        if builder.modules is not None:
            return builder.modules
        beds = [testbed for testbed in self.testbeds if testbed.arch == builder.arch]
        own = [name for bed in beds for name in (*bed.drivers, *bed.modules)]
        reasons = [name for bed in beds for name in (*bed.drivers, bed.dut.deploy)]
        implied = [_IMPLIED_MODULES[one] for one in reasons if one in _IMPLIED_MODULES]
        return tuple(dict.fromkeys([*FIREWALL_MODULES, *TOOL_MODULES, *own, *implied]))

    def scenarios_of(self, testbed: Testbed) -> list[Scenario]:
        """The scenarios of a testbed.

        Raises:
            FileError: unknown or invalid scenario.
        """
        names = dict.fromkeys(map(scenario_of, testbed.scenarios))
        return [load_scenario(name, self.scenario_directories) for name in names]

    @property
    def hosts_by_worker(self) -> dict[str, list[Builder | Testbed]]:
        """Builders and testbeds by Buildbot worker."""
        found: dict[str, list[Builder | Testbed]] = {}
        hosts: list[Builder | Testbed] = [*self.builders, *self.testbeds]
        for host in hosts:
            found.setdefault(worker_name(host), []).append(host)
        return found

    @property
    def kernel_bytes(self) -> int:
        """`kernel_space` in bytes."""
        return parse_size(self.kernel_space)

    def testbed(self, name: str) -> Testbed:
        """The testbed of that name, or `FileError`."""
        return find_named(self.testbeds, name, "testbed")

    def builder(self, name: str) -> Builder:
        """The builder of that name, or `FileError`."""
        return find_named(self.builders, name, "builder")


def _with_vm_defaults(testbed: Testbed, path: Path) -> Testbed:
    """The testbed with the values that its virtual machine implies."""
    if testbed.vm is None:
        return testbed
    folder = testbed.vm.directory
    guest, host = f"{GUEST_MARK}{folder}", f"{HOST_MARK}{folder}"
    mark = testbed.vm.mark
    cycle = (sys.executable, "-P", "-m", "netbisect.workers.cli.main", "--lab", str(path.resolve()))
    return replace(
        testbed,
        description=f"{testbed.description}; {mark}" if testbed.description else mark,
        dut=replace(testbed.dut, address=guest),
        generator=replace(testbed.generators[0], address=host),
        receiver=replace(testbed.receivers[0], address=host),
        power=testbed.power or Power((*cycle, "vm", "cycle", "--testbed", testbed.name)),
        console=testbed.console or Console(("tail", "-n", "0", "-F", str(folder / "console.log"))),
    )


def load_lab(path: Path) -> Lab:
    """Reads and checks the lab file at `path`.

    Raises:
        FileError: one line per problem.
    """
    lab = toml.resolve_paths(toml.load(path, Lab), path.resolve().parent)
    duts = [bed.vm.directory if bed.vm else bed.dut.address for bed in lab.testbeds]
    hosts = [one for bed in lab.testbeds if not bed.vm for one in bed.generators + bed.receivers]
    used = [f"DUT {str(dut)!r}" for dut in duts]
    used += [f"port {one.port.text} of {one.address!r}" for one in hosts]
    for part in used:
        if used.count(part) > 1:
            raise FileError(f"{path}: two testbeds have the {part}; expected one each")
    source = lab.source
    patches = [("source.overlays", overlay.patch) for overlay in source.overlays]
    for key, file in [("ssh.config", lab.ssh.config), *patches]:
        if file and not file.is_file():
            raise FileError(f"{path}: {key}: there is no file {file}")
    directories = [("scenario_directories", folder) for folder in lab.scenario_directories]
    for key, folder in [("source.kernel_configs", source.kernel_configs), *directories]:
        if folder and not folder.is_dir():
            raise FileError(f"{path}: {key}: there is no folder {folder}")
    lab = replace(
        lab,
        testbeds=tuple(_with_vm_defaults(testbed, path) for testbed in lab.testbeds),
        builders=tuple(replace(one, modules=lab.modules(one)) for one in lab.builders),
    )
    return replace(lab, testbeds=tuple(_with_series(lab, path)))


def _with_series(lab: Lab, path: Path) -> Iterator[Testbed]:
    """The testbeds with the series of their scenarios.

    Raises:
        FileError: unknown or invalid scenario.
    """
    for number, testbed in enumerate(lab.testbeds):
        try:
            series = [one for scenario in lab.scenarios_of(testbed) for one in scenario.series]
        except FileError as error:
            raise FileError(f"{path}: testbeds[{number}].scenarios: {error}") from error
        yield replace(testbed, scenarios=tuple(series))
