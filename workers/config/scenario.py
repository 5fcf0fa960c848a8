"""Scenario files: traffic, firewall rules and sysctls of one benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from netbisect.bisect.model.metric import SETTINGS_MARK, metric_of, scenario_of, split_settings
from netbisect.workers.config import toml
from netbisect.workers.config.custom_measurement import HostCommand, MetricTable
from netbisect.workers.config.pktgen_options import parse_range
from netbisect.workers.config.toml import FileError, Scalar
from netbisect.workers.config.tunables import (
    SYSCTL,
    SYSCTL_MARK,
    NamedSettings,
    check_tunables,
    parse_settings,
)
from netbisect.workers.config.validation import (
    check,
    check_choice,
    check_name,
    check_unique,
    check_values,
)

_OWN_FILE = "scenario.toml"
"""File of a scenario in a folder of its own."""
_MERGED = ("traffic", "values", "sysctls", "optional", "tunables")
"""Tables whose keys are added to those of the base."""

_FAMILIES = {
    "inet4": (4, "198.18.10.1:2001-198.18.10.20"),
    "inet6": (6, "[2001:2::1]-[2001:2::14]"),
}
"""IP version and example of a range."""
_SIZE = 60
"""Bytes without CRC, if a scenario says nothing."""
_MOST_STEPS = 20
LOSS = 1e-5
"""Tolerated share of lost packets of the no-drop rate; RFC 2544 has 0."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Packets of the generator."""

    family: str
    """inet4 or inet6."""
    source: str
    """pkt-gen range: address:port-address:port."""
    destination: str
    size: int = _SIZE
    """Bytes without CRC."""
    mix: tuple[tuple[int, ...], ...] = ()
    """Sizes and their shares of the packets, such as `((60, 7), (590, 4), (1514, 1))`; empty: all
    have `size`.
    """
    flows: int = 0
    """Number of flows in the two ranges, as a check; 0: unchecked."""
    rate: int = 0
    """Packets per second; 0: line rate."""
    checksums: bool = False
    """pkt-gen -U, which only pkt-gen from the port net/pkt-gen of 2019 to 2022 takes."""

    def __post_init__(self) -> None:
        check_choice(self, "family", _FAMILIES)
        self._check_sizes()
        check(self.rate >= 0, f"rate {self.rate}: expected packets/s, or 0 for all the wire takes")
        made = self.number_of_flows
        check(
            self.flows in (0, made),
            f"flows {self.flows}: the ranges of source and destination make {made}",
        )

    def _check_sizes(self) -> None:
        for one in self.mix:
            check(
                len(one) == 2 and one[1] > 0,  # noqa: PLR2004 - size and share
                f"mix {list(one)}: expected a size and a share above 0, such as [590, 4]",
            )
        listed = [size for size, *_ in self.mix]
        for size in listed:
            check(
                listed.count(size) == 1,
                f"mix: {size} bytes are listed twice; expected different sizes",
            )
        check(
            not self.mix or self.size == _SIZE,
            f"size {self.size}: expected none beside the sizes of the mix",
        )
        for size in self.sizes:
            check(46 <= size <= 1518, f"size {size}: expected 46 to 1518 bytes")  # noqa: PLR2004 - Ethernet's

    @property
    def sizes(self) -> dict[int, float]:
        """Share of the packets by size, in the order of the mix; the shares add up to 1."""
        parts = self.mix or ((self.size, 1),)
        whole = sum(share for _, share in parts)
        return {size: share / whole for size, share in parts}

    @property
    def mean_size(self) -> float:
        """Mean bytes of a packet, without CRC."""
        return sum(size * share for size, share in self.sizes.items())

    @property
    def number_of_flows(self) -> int:
        """Number of flows in the two ranges; raises ValueError for a wrong range."""
        return _check_range("source", self.source, self.family) * _check_range(
            "destination", self.destination, self.family
        )


def _check_range(name: str, text: str, family: str) -> int:
    """Number of address and port pairs in the range."""
    version, example = _FAMILIES[family]
    try:
        found = parse_range(text)
    except ValueError as error:
        raise ValueError(f"{name}: {str(error)!r} is no {family} address") from None
    form = found and found.version == version and "-" in text
    check(form, f"{name} {text!r}: expected a range such as {example}")
    assert found is not None
    check(found.addresses, f"{name} {text!r}: expected the lower address first")
    check(found.ports, f"{name} {text!r}: expected the lower port first")
    return found.flows


@dataclass(frozen=True, slots=True)
class Scenario:
    """One use of the router: rules, sysctls and traffic."""

    name: str
    title: str
    traffic: Traffic | None = None
    """None if only the command `measure` sends packets."""
    firewall: str = ""
    """pf, ipfw, or empty."""
    rules: tuple[str, ...] = ()
    """Lines of pf.conf, or arguments of `ipfw add`."""
    sysctls: dict[str, Scalar] = field(default_factory=dict)
    """Set and checked for each run. `{ingress}` and `{egress}` in names stand for the router's
    ports as in sysctl(8): `dev.{ingress}.fc` is dev.igb.2.fc.
    """
    optional: dict[str, Scalar] = field(default_factory=dict)
    """Like `sysctls`, but names unknown to the kernel are skipped."""
    tunables: dict[str, Scalar] = field(default_factory=dict)
    """For loader(8), in addition to those of the testbed."""
    no_drop_steps: int = 0
    """Rates to try in the search for the no-drop rate; 0: no search."""
    no_drop_loss: float = LOSS
    """Share of lost packets that counts as none."""
    metrics: tuple[MetricTable, ...] = ()
    """What `measure` prints, the leading one first."""
    prepare: tuple[HostCommand, ...] = ()
    """Before the traffic, in this order."""
    measure: HostCommand | None = None
    """After the traffic."""
    clean_up: tuple[HostCommand, ...] = ()
    """After `measure`, and before `prepare` in case a run was interrupted."""
    values: dict[str, Scalar] = field(default_factory=dict)
    """Variables of the commands."""

    def __post_init__(self) -> None:
        check_name(split_settings(self.name)[0])
        check(
            self.traffic or self.metrics,
            "expected the table [traffic], or metrics and the table [measure]",
        )
        check(
            self.measure or not self.metrics,
            "metrics: expected the table [measure] that prints them",
        )
        check_unique("metric", [one.name for one in self.metrics])
        check(
            0 <= self.no_drop_steps <= (_MOST_STEPS if self.traffic else 0),
            f"no_drop_steps {self.no_drop_steps}: expected 0 to {_MOST_STEPS}, and [traffic]",
        )
        check(
            not self.no_drop_steps or not (self.traffic and self.traffic.mix),
            f"no_drop_steps {self.no_drop_steps}: expected none with a mix, whose pkt-gens lose a "
            "few packets when they end",
        )
        check(
            0 <= self.no_drop_loss < 1,
            f"no_drop_loss {self.no_drop_loss:g}: expected a share from 0 to below 1",
        )
        check_tunables(self.tunables)
        check_values(self.values)
        for key in (*self.sysctls, *self.optional):
            check(
                SYSCTL.match(key),
                f"sysctl {key!r}: expected a name such as net.inet.ip.redirect or "
                "dev.{ingress}.fc",
            )
        twice = ", ".join(sorted(self.sysctls.keys() & self.optional.keys()))
        check(not twice, f"{twice}: expected in sysctls or in optional, not in both")
        check_choice(self, "firewall", ("", "pf", "ipfw"), "'pf', 'ipfw' or none")
        check(bool(self.firewall) == bool(self.rules), "firewall and rules go together")

    def at(self, ports: Mapping[str, str]) -> Scenario:
        """The scenario with these port names in its sysctls: `{"ingress": "igb.2", ...}`.

        A sysctl of `{ingress}` is one of each ingress: also of `ingress 2`.
        """
        each = [{**ports, part.partition(" ")[0]: name} for part, name in ports.items()] or [{}]

        def named(values: dict[str, Scalar]) -> dict[str, Scalar]:
            return {key.format_map(one): value for key, value in values.items() for one in each}

        return replace(self, sysctls=named(self.sysctls), optional=named(self.optional))

    def with_settings(self, name: str) -> Scenario:
        """The scenario with the settings of this name.

        Raises:
            ValueError: as `parse_settings`.
        """
        own = settings_of(name)
        title = f"{self.title}, {own.text.replace(',', ', ').replace(SYSCTL_MARK, '')}"
        return replace(
            self,
            name=name,
            title=title,
            tunables=self.tunables | own.tunables,
            sysctls=self.sysctls | own.sysctls,
            optional={key: self.optional[key] for key in self.optional if key not in own.sysctls},
        )

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series, the leading one first."""
        own = [one.metric.of(self.name) for one in self.metrics]
        return tuple([*own, self.name] if self.traffic else own)

    def series_title(self, series: str) -> str:
        """The title of one of its series, for reports.

        Raises:
            FileError: there is no such metric.
        """
        metric = metric_of(series)
        if not metric.name:
            return self.title
        for one in self.metrics:
            if one.metric == metric:
                return f"{one.title or one.name}, {self.title}"
        raise FileError(
            f"scenario {self.name!r} has no metric {metric.name!r} in {metric.unit!r}, "
            f"{metric.better} is better"
        )

    @property
    def depends_on_ports(self) -> bool:
        """Whether a sysctl name contains a port."""
        return any("{" in key for key in (*self.sysctls, *self.optional))


def settings_of(name: str) -> NamedSettings:
    """The settings in the name of a scenario.

    Raises:
        ValueError: as `parse_settings`.
    """
    return parse_settings(split_settings(name)[1]) if SETTINGS_MARK in name else NamedSettings()


def by_tunables(scenarios: Iterable[Scenario]) -> list[list[Scenario]]:
    """Scenarios by their tunables: those of a group share a boot. Those without come first."""
    groups: dict[tuple[tuple[str, str], ...], list[Scenario]] = {}
    for scenario in scenarios:
        key = tuple(sorted((name, str(value)) for name, value in scenario.tunables.items()))
        groups.setdefault(key, []).append(scenario)
    return [groups[key] for key in sorted(groups, key=bool)]


def builtin_scenarios() -> Path:
    """Folder of the built-in scenario files."""
    return Path(str(resources.files("netbisect.workers"))) / "scenarios"


def load_scenario(name: str, folders: Sequence[Path] = ()) -> Scenario:
    """The scenario of that name, from `folders` or the built-in ones.

    Args:
        name: Its name; `NAME@TUNABLE=VALUE,sysctl:SYSCTL=VALUE,...` is NAME with further settings.
        folders: Folders of scenario files.

    Raises:
        FileError: unknown or invalid scenario.
    """
    if SETTINGS_MARK in name:
        try:
            return load_scenario(split_settings(name)[0], folders).with_settings(name)
        except ValueError as error:
            raise FileError(f"scenario {name!r}: {error}") from error
    path = _find(name, folders)
    builtin = path.parent == builtin_scenarios()
    return _load_file(path, name, () if builtin else folders)


def _find(name: str, folders: Sequence[Path]) -> Path:
    """The file of a scenario.

    Raises:
        FileError: there is none.
    """
    places = [*folders, builtin_scenarios()]
    for folder in places:
        for path in (folder / f"{name}.toml", folder / name / _OWN_FILE):
            if path.is_file():
                return path
    known = {path.stem for folder in places for path in folder.glob("*.toml")}
    known |= {path.parent.name for folder in places for path in folder.glob(f"*/{_OWN_FILE}")}
    raise FileError(f"there is no scenario {name!r}; found {', '.join(sorted(known))}")


def load_scenario_folder(folder: Path, folders: Sequence[Path] = ()) -> Scenario:
    """The scenario of a folder with the file scenario.toml; its base may be in `folders`.

    Raises:
        FileError: invalid scenario.
    """
    return _load_file(folder / _OWN_FILE, folder.resolve().name, folders)


def _load_file(path: Path, name: str, folders: Sequence[Path] = ()) -> Scenario:
    data = toml.read(path)
    base = data.pop("base", "")
    if base:
        data = _over_base(data, base, path, folders)
    scenario = toml.structure(data, Scenario, source=str(path))
    if scenario.name != name:
        kind = "folder" if path.name == _OWN_FILE else "file"
        raise FileError(f"{path}: name: expected {name!r}, the name of the {kind}")
    folder = path.parent
    return replace(
        scenario,
        prepare=tuple(one.with_text(folder) for one in scenario.prepare),
        measure=scenario.measure and scenario.measure.with_text(folder),
        clean_up=tuple(one.with_text(folder) for one in scenario.clean_up),
    )


def _over_base(
    data: dict[str, Any], base: object, path: Path, folders: Sequence[Path]
) -> dict[str, Any]:
    """The keys of a scenario file over those of the scenario that its key `base` names.

    Raises:
        FileError: there is no such scenario, or it is invalid or has a base itself.
    """
    try:
        scenario = _without_base(str(base), folders)
    except FileError as error:
        raise FileError(f"{path}: base: {error}") from error
    below = toml.strict_converter().unstructure(scenario)
    inherited = {key: below[key] for key in below if below[key] and key not in ("name", "title")}
    merged = {
        key: {**inherited.get(key, {}), **data[key]}
        for key in _MERGED
        if isinstance(data.get(key), dict)
    }
    return {**inherited, **data, **merged}


def _without_base(name: str, folders: Sequence[Path]) -> Scenario:
    path = _find(name, folders)
    if "base" in toml.read(path):
        raise FileError(f"{name!r} has a base itself; expected a scenario without one")
    return _load_file(path, name, folders)


def title_of_series(series: str, folders: Sequence[Path] = ()) -> str:
    """The title of a series, for reports.

    Raises:
        FileError: unknown or invalid scenario, or no such metric.
    """
    return load_scenario(scenario_of(series), folders).series_title(series)
