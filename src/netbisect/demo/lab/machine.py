"""Simulated machines: disk, ports and state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netbisect.demo.lab.clock import Clock
from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.testbeds import PortConfig

Hook = Callable[[], Awaitable[None]]


class Program:
    """A running program."""

    def __init__(self, name: str, arguments: Iterable[str] = ()) -> None:
        self.name = name
        self.line = " ".join([name, *arguments])
        self.interrupted = asyncio.Event()


@dataclass(slots=True)
class Counters:
    """Packet counters of a port, as shown by netstat(1)."""

    received: int = 0
    received_errors: int = 0
    sent: int = 0
    damaged: int = 0
    """Frames with a wrong CRC, included in the errors."""


@dataclass(slots=True)
class Clone:
    """A cloned interface, such as gif0."""

    kind: str
    """The letters of its name."""
    over: str = ""
    """Its port, or the other end of its tunnel."""
    address: str = ""
    """With the length of its prefix; of a point-to-point interface also the other one."""
    neighbour: str = ""
    """MAC address of the static ARP entry."""
    route: str = ""
    """Network behind it."""
    endpoint: str = ""
    """Endpoint of the peer of wg(4), or `:PORT` of one that listens."""
    sent: int = 0

    @property
    def carries(self) -> bool:
        """Whether packets that are routed through it leave."""
        return bool(self.over) and (self.kind in _POINT_TO_POINT or bool(self.neighbour))


_POINT_TO_POINT = ("gif", "gre", "wg")


class SimulatedMachine:
    """A machine with a disk, ports and an SSH server."""

    model = "Intel(R) Xeon(R) CPU E3-1240 v5 @ 3.50GHz"
    processors = 4

    def __init__(self, name: str, ports: Sequence[PortConfig], place: Path, clock: Clock) -> None:
        self.name = name
        self.ports = ports
        self.place = place
        self.disk = place / "disk"
        self.clock = clock
        self.up = False
        self.boottime = clock.now()
        self.sysctls: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.bootfile = "/boot/kernel/kernel"
        self.faults: set[InjectedFault] = set()
        self.programs: set[Program] = set()
        self.background: set[asyncio.Task[int]] = set()
        self.messages: list[str] = []
        """Kernel messages, as shown by dmesg(8)."""
        self.counters = {port.name: Counters() for port in ports}
        self.on_up: Hook | None = None
        self.on_down: Hook | None = None
        self.disk.mkdir(parents=True, exist_ok=True)
        self.lro: set[str] = set()
        """Ports that merge received segments."""
        self.encrypted = 0
        """Packets sent by ESP."""
        self.clones: dict[str, Clone] = {}
        """Cloned interfaces by name."""
        self.down: set[str] = set()
        """Ports without the flag UP."""
        self.addresses: dict[str, list[str]] = {}
        """Addresses of ports, as ifconfig(8) shows them."""
        self.mounts: dict[str, Path] = {}
        """Host folders by mount point, except the root."""

    def reset_interfaces(self) -> None:
        """Removes cloned interfaces and sets the addresses of a router, as rc.conf does."""
        self.clones.clear()
        self.down.clear()
        for number, port in enumerate(self.ports):
            inet = f"198.{18 + number}.0"
            self.addresses[port.name] = [
                f"inet {inet}.2 netmask 0xffffff00 broadcast {inet}.255",
                f"inet6 fe80::2%{port.name} prefixlen 64 scopeid 0x{number + 1}",
            ]

    @property
    def detour(self) -> list[Clone]:
        """The cloned interfaces that packets leave through."""
        return [clone for clone in self.clones.values() if clone.route]

    @property
    def version(self) -> str:
        """The output of `uname -v`."""
        return "FreeBSD 14.2-RELEASE releng/14.2-n269506-c8918d6c7412 GENERIC"

    def link_changed(self, port: str, *states: str) -> None:
        """Logs that the link of a port went DOWN or UP."""
        self.messages += [f"{port}: link state changed to {state}" for state in states]

    def sensors(self) -> dict[str, str]:
        """Sysctls with a new value at every read."""
        found = {}
        for number, port in enumerate(self.ports):
            leaf = "stats.rx_fcs_err" if port.driver == "cxl" else "mac_stats.crc_errs"
            damaged = self.counters[port.name].damaged
            found[f"dev.{port.device}.{leaf}"] = str(damaged)
            # Chelsio's two ports hang on one PCI function.
            above = "t5nex0" if "cxl" in port.driver else f"pci{2 + number}"
            found[f"dev.{port.device}.%parent"] = above
        return found

    def pci_devices(self) -> dict[str, str]:
        """Devices by PCI address."""
        places = [f"pci0:{2 + number}:0:0" for number in range(len(self.ports))]
        if any("cxl" in port.driver for port in self.ports):
            return {"pci0:2:0:4": "t5nex0"}
        return dict(zip(places, (port.name for port in self.ports), strict=True))

    @property
    def root(self) -> Path:
        """The host folder of the root file system."""
        return self.disk

    @staticmethod
    def clean(name: str, folder: str = "/") -> str:
        """The absolute path of a name in a folder, without `..`."""
        clean: list[str] = []
        for part in Path("/", folder, name).parts[1:]:
            if part == "..":
                clean = clean[:-1]
            else:
                clean.append(part)
        return "/" + "/".join(clean)

    def path(self, name: str, folder: str = "/") -> Path:
        """A file of the machine on the host; never outside its own disk."""
        place = Path(self.clean(name, folder))
        for point, mounted in self.mounts.items():
            if place.is_relative_to(point):
                return mounted / place.relative_to(point)
        return self.root / place.relative_to("/")

    def read_only(self, name: str, folder: str = "/") -> bool:
        """Whether the file system is read-only."""
        del name, folder
        return False

    async def start(self) -> None:
        """Boots."""
        self.up = True
        if self.on_up:
            await self.on_up()

    async def stop(self) -> None:
        """Shuts down."""
        self.up = False
        if self.on_down:
            await self.on_down()

    async def power_on(self) -> None:
        """Boots without delay at the start of the lab."""
        await self.start()

    async def break_down(self, fault: InjectedFault) -> None:
        """Injects a fault."""
        self.faults.add(fault)
        if fault in (InjectedFault.OFF, InjectedFault.DEAD):
            await self.stop()
        elif fault is InjectedFault.NEW_HOST_KEY and self.up:
            await self.stop()
            await self.start()

    async def mend(self) -> None:
        """Removes all faults and boots."""
        changed = self.faults & {
            InjectedFault.OFF,
            InjectedFault.DEAD,
            InjectedFault.NEW_HOST_KEY,
            InjectedFault.DIES_UNDER_LOAD,
            InjectedFault.HANGS_UNDER_LOAD,
        }
        self.faults.clear()
        if changed:
            await self.stop()
            await self.power_on()


class Host(SimulatedMachine):
    """A generator or receiver, always up."""

    def __init__(self, name: str, ports: Sequence[PortConfig], place: Path, clock: Clock) -> None:
        super().__init__(name, ports, place, clock)
        self.sysctls = {
            "hw.model": self.model,
            "hw.ncpu": str(self.processors),
            "dev.netmap.admode": "0",
        }
        program = self.disk / "usr" / "local" / "bin" / "pkt-gen"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("the simulated pkt-gen\n")

    def sensors(self) -> dict[str, str]:
        """Adds the queues of the ports: one per processor."""
        queues = {
            f"dev.{port.device}.iflib.{name}": "0"
            for port in self.ports
            for queue in range(self.processors)
            for name in (f"rxq{queue}.rxq_fl0.pidx", f"txq{queue}.r_drops")
        }
        return super().sensors() | queues
