"""The simulated lab's own configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from netbisect.workers import tomlfile


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
    boot_seconds: float = 90.0
    """From the loader to ssh."""
    shutdown_seconds: float = 15.0
    panic_seconds: float = 15.0
    """From a panic to the reboot."""


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
    line_rate_pps: float


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
