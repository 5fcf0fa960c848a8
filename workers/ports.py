"""Finds network interfaces: drivers rename them, MAC and PCI addresses stay."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netbisect.workers import freebsd
from netbisect.workers.lab import Port
from netbisect.workers.ssh import Machine

_HEAD = re.compile(r"^(\S+): flags=[0-9a-f]+<([^>\n]*)>", re.MULTILINE)
_ETHER = re.compile(r"^[ \t]+(?:ether|hwaddr) ([0-9a-f:]{17})$", re.MULTILINE)
_STATUS = re.compile(r"^[ \t]+status: (.+)$", re.MULTILINE)
_MEDIA = re.compile(r"^[ \t]+media: (.+)$", re.MULTILINE)
_DEVICE_AT = re.compile(r"^(\w+)@(pci\d+:\d+:\d+:\d+):", re.MULTILINE)
_MELLANOX = ("mlx5_core", "mce")
"""The driver of the PCI function, and the interface that it makes, which has no parent."""


class NoPortError(LookupError):
    """The machine has no such interface."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What ifconfig says of one interface."""

    name: str
    mac: str
    status: str
    """`active` when there is a link; "" where ifconfig does not say."""
    media: str
    up: bool = True
    """Whether it is switched on; without that it has no link."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The interfaces of a machine, and where on the PCI bus they are."""

    interfaces: tuple[Interface, ...]
    devices: Mapping[str, str] = field(default_factory=dict)
    """Name of the device by PCI address."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Name of the device above it, by interface."""

    def find(self, port: Port) -> Interface:
        """The interface that a lab file means: by MAC if it gives one, else by PCI, else by name.

        Raises:
            NoPortError: there is none; the message lists what there is.
        """
        found = list(self._matching(port))
        if len(found) == 1:
            return found[0]
        among = found or self.interfaces
        listed = ", ".join(f"{one.name} {one.mac}".strip() for one in among) or "none"
        if found:
            raise NoPortError(
                f"{port.pci} has several interfaces: {listed}; expected a MAC address"
            )
        raise NoPortError(f"no interface {self._wanted(port)}; there is {listed}")

    def _matching(self, port: Port) -> Iterable[Interface]:
        if port.mac:
            # A bridge or a lagg may carry the address of its first member.
            return [one for one in self.interfaces if one.mac == port.mac][:1]
        if not port.pci:
            return [one for one in self.interfaces if one.name == port.interface]
        device = self.devices.get(port.pci, "")
        driver, name = _MELLANOX
        names = {device, device.replace(driver, name)} if device else set()
        return [
            one
            for one in self.interfaces
            if one.name in names or (device and self.parents.get(one.name) == device)
        ]

    def _wanted(self, port: Port) -> str:
        if port.mac:
            return f"with MAC {port.mac}"
        if not port.pci:
            return f"called {port.interface}"
        device = self.devices.get(port.pci, "")
        if not device:
            return f"at {port.pci}, where pciconf knows no device"
        if device.startswith("none"):
            return f"at {port.pci}, whose device has no driver"
        return f"at {port.pci} ({device})"


def interfaces(ifconfig: str) -> list[Interface]:
    """All interfaces in the output of `ifconfig -a`."""
    heads = list(_HEAD.finditer(ifconfig))
    found = []
    for head, following in itertools.zip_longest(heads, heads[1:]):
        body = ifconfig[head.end() : following.start() if following else None]
        ether, status, media = (pattern.search(body) for pattern in (_ETHER, _STATUS, _MEDIA))
        found.append(
            Interface(
                name=head[1],
                mac=ether[1] if ether else "",
                status=status[1].strip() if status else "",
                media=media[1].strip() if media else "",
                up="UP" in head[2].split(","),
            )
        )
    return found


def devices(pciconf: str) -> dict[str, str]:
    """Names of devices by PCI address, from `pciconf -l`."""
    return {found[2]: found[1] for found in _DEVICE_AT.finditer(pciconf)}


def parents(names: Iterable[str]) -> list[str]:
    """The sysctls that tell the devices above these interfaces."""
    found = (freebsd.device(name) for name in names)
    return [f"dev.{device}.%parent" for device in found if device]


def look(machine: Machine, wanted: Iterable[Port]) -> Inventory:
    """What the machine has; PCI addresses only if one of these ports is known by one.

    Raises what `Machine.run` raises.
    """
    found = tuple(interfaces(machine.run(["ifconfig", "-a"])))
    if all(port.mac or not port.pci for port in wanted):
        return Inventory(found)
    names = [one.name for one in found]
    pciconf, said = machine.ask(["pciconf", "-l"], ["sysctl", "-ie", *parents(names)])
    values = freebsd.values_in(said)
    above = {name: values.get(f"dev.{freebsd.device(name)}.%parent", "") for name in names}
    return Inventory(found, devices(pciconf), above)


class Finder:
    """Finds the data ports of one boot: a machine is asked once, and again if a port is missing."""

    def __init__(self) -> None:
        self._known: dict[str, Inventory] = {}

    def find(self, machine: Machine, port: Port, wanted: Iterable[Port]) -> Interface:
        """The interface of that port; `wanted` are all that will be asked for there.

        Raises what `look` raises.

        Raises:
            NoPortError: as `Inventory.find`.
        """
        known = self._known.get(machine.address)
        if known is not None:
            with contextlib.suppress(NoPortError):
                return known.find(port)
        known = self._known[machine.address] = look(machine, wanted)
        return known.find(port)
