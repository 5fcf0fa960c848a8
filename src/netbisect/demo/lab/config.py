"""The simulated lab's own configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from netbisect.workers import tomlfile


class LabError(Exception):
    """The simulated lab cannot be prepared, or cannot start; the message says why."""


@dataclass(frozen=True, slots=True)
class BootNoise:
    """Between boots of one image: the sd itself differs from image to image."""

    median: float
    log_sd: float


@dataclass(frozen=True, slots=True)
class Modes:
    """Two speeds, decided at boot."""

    chance: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Outlier:
    """A boot that goes wrong."""

    chance: float = 0.0
    depth: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of machine; all deviations in percent of the level."""

    model: str
    processors: int
    nanoseconds: float
    boot: BootNoise
    second: float
    memory: float
    image: float
    modes: Modes = field(default_factory=Modes)
    outlier: Outlier = field(default_factory=Outlier)


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A network port."""

    name: str
    mac: str
    media: str = "1000baseT <full-duplex>"

    @property
    def driver(self) -> str:
        """The letters of its name."""
        return self.name.rstrip("0123456789")

    @property
    def device(self) -> str:
        """As sysctl(8) writes it: `igb.2`."""
        return f"{self.driver}.{self.name.removeprefix(self.driver)}"


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """A router to be tested."""

    name: str
    port: int
    """TCP port of its SSH server."""
    profile: str
    driver: str
    """Prefix of the costs its data ports pay in the kernel: igb, ix, cxgbe."""
    ports: tuple[PortConfig, ...]
    shutdown_seconds: float = 5.0
    """From the order to reboot until nothing answers any more."""
    post_seconds: float = 40.0
    """From reset to the loader."""
    boot_seconds: float = 70.0
    """From the loader to ssh."""
    panic_seconds: float = 15.0
    """From a panic to the reboot."""
    root: str = "disk"
    """Where the root file system is: disk, partitions (two of them) or network."""
    server: str = ""
    """Host that has the root file system, with `network`."""
    watchdog: bool = False
    """There is a hardware watchdog."""
    speed: float = 1.0
    """Of this machine, beside others of its profile: no two are alike."""

    def __post_init__(self) -> None:
        if self.root not in ("disk", "partitions", "network"):
            raise ValueError(f"root {self.root!r}: expected 'disk', 'partitions' or 'network'")
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


@dataclass(frozen=True, slots=True)
class LabConfig:
    """All of it."""

    state: Path
    """Folder with the machines' disks and host keys."""
    authorized_keys: Path
    routers: tuple[RouterConfig, ...]
    hosts: tuple[HostConfig, ...]
    wires: tuple[Wire, ...]
    switch_port: int
    """SSH server of the power switch: `cycle ROUTER`."""
    console_port: int
    """SSH server of the consoles: `attach ROUTER`."""
    compression: float = 300.0
    """Seconds of the lab in a second of the clock on the wall."""
    seed: int = 1

    def __post_init__(self) -> None:
        names = [router.name for router in self.routers] + [host.name for host in self.hosts]
        for name in names:
            if names.count(name) > 1 or name in ("power", "console"):
                raise ValueError(f"name {name!r}: taken already")
        wired = {router.name for router in self.routers if len(router.ports) == 2}
        ports = {(host.name, port.name) for host in self.hosts for port in host.ports}
        for router in self.routers:
            if router.server and router.server not in names:
                raise ValueError(f"router {router.name}: there is no host {router.server!r}")
        for number, wire in enumerate(self.wires):
            there = {
                "router": wire.router in wired,
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
    config = tomlfile.load(path, LabConfig)
    here = path.resolve().parent
    return replace(config, state=here / config.state, authorized_keys=here / config.authorized_keys)


def profile(name: str) -> Profile:
    """One of the machine kinds in profiles.toml.

    Raises:
        FileError: there is no such kind.
    """
    path = Path(str(resources.files("netbisect.demo.lab"))) / "profiles.toml"
    profiles = tomlfile.load(path, dict[str, Profile])
    if name not in profiles:
        raise tomlfile.FileError(f"{path}: no profile {name!r}; there is {', '.join(profiles)}")
    return profiles[name]
