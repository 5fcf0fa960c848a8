"""The configuration file of the simulated lab."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cattrs import BaseValidationError
from cattrs.preconf.json import make_converter

from netbisect.demo.lab.testbeds import SimulatedTestbed
from netbisect.workers.config import toml

_CONVERTER = make_converter()


class LabError(Exception):
    """The simulated lab cannot be prepared or started."""


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """A kind of machine, as profiles.toml explains it."""

    model: str
    processors: int
    nanoseconds: float
    boot_median: float
    boot_log_sd: float
    second: float
    memory: float
    image: float
    outlier_chance: float
    outlier_depth: float
    mode_chance: float = 0.0
    mode_gap: float = 0.0


@dataclass(frozen=True, slots=True)
class LabConfig:
    """The configuration of the lab."""

    testbeds: tuple[SimulatedTestbed, ...]
    doors: dict[str, int]
    """TCP port of each SSH server: of the machines, `power` and `console`."""
    compression: float
    """Lab seconds per real second."""
    seed: int


def save(config: LabConfig, path: Path) -> None:
    """Writes the file; machines and keys are beside it."""
    path.write_text(_CONVERTER.dumps(config))


def load(path: Path) -> LabConfig:
    """Reads the file.

    Raises:
        LabError: it cannot be read.
    """
    try:
        return _CONVERTER.loads(path.read_text(), LabConfig)
    except (OSError, ValueError, BaseValidationError) as error:
        raise LabError(f"{path}: no configuration of the lab: {error}") from error


def profile(name: str) -> MachineProfile:
    """One of the machine kinds in profiles.toml.

    Raises:
        FileError: there is no such kind.
    """
    path = Path(str(resources.files("netbisect.demo.lab"))) / "profiles.toml"
    profiles = toml.load(path, dict[str, MachineProfile])
    if name not in profiles:
        raise toml.FileError(f"{path}: no profile {name!r}; found {', '.join(profiles)}")
    return profiles[name]
