"""The configuration file of the simulated lab."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from netbisect.workers.config import toml


class LabError(Exception):
    """The simulated lab cannot be prepared or started."""


@dataclass(frozen=True, slots=True)
class BootNoise:
    """Noise between boots; its standard deviation differs between images."""

    median: float
    log_sd: float


@dataclass(frozen=True, slots=True)
class SpeedModes:
    """Two speeds, chosen at boot."""

    chance: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Outlier:
    """An outlier boot."""

    chance: float = 0.0
    depth: float = 0.0


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """A kind of machine; deviations in percent of the level."""

    model: str
    processors: int
    nanoseconds: float
    boot: BootNoise
    second: float
    memory: float
    image: float
    modes: SpeedModes = field(default_factory=SpeedModes)
    outlier: Outlier = field(default_factory=Outlier)


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A network port."""

    name: str
    mac: str
    media: str = "1000baseT <full-duplex>"

    @property
    def driver(self) -> str:
        """The letters of the port name."""
        return self.name.rstrip("0123456789")

    @property
    def device(self) -> str:
        """The name in sysctl(8), such as `igb.2`."""
        return f"{self.driver}.{self.name.removeprefix(self.driver)}"


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """A router to be tested."""

    name: str
    port: int
    """TCP port of its SSH server."""
    profile: str
    driver: str
    """Cost prefix of the driver in the kernel: igb, ix, cxgbe."""
    ports: tuple[PortConfig, ...]
    shutdown_seconds: float = 5.0
    """From the reboot command to the end of SSH."""
    post_seconds: float = 40.0
    """From reset to the loader."""
    boot_seconds: float = 70.0
    """From the loader to ssh."""
    panic_seconds: float = 15.0
    """From a panic to the reboot."""
    root: str = "disk"
    """Location of the root file system: disk, zfs, partitions (two) or network."""
    server: str = ""
    """Host of the root file system, with `network`."""
    watchdog: bool = False
    """Whether there is a hardware watchdog."""
    speed: float = 1.0
    """Relative speed among machines of the same profile."""

    def __post_init__(self) -> None:
        if self.root not in ("disk", "zfs", "partitions", "network"):
            raise ValueError(
                f"root {self.root!r}: expected 'disk', 'zfs', 'partitions' or 'network'"
            )
        if (self.root == "network") != bool(self.server):
            raise ValueError("root 'network' and `server` go together")


@dataclass(frozen=True, slots=True)
class HostConfig:
    """A host with netmap ports."""

    name: str
    port: int
    ports: tuple[PortConfig, ...]


@dataclass(frozen=True, slots=True)
class Wire:
    """Generator port -> router -> receiver port."""

    router: str
    generator: str
    generator_port: str
    receiver: str
    receiver_port: str
    bits: float
    """Per second."""
    ingress: int = 0
    egress: int = 1
    """Positions of the router's ports."""


@dataclass(frozen=True, slots=True)
class LabConfig:
    """The configuration of the lab."""

    state: Path
    """Folder of disks and host keys."""
    authorized_keys: Path
    routers: tuple[RouterConfig, ...]
    hosts: tuple[HostConfig, ...]
    wires: tuple[Wire, ...]
    switch_port: int
    """SSH server of the power switch: `cycle ROUTER`."""
    console_port: int
    """SSH server of the consoles: `attach ROUTER`."""
    compression: float = 300.0
    """Lab seconds per real second."""
    seed: int = 1

    def __post_init__(self) -> None:
        names = [router.name for router in self.routers] + [host.name for host in self.hosts]
        for name in names:
            if names.count(name) > 1 or name in ("power", "console"):
                raise ValueError(f"name {name!r}: taken already")
        wired = {router.name: len(router.ports) for router in self.routers}
        ports = {(host.name, port.name) for host in self.hosts for port in host.ports}
        for router in self.routers:
            if router.server and router.server not in names:
                raise ValueError(f"router {router.name}: there is no host {router.server!r}")
        for number, wire in enumerate(self.wires):
            there = {
                "router": max(wire.ingress, wire.egress) < wired.get(wire.router, 0),
                "generator": (wire.generator, wire.generator_port) in ports,
                "receiver": (wire.receiver, wire.receiver_port) in ports,
            }
            for end, good in there.items():
                if not good:
                    raise ValueError(f"wires[{number}].{end}: there is no such machine and port")


def load(path: Path) -> LabConfig:
    """The file at `path`; relative places are relative to it.

    Raises:
        FileError: it cannot be used.
    """
    config = toml.load(path, LabConfig)
    here = path.resolve().parent
    return replace(config, state=here / config.state, authorized_keys=here / config.authorized_keys)


def profile(name: str) -> MachineProfile:
    """One of the machine kinds in profiles.toml.

    Raises:
        FileError: there is no such kind.
    """
    path = Path(str(resources.files("netbisect.demo.lab"))) / "profiles.toml"
    profiles = toml.load(path, dict[str, MachineProfile])
    if name not in profiles:
        raise toml.FileError(f"{path}: no profile {name!r}; there is {', '.join(profiles)}")
    return profiles[name]
