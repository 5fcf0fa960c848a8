"""The simulated device under test."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from netbisect.demo.lab import kernel, panics
from netbisect.demo.lab.clock import Clock
from netbisect.demo.lab.config import profile
from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import Counters, SimulatedMachine
from netbisect.demo.lab.noise import RouterNoise
from netbisect.demo.lab.partitions import DiskPartition, choose
from netbisect.demo.lab.tables import DYNAMIC, Tables
from netbisect.demo.lab.testbeds import PortConfig, SimulatedTestbed

_GOOD = "kernel"
"""Kernel folder below /boot of loader.conf."""
_THROTTLED = 0.6
"""Relative speed of a throttled processor."""
_BUSY = 0.9
"""Relative speed beside another program."""
_IPFW_SWITCHES = ("net.inet.ip.fw.enable", "net.inet6.ip6.fw.enable")
_CLOCK = re.compile(r"@ ([0-9.]+)GHz")
_SHUTDOWN_SECONDS = 5.0
"""From the reboot command to the end of SSH."""
_POST_SECONDS = 40.0
"""From reset to the loader."""
_BOOT_SECONDS = 70.0
"""From the loader to ssh."""
_PANIC_SECONDS = 15.0
"""From a panic to the reboot."""
_LOAD_SECONDS = 5.0
"""Seconds of traffic until a faulty kernel panics."""
_JUMP_SECONDS = 3600.0
_STATHZ = 127
_ASIDE = "aside"
"""Cost centre of work on other processors, which delays no packet."""
_ENDS_UNDER_LOAD = (
    InjectedFault.PANICS_UNDER_LOAD,
    InjectedFault.HANGS_UNDER_LOAD,
    InjectedFault.POWER_LOSS,
)
_FLOW_CONTROL = {"cxl": "pause_settings"}
"""By driver; others have `fc`."""


@dataclass
class Firewalls(Tables):
    """Loaded firewalls and their rules."""

    loaded: set[str] = field(default_factory=set)
    pf_enabled: bool = False
    ipsec: bool = False
    """Whether a policy encrypts what is forwarded."""


class SimulatedRouter(SimulatedMachine):
    """A FreeBSD router between a generator and a receiver."""

    def __init__(self, bed: SimulatedTestbed, place: Path, clock: Clock, seed: int) -> None:
        super().__init__(bed.dut, bed.router_ports, place, clock)
        self.bed = bed
        self.profile = profile(bed.profile)
        self.noise = RouterNoise(self.profile, seed, self.name)
        self.model, self.processors = self.profile.model, self.profile.processors
        self.neighbours: dict[int, str] = {}
        """MAC addresses of the traffic hosts by position of the router's port."""
        self.listeners: set[asyncio.Queue[str]] = set()
        self.image: kernel.LoadedImage | None = None
        self.folder = _GOOD
        self.modules: dict[str, kernel.LoadedImage] = {}
        self.firewalls = Firewalls()
        self._task: asyncio.Task[None] | None = None
        self._restless = random.Random(seed)
        self._runs = itertools.count()
        self._served: Path | None = None
        self._hot = False
        self.serves_tcp = False
        self.busy_seconds = 0.0
        """Busy time of all processors together since the boot."""
        self.partitions: list[DiskPartition] = []
        self.booted: DiskPartition | None = None
        self.root_writable = False
        self.environments: dict[str, Path] = {}
        """Host folders of boot environments on ZFS."""
        self.running_environment = self.environment_once = ""
        self.labelled = False
        """Whether the label of the pool has the order of nextboot(8)."""
        if bed.root == "zfs":
            self._make_pool()
        if bed.root == "partitions":
            self.partitions = [
                DiskPartition(number + 2, f"BSDRP{number}", folder)
                for number, folder in enumerate(bed.roots(place.parent), 1)
            ]
            self.partitions[0].attributes.add("bootme")
        self._counter = place / "boots"
        self.boots = int(self._counter.read_text()) if self._counter.exists() else 0

    @property
    def version(self) -> str:
        """The output of `uname -v`."""
        return self.image.version if self.image else ""

    def _make_pool(self) -> None:
        self.environments = {"default": self.disk}
        for place in sorted(self.place.glob("environment-*")):
            self.environments[place.name.removeprefix("environment-")] = place
        for name in ("sbin/nextboot", "boot/lua/config.lua"):  # as those of FreeBSD 13 and later
            (self.disk / name).parent.mkdir(parents=True, exist_ok=True)
            (self.disk / name).write_text("nvstore\n")

    @property
    def root(self) -> Path:
        """On the disk, in the booted partition, or on another machine."""
        if self.booted is not None:
            return self.booted.folder
        if self.environments:
            return self.environments[self.running_environment or "default"]
        return self.bed.roots(self.place.parent)[0]

    def read_only(self, name: str, folder: str = "/") -> bool:
        """A root on two partitions is mounted read-only."""
        place = Path(self.clean(name, folder))
        elsewhere = any(place.is_relative_to(point) for point in ("/tmp", *self.mounts))  # noqa: S108
        return bool(self.partitions) and not self.root_writable and not elsewhere

    def say(self, text: str) -> None:
        """Prints to the console."""
        for listener in self.listeners:
            listener.put_nowait(text)

    async def power_on(self) -> None:
        """Boots without delay at the start of the lab."""
        image = self._load()
        if image is not None:
            await self._come_up(image)

    async def power_cycle(self) -> None:
        """Cycles the power."""
        await self.stop()
        self._next(self._boot(_POST_SECONDS))

    async def stop(self) -> None:
        """Shuts down and cancels pending actions."""
        if self._task and self._task is not asyncio.current_task():
            self._task.cancel()
        await super().stop()

    def reboot(self) -> None:
        """Reboots in an orderly way."""
        self._next(self._go_down())

    def bear_load(self, flows: int) -> None:
        """Starts traffic."""
        self.firewalls.begin(flows, self.sysctls)
        if InjectedFault.THROTTLES in self.faults:
            self._hot = True
        if InjectedFault.MEDDLER in self.faults:
            self.sysctls["net.inet.ip.redirect"] = "1"
        if InjectedFault.CLOCK_JUMPS in self.faults:
            # The time of the start is kept as the clock's time less that of being up.
            self.boottime += _JUMP_SECONDS
        for fault in _ENDS_UNDER_LOAD:
            if fault in self.faults:
                self._next(self._fail_soon(fault))
                break

    def _next(self, what: object) -> None:
        assert asyncio.iscoroutine(what)
        if self._task:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(what)

    async def _go_down(self) -> None:
        await self.clock.sleep(_SHUTDOWN_SECONDS * self._restless.uniform(0.5, 1.5))
        await self.stop()
        self.say("Uptime: 5m0s\nRebooting...\n")
        await self._boot(_POST_SECONDS)

    async def _fail_soon(self, fault: InjectedFault) -> None:
        await self.clock.sleep(_LOAD_SECONDS)
        await self.stop()
        wait = _POST_SECONDS
        if fault is InjectedFault.PANICS_UNDER_LOAD:
            if not self._panics(panics.TRAP, "page fault", panics.FRAMES_UNDER_LOAD):
                return
            wait += _PANIC_SECONDS
        elif fault is InjectedFault.HANGS_UNDER_LOAD:
            return
        await self._boot(wait)

    def _panics(self, before: str, message: str, frames: str) -> bool:
        """Prints a panic; False if the kernel then waits in its debugger."""
        self.say(f"{before}panic: {message}\ncpuid = 0\nKDB: stack backtrace:\n{frames}")
        if self.environment.get("debug.debugger_on_panic") != "0":
            self.say("KDB: enter: panic\n[ thread pid 0 tid 100000 ]\nStopped at kdb_enter\ndb> ")
            return False
        self.say(
            f"Uptime: 1m0s\nAutomatic reboot in {_PANIC_SECONDS:.0f} seconds - "
            "press a key on the console to abort\n"
        )
        return True

    async def _boot(self, wait: float) -> None:
        """Boots until a kernel stays up or the machine is stuck."""
        while True:
            await self.clock.sleep(wait)
            image = self._load()
            if image is None:
                return
            if not image.panics:
                break
            await self.clock.sleep(1.0)
            if not self._panics("", image.panics[0], panics.FRAMES_AT_BOOT):
                return
            wait = _PANIC_SECONDS + _POST_SECONDS
        await self.clock.sleep(_BOOT_SECONDS * self._restless.uniform(0.9, 1.1))
        await self._come_up(image)

    def _load(self) -> kernel.LoadedImage | None:
        """The kernel that loader(8) starts, or None."""
        if InjectedFault.DEAD in self.faults:
            return None
        if self.partitions:
            self.booted = choose(self.partitions)
        self.running_environment = self.environment_once or "default"
        self.environment_once = ""
        self.mounts.clear()
        self.folder, extra = self._loader()
        self.environment = {
            "kernelname": f"/boot/{self.folder}/kernel",
            "vfs.root.mountfrom": self._mounted_from(),
            **extra,
        }
        self.bootfile = self.environment["kernelname"]
        file = self.path("kernel", f"/boot/{self.folder}")
        if InjectedFault.STALE_LOADER in self.faults and self._served is not None:
            file = self._served
        self._served = file
        try:
            image = kernel.read(file)
        except kernel.NotBootableError as error:
            self.say(f"{error}\n\nType '?' for a list of commands, 'help' for more help.\nOK ")
            return None
        self.say(f"Booting {self.bootfile}...\n---<<BOOT>>---\n{image.version}\n")
        if InjectedFault.HANGS in self.faults and self.folder != _GOOD:
            return None
        return image

    def _loader(self) -> tuple[str, dict[str, str]]:
        """Kernel folder and settings of nextboot.conf, once, or of loader.conf."""
        labelled, self.labelled = self.labelled, False
        if self.environments and not labelled:
            return self._loader_conf()
        nextboot = self.path("nextboot.conf", "/boot")
        if InjectedFault.IGNORES_NEXTBOOT in self.faults or not nextboot.is_file():
            return _GOOD, {}
        text = nextboot.read_text()
        if not self.bed.server:  # where the loader cannot write
            # Switched off before the kernel starts: a panic comes back to the good one.
            nextboot.write_text(text.replace('nextboot_enable="YES"', 'nextboot_enable="NO" '))
        settings = dict(re.findall(r'^([\w.]+)="(.*)"$', text, re.MULTILINE))
        if settings.pop("nextboot_enable", "") != "YES" and not labelled:
            return _GOOD, {}
        folder = settings.pop("kernel", _GOOD)
        if InjectedFault.FALLS_BACK in self.faults:
            self.say(f"can't load '{folder}'\n")
            folder = _GOOD
        return folder, settings

    def _loader_conf(self) -> tuple[str, dict[str, str]]:
        """Kernel folder and settings of the files in loader.conf.d."""
        folder = self.path("loader.conf.d", "/boot")
        text = "".join(path.read_text() for path in sorted(folder.glob("*.conf")))
        settings = dict(re.findall(r'^([\w.]+)="(.*)"$', text, re.MULTILINE))
        return settings.pop("kernel", _GOOD), settings

    def _mounted_from(self) -> str:
        if self.booted is not None:
            return f"ufs:/dev/gpt/{self.booted.label}"
        if self.environments:
            return f"zfs:zroot/ROOT/{self.running_environment}"
        return f"nfs:{self.bed.server}:/{self.name}" if self.bed.server else "ufs:/dev/ada0p2"

    async def _come_up(self, image: kernel.LoadedImage) -> None:
        self.boots += 1
        self._counter.write_text(f"{self.boots}\n")
        self.image = image
        self.modules.clear()
        self.ports = self._named_ports()
        self.messages = [image.version, *(f"{port.name}: <Ethernet>" for port in self.ports)]
        self.counters = {port.name: Counters() for port in self.ports}
        self._hot = False
        self.firewalls = Firewalls()
        self.faults.discard(InjectedFault.OFF)
        self.root_writable = False
        self.programs.clear()
        self.serves_tcp, self.busy_seconds, self.encrypted = False, 0.0, 0
        self.lro.clear()
        self.reset_interfaces()
        if self.booted is not None:
            self.booted.attributes.discard("bootonce")  # as /etc/rc.d/gptboot does
        self.boottime = self.clock.now()
        self.sysctls = {
            "hw.model": self.model,
            "hw.ncpu": str(self.processors),
            "kern.ident": image.version.rsplit(" ", 1)[-1],
            "kern.build_id": image.build_id,
            "kern.hz": "1000",
            "kern.random.harvest.mask": "511",
            "kern.clockrate": f"{{ hz = 1000, tick = 1000, profhz = 8126, stathz = {_STATHZ} }}",
            **{
                f"dev.{port.device}.{_FLOW_CONTROL.get(port.driver, 'fc')}": "3"
                for port in self.ports
            },
            "debug.debugger_on_panic": "0",
            "kern.hwpmc.mincount": "1000",
            "kern.hwpmc.stats.intr_bufferfull": "0",
            "net.inet.ip.forwarding": "1",
            "net.inet.ip.redirect": "1",
            "net.inet.tcp.tso": "1",
            "net.inet6.ip6.forwarding": "1",
            "net.inet6.ip6.redirect": "1",
        }
        self.say(f"\nFreeBSD/amd64 ({self.name}) (ttyu0)\n\nlogin: ")
        await self.start()

    def _named_ports(self) -> list[PortConfig]:
        """The data ports by their names in the running kernel."""
        if InjectedFault.RENAMED_PORTS not in self.faults or self.folder == _GOOD:
            return self.bed.router_ports
        return [
            replace(port, name=f"em{number}") for number, port in enumerate(self.bed.router_ports)
        ]

    def sensors(self) -> dict[str, str]:
        """Adds clocks and temperatures to the common sysctls."""
        clock = _CLOCK.search(self.model)
        top = round(1000 * float(clock[1])) if clock else 2400
        found = {
            "hw.acpi.thermal.tz0._PSV": "-1",
            "hw.acpi.thermal.tz0.temperature": "27.9C",
            "dev.cpu.0.freq_levels": f"{top + 1}/80000 {top}/80000 {top // 2}/40000",
            "dev.cpu.0.freq": str(round(top * _THROTTLED) if self._hot else top),
        }
        for number in range(self.processors):
            place = f"dev.cpu.{number}"
            found[f"{place}.temperature"] = "101.0C" if self._hot else "48.0C"
            found[f"{place}.coretemp.tjmax"] = "100.0C"
            found[f"{place}.coretemp.throttle_log"] = "1" if self._hot else "0"
        ticks = round((self.clock.now() - self.boottime) * _STATHZ)
        busy = min(round(self.busy_seconds * _STATHZ / self.processors), ticks)
        found["kern.cp_times"] = " ".join([f"0 0 {busy} 0 {ticks - busy}"] * self.processors)
        return {**super().sensors(), **found, **self._queue_counters()}

    def _queue_counters(self) -> dict[str, str]:
        """Descriptors sent by queue; all queues take the same, or the first one takes all."""
        found = {}
        shares = 1 if InjectedFault.ONE_QUEUE in self.faults else self.queues()
        for port in self.ports:
            found[f"dev.{port.device}.iflib.driver_version"] = "7.7.8-fbsd"
            for queue in range(self.queues()):
                found[f"dev.{port.device}.iflib.rxq{queue}.rxq_fl0.pidx"] = "0"
                sent = self.counters[port.name].sent // shares if queue < shares else 0
                found[f"dev.{port.device}.iflib.txq{queue}.txq_processed"] = str(sent)
        return found

    def load_module(self, name: str) -> None:
        """kldload: from the folder of the running kernel.

        Raises:
            NotBootableError: it is not there.
        """
        self.modules[name] = kernel.read(self.path(f"{name}.ko", f"/boot/{self.folder}"))
        self.firewalls.loaded.add(name)
        if name == "ipfw":
            self.sysctls |= dict.fromkeys(_IPFW_SWITCHES, "1") | DYNAMIC

    def unload_module(self, name: str) -> bool:
        """kldunload; False if the module is not loaded."""
        self.firewalls.loaded.discard(name)
        self.firewalls.addresses.pop(name, None)
        if name == "pf":
            self.firewalls.pf_enabled = False
            self.firewalls.pf_rules = []
        else:
            self.firewalls.ipfw_rules = []
            for switch in (*_IPFW_SWITCHES, *DYNAMIC):
                self.sysctls.pop(switch, None)
        return self.modules.pop(name, None) is not None

    def _way(self, family: str) -> list[str]:
        """Cost centres of a packet.

        IPv6 has a fast path only without redirects: ip6_input() of sys/netinet6/ip6_input.c.
        """
        way = [self.bed.driver, "ether", "mbuf", "route"]
        if family == "inet4":
            return [*way, "ip4"]
        slow = self.sysctls["net.inet6.ip6.redirect"] != "0"
        return [*way, "ip6", *(["route", "ip6"] if slow else [])]

    def _filters(self) -> list[str]:
        """Additional cost centres of the active rules."""
        places = []
        walls = self.firewalls
        if walls.pf_enabled and walls.pf_rules:
            stateless = any("no state" in rule for rule in walls.pf_rules)
            places += ["pf", "pf_rule" if stateless else "pf_state", *walls.large("pf")]
        if "ipfw" in walls.loaded and self.sysctls[_IPFW_SWITCHES[0]] != "0":
            stateful = any("keep-state" in rule for rule in walls.ipfw_rules)
            places += ["ipfw", *(["ipfw_state"] if stateful else []), *walls.large("ipfw")]
        places += [*walls.others(), *(["ipsec"] if walls.ipsec else [])]
        return [*places, *(clone.kind for clone in self.detour)]

    def _places(self, family: str) -> list[str]:
        return [*self._way(family), *self._filters()]

    @property
    def _images(self) -> list[kernel.LoadedImage]:
        """The running kernel and its loaded modules."""
        return [self.image, *self.modules.values()] if self.image else []

    def functions(self, family: str) -> list[kernel.Function]:
        """The functions of a packet with the active rules, in call order."""
        found = [one for image in self._images for one in image.functions]
        return [one for place in self._places(family) for one in found if one.place == place]

    def capacity(self, family: str) -> float:
        """Mean forwarding rate of this boot with the active rules, in packets per second."""
        if not self.up or self.image is None or self._closed(family):
            return 0.0
        return self._rate(self._places(family), f"{family} {' '.join(self._filters())}")

    def tcp_rate(self, places: list[str], flows: int) -> float:
        """Segments per second through these cost centres; a flow has one processor."""
        rate = self._rate(places, f"{' '.join(places)} {flows}")
        return rate * min(flows, self.processors) / self.processors

    def forward(self, family: str, packets: int) -> None:
        """Accounts for the processors' time of forwarded packets."""
        capacity = self.capacity(family)
        self.encrypted += packets * self.firewalls.ipsec
        for clone in self.detour:
            clone.sent += packets
        self.firewalls.ipf_packets += packets
        if capacity:
            aside = 1 + self._cost([_ASIDE]) / self._cost(self._places(family))
            self.busy_seconds += aside * packets * self.processors / capacity

    def _cost(self, places: list[str]) -> float:
        """Nanoseconds per packet."""
        return float(sum(image.costs.get(place, 0) for image in self._images for place in places))

    def _rate(self, places: list[str], scenario: str) -> float:
        """Packets per second of all processors through these cost centres."""
        nanoseconds = self._cost(places)
        if nanoseconds <= 0:
            return 0.0
        level = 1e9 / (nanoseconds * self.profile.nanoseconds)
        text = "+".join(image.text for image in self._images)
        level *= _THROTTLED if self._hot else 1.0
        level *= self.queues() / self.processors
        level *= _BUSY if InjectedFault.BUSY in self.faults else 1.0
        return level * self.noise.boot_factor(text, self.boots, scenario)

    def queues(self) -> int:
        """Receive queues of the ingress, each of one processor."""
        names = [f"dev.{port.device}.iflib.override_nrxqs" for port in self.ports[:1]]
        wanted = "".join(self.environment.get(name, "") for name in names)
        return min(int(wanted), self.processors) if wanted.isdecimal() else self.processors

    def _closed(self, family: str) -> bool:
        """Whether forwarding is disabled, or all packets are dropped on their way."""
        forwarding = "net.inet.ip" if family == "inet4" else "net.inet6.ip6"
        dead_end = any(not clone.carries for clone in self.detour)
        if self.sysctls[f"{forwarding}.forwarding"] == "0" or dead_end:
            return True
        walls = self.firewalls
        accept = self.environment.get("net.inet.ip.fw.default_to_accept") == "1"
        filters = "ipfw" in walls.loaded and self.sysctls[_IPFW_SWITCHES[0]] != "0"
        return filters and not walls.ipfw_rules and not accept

    def seconds(self) -> Iterator[float]:
        """Factors for the seconds of a new run."""
        return self.noise.seconds(self.boots, next(self._runs))
