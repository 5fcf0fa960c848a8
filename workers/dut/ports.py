"""Finds network interfaces by name, MAC or PCI address."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import freebsd_tools
from netbisect.workers.transport.errors import MachineError
from netbisect.workers.transport.ssh import Connections, Machine

_HEAD = re.compile(r"^(\S+): flags=[0-9a-f]+<([^>\n]*)>", re.MULTILINE)
_ETHER = re.compile(r"^[ \t]+(?:ether|hwaddr) ([0-9a-f:]{17})$", re.MULTILINE)
_MTU = re.compile(r"\bmtu (\d{1,6})\b")
_STATUS = re.compile(r"^[ \t]+status: (.+)$", re.MULTILINE)
_MEDIA = re.compile(r"^[ \t]+media: (.+)$", re.MULTILINE)
_OPTIONS = re.compile(r"^[ \t]+(options|capabilities)=[0-9a-f]+<([^>\n]*)>", re.MULTILINE)
_DEVICE_AT = re.compile(r"^(\w+)@(pci\d+:\d+:\d+:\d+):", re.MULTILINE)
_MELLANOX = ("mlx5_core", "mce")
"""PCI driver of Mellanox cards, and the name of its interfaces, which have no parent."""


class PortNotFoundError(MachineError):
    """The machine has no such interface."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of ifconfig(8)."""

    name: str
    mac: str
    status: str
    """`active` with a link; "" if unknown."""
    media: str
    up: bool = True
    """Flag UP; without it there is no link."""
    mtu: int = 0
    """Bytes; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Interfaces of a machine and their PCI addresses."""

    machine: str
    """Its ssh address."""
    interfaces: tuple[Interface, ...]
    devices: Mapping[str, str] = field(default_factory=dict)
    """Device by PCI address."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Parent device by interface."""

    def find(self, port: PortSelector) -> Interface:
        """The interface of a port: by MAC, else by PCI address, else by name.

        Raises:
            PortNotFoundError: the message names the machine and lists the interfaces.
        """
        found = list(self._matching(port))
        if len(found) == 1:
            return found[0]
        among = found or self.interfaces
        listed = ", ".join(f"{one.name} {one.mac}".strip() for one in among) or "none"
        why = f"no interface {self._wanted(port)}; found {listed}"
        if found:
            why = f"{port.pci} has several interfaces: {listed}; expected a MAC address"
        raise PortNotFoundError(f"{self.machine}: {why}", self.machine)

    def _matching(self, port: PortSelector) -> Iterable[Interface]:
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

    def _wanted(self, port: PortSelector) -> str:
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


def _sections(ifconfig: str) -> Iterator[tuple[re.Match[str], str]]:
    """First line and further lines of each interface."""
    heads = list(_HEAD.finditer(ifconfig))
    for head, following in itertools.zip_longest(heads, heads[1:]):
        yield head, ifconfig[head.end() : following.start() if following else None]


def parse_interfaces(ifconfig: str) -> list[Interface]:
    """Interfaces in the output of `ifconfig -a`."""
    found = []
    for head, body in _sections(ifconfig):
        patterns = _ETHER, _STATUS, _MEDIA, _MTU
        ether, status, media, mtu = (pattern.search(body) for pattern in patterns)
        found.append(
            Interface(
                name=head[1],
                mac=ether[1] if ether else "",
                status=status[1].strip() if status else "",
                media=media[1].strip() if media else "",
                up="UP" in head[2].split(","),
                mtu=int(mtu[1]) if mtu else 0,
            )
        )
    return found


def options_of(ifconfig: str, name: str) -> str:
    """Options of an interface, and those that it could have besides, from `ifconfig -a -m`."""
    for head, body in _sections(ifconfig):
        if head[1] == name:
            found = {match[1]: match[2].split(",") for match in _OPTIONS.finditer(body)}
            on = found.get("options", [])
            off = [one for one in found.get("capabilities", []) if one not in on]
            return ",".join(on) + (f" (off: {','.join(off)})" if off else "")
    return ""


def parse_devices(pciconf: str) -> dict[str, str]:
    """Devices by PCI address, from `pciconf -l`."""
    return {found[2]: found[1] for found in _DEVICE_AT.finditer(pciconf)}


def read_inventory(machine: Machine, wanted: Iterable[PortSelector]) -> Inventory:
    """Reads the interfaces, and PCI addresses if a port needs them.

    Raises what `Machine.run` raises.
    """
    found = tuple(parse_interfaces(machine.run(["ifconfig", "-a"])))
    if all(port.mac or not port.pci for port in wanted):
        return Inventory(machine.address, found)
    devices = {one.name: freebsd_tools.device(one.name) for one in found}
    parents = {name: f"dev.{device}.%parent" for name, device in devices.items() if device}
    pciconf, output = machine.ask(["pciconf", "-l"], ["sysctl", "-ie", *parents.values()])
    values = freebsd_tools.parse_sysctls(output)
    above = {name: values.get(sysctl, "") for name, sysctl in parents.items()}
    return Inventory(machine.address, found, parse_devices(pciconf), above)


class PortFinder:
    """Finds the data ports of one boot; caches the inventory of each machine."""

    def __init__(self, testbed: Testbed, connections: Connections) -> None:
        self._ports = testbed.ports
        self._connections = connections
        self._known: dict[str, Inventory] = {}

    def find(self, part: str) -> Interface:
        """The interface of a part of the testbed, such as `ingress`.

        Raises what `read_inventory` raises.

        Raises:
            PortNotFoundError: as `Inventory.find`.
        """
        address, port = self._ports[part]
        if address in self._known:
            with contextlib.suppress(PortNotFoundError):
                return self._known[address].find(port)
        wanted = [one for other, one in self._ports.values() if other == address]
        self._known[address] = read_inventory(self._connections.machine(address), wanted)
        return self._known[address].find(port)
