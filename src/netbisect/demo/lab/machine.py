"""Machines: power, disk, boot, kernel environment, modules and rules."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from netbisect.demo.lab import kernel
from netbisect.demo.lab.clock import Clock
from netbisect.demo.lab.config import HostConfig, PortConfig, RouterConfig, profile
from netbisect.demo.lab.noise import Luck

Hook = Callable[[], Awaitable[None]]


class Machine:
    """Anything with a disk, ports and an SSH server."""

    model = "Intel(R) Xeon(R) CPU E3-1240 v5 @ 3.50GHz"
    processors = 4

    def __init__(self, name: str, ports: tuple[PortConfig, ...], disk: Path, clock: Clock) -> None:
        self.name = name
        self.ports = ports
        self.disk = disk
        self.clock = clock
        self.up = False
        self.boottime = clock.now()
        self.sysctls: dict[str, str] = {}
        self.on_up: Hook | None = None
        self.on_down: Hook | None = None
        disk.mkdir(parents=True, exist_ok=True)

    @property
    def version(self) -> str:
        """What `uname -v` says."""
        return "FreeBSD 14.2-RELEASE releng/14.2-n269506-c8918d6c7412 GENERIC"

    def path(self, name: str, folder: str = "/") -> Path:
        """A file of the machine on the disk of this host; never outside the machine's own."""
        joined = Path("/", folder, name)
        clean: list[str] = []
        for part in joined.parts[1:]:
            if part == "..":
                clean = clean[:-1]
            elif part != ".":
                clean.append(part)
        return self.disk.joinpath(*clean)

    async def start(self) -> None:
        """Comes up."""
        self.up = True
        if self.on_up:
            await self.on_up()

    async def stop(self) -> None:
        """Goes down."""
        self.up = False
        if self.on_down:
            await self.on_down()


class Host(Machine):
    """A generator or receiver: always up."""

    def __init__(self, config: HostConfig, disk: Path, clock: Clock) -> None:
        super().__init__(config.name, config.ports, disk, clock)
        self.sysctls = {"hw.model": self.model, "hw.ncpu": str(self.processors)}
        self.sysctls["kern.bootfile"] = "/boot/kernel/kernel"


@dataclass
class Firewalls:
    """What is loaded and which rules are in force."""

    loaded: set[str] = field(default_factory=set)
    pf_enabled: bool = False
    pf_rules: list[str] = field(default_factory=list)
    ipfw_rules: list[str] = field(default_factory=list)


class Router(Machine):
    """A device under test: runs whatever kernel its loader finds."""

    def __init__(self, config: RouterConfig, disk: Path, clock: Clock, seed: int) -> None:
        super().__init__(config.name, config.ports, disk, clock)
        self.config = config
        self.profile = profile(config.profile)
        self.luck = Luck(self.profile, seed, config.name)
        self.model, self.processors = self.profile.model, self.profile.processors
        self.boots = 0
        self.console: list[str] = []
        self.environment: dict[str, str] = {}
        self.image: kernel.Image | None = None
        self.folder = "kernel"
        self.modules: dict[str, kernel.Image] = {}
        self.firewalls = Firewalls()
        self._task: asyncio.Task[None] | None = None
        self._restless = random.Random(seed)

    @property
    def version(self) -> str:
        """What `uname -v` says."""
        return self.image.version if self.image else ""

    # ------------------------------------------------------------------------ power and loader

    def say(self, line: str) -> None:
        """Prints a line on the console."""
        self.console.append(line)

    async def power_cycle(self) -> None:
        """Off and on, whatever it was doing."""
        if self._task:
            self._task.cancel()
        await self.stop()
        self.say("")
        self._task = asyncio.ensure_future(self._boot(after=5.0))

    async def reboot(self) -> None:
        """Orderly: down, and up again through the loader."""
        self._task = asyncio.ensure_future(self._go_down())

    async def _go_down(self) -> None:
        await self.clock.sleep(self.config.shutdown_seconds * self._restless.uniform(0.1, 0.3))
        await self.stop()
        self.say("Uptime: 5m0s\nRebooting...")
        await self._boot(after=self.config.shutdown_seconds)

    async def _boot(self, after: float) -> None:
        """One start after the other until a kernel stays up, or none can be loaded."""
        while True:
            await self.clock.sleep(after)
            self.folder, extra = self._loader()
            try:
                image = kernel.read(self.path("kernel", f"/boot/{self.folder}"))
            except kernel.NotBootableError as error:
                self.say(f"{error}\n\nType '?' for a list of commands, 'help' for more help.\nOK ")
                return
            self.say(f"Booting /boot/{self.folder}/kernel...\n{image.version}")
            if image.panics:
                self.say(f"panic: {image.panics[0]}\ncpuid = 0\nKDB: stack backtrace:")
                self.say("kdb_backtrace() at kdb_backtrace+0x5d\nvpanic() at vpanic+0x151")
                self.say("mi_startup() at mi_startup+0x1bf\nAutomatic reboot in 15 seconds")
                after = self.config.panic_seconds
                continue
            break
        await self.clock.sleep(self.config.boot_seconds * self._restless.uniform(0.9, 1.1))
        self.boots += 1
        self.image = image
        self.environment = {"kernelname": f"/boot/{self.folder}/kernel", **extra}
        self.modules.clear()
        self.firewalls = Firewalls()
        self.boottime = self.clock.now()
        ident = image.version.rsplit(" ", 1)[-1]
        self.sysctls = {
            "hw.model": self.model,
            "hw.ncpu": str(self.processors),
            "kern.ident": ident,
            "net.inet.ip.redirect": "0",
            "net.inet6.ip6.redirect": "0",
            "net.inet.ip.forwarding": "1",
        }
        self.say(f"login: {self.name} is up on /boot/{self.folder}/kernel")
        await self.start()

    def _loader(self) -> tuple[str, dict[str, str]]:
        """What loader(8) starts: nextboot.conf once, loader.conf else."""
        nextboot = self.path("nextboot.conf", "/boot")
        settings: dict[str, str] = {}
        if nextboot.is_file():
            for line in nextboot.read_text().splitlines():
                found = re.match(r'([\w.]+)="(.*)"', line)
                if found:
                    settings[found[1]] = found[2]
            # Switched off before the kernel starts: a panic comes back to the good one.
            nextboot.write_text(
                nextboot.read_text().replace('nextboot_enable="YES"', 'nextboot_enable="NO "')
            )
        if settings.pop("nextboot_enable", "") != "YES":
            return "kernel", {}
        return settings.pop("kernel", "kernel"), settings

    # -------------------------------------------------------------------------------- packets

    def load_module(self, name: str) -> None:
        """kldload: from the folder of the running kernel.

        Raises:
            NotBootableError: it is not there.
        """
        if name not in self.modules:
            self.modules[name] = kernel.read(self.path(f"{name}.ko", f"/boot/{self.folder}"))
            self.firewalls.loaded.add(name)

    def unload_module(self, name: str) -> bool:
        """kldunload; False when it was not loaded."""
        self.firewalls.loaded.discard(name)
        if name == "pf":
            self.firewalls.pf_enabled = False
            self.firewalls.pf_rules = []
        else:
            self.firewalls.ipfw_rules = []
        return self.modules.pop(name, None) is not None

    def _places(self, family: str) -> list[str]:
        """Where a packet pays on its way through, by the rules in force."""
        places = [self.config.driver, "ether", "mbuf"]
        places += ["ip4", "route"] if family == "inet4" else ["ip6", "route"]
        walls = self.firewalls
        if walls.pf_enabled:
            stateless = any("no state" in rule for rule in walls.pf_rules)
            places += ["pf", "pf_rule" if stateless else "pf_state"]
        if "ipfw" in walls.loaded:
            stateful = any("keep-state" in rule for rule in walls.ipfw_rules)
            places += ["ipfw", *(["ipfw_state"] if stateful else [])]
        return places

    def capacity(self, family: str) -> float:
        """Packets per second that this boot forwards with the rules in force, on average."""
        if not self.up or self.image is None:
            return 0.0
        if "ipfw" in self.firewalls.loaded and not self.firewalls.ipfw_rules:
            accept = self.environment.get("net.inet.ip.fw.default_to_accept") == "1"
            if not accept:
                return 0.0
        places = self._places(family)
        images = [self.image, *self.modules.values()]
        nanoseconds = sum(image.costs.get(place, 0) for image in images for place in places)
        if nanoseconds <= 0:
            return 0.0
        level = 1e9 / (nanoseconds * self.profile.nanoseconds)
        text = "+".join(image.text for image in images)
        scenario = f"{family} {' '.join(places[5:])}"
        return level * self.luck.boot_factor(text, self.boots, scenario)
