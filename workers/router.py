"""The device under test: installs a kernel beside the known-good one and boots it once.

The good kernel stays the default of the loader; `nextboot` names the other one for a single
boot. So whatever a test kernel does, the next boot after it is a good one: by itself after a
panic, by the power switch after a hang.

That a boot was *ours* is proven, not assumed. Before the order a mark is left in the running
kernel's environment, which no reboot survives; with the order a number travels through the
loader into the environment of the kernel it starts. Clocks have no part in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model import Boot, Kernel, Reaction, Stage
from netbisect.workers.console import ConsoleTap, panic_in
from netbisect.workers.faults import CommandError, HostKeyError, LabFault, UnreachableError
from netbisect.workers.lab import Testbed
from netbisect.workers.ssh import Connections

PREFIX = "kernel.nb-"
"""Of the folders in /boot that are ours to remove."""
_MARK = "netbisect.before"
_ORDER = "netbisect.order"
_BOOTTIME = re.compile(r"sec = (\d+), usec = (\d+)")
_DISK_MARGIN = 1.2


@dataclass(frozen=True, slots=True)
class Running:
    """What a DUT says of itself."""

    bootfile: str
    """kern.bootfile, such as /boot/kernel/kernel."""
    boottime: float
    version: str
    """uname -v"""
    environment: dict[str, str]

    @property
    def directory(self) -> str:
        """Folder of the running kernel below /boot."""
        return self.bootfile.removeprefix("/boot/").rpartition("/")[0]


class Router:
    """One testbed's DUT."""

    def __init__(
        self, testbed: Testbed, connections: Connections, say: Callable[[str], None]
    ) -> None:
        self.testbed = testbed
        self.machine = connections.machine(testbed.dut.address)
        self.say = say

    # -------------------------------------------------------------------------------- looking

    def look(self) -> Running:
        """What is running; raises what `Machine.run` raises."""
        out = self.machine.run(
            ["sysctl", "-n", "kern.bootfile"],
            ["sysctl", "-n", "kern.boottime"],
            ["uname", "-v"],
            ["kenv"],
        ).splitlines()
        boottime = _BOOTTIME.search(out[1]) if len(out) > 2 else None  # noqa: PLR2004
        if boottime is None:
            raise CommandError(self.machine.address, "sysctl kern.boottime", 0, "\n".join(out))
        environment = {}
        for line in out[3:]:
            name, equals, value = line.partition("=")
            if equals:
                environment[name] = value.strip('"')
        seconds = int(boottime[1]) + int(boottime[2]) / 1e6
        return Running(out[0], seconds, out[2], environment)

    def reach(self) -> Running:
        """What is running, after switching it off and on if it does not answer.

        Raises:
            LabFault: it is not the machine we know, or does not come back.
        """
        try:
            return self.look()
        except HostKeyError as error:
            raise LabFault(Stage.DEPLOY, Reaction.QUARANTINE, str(error)) from error
        except (UnreachableError, CommandError) as error:
            self.say(f"{self.testbed.name}: no answer ({error}); power cycle")
        self.power_cycle()
        running = self._wait_for_any(Stage.DEPLOY)
        self.say(f"{self.testbed.name}: back on {running.directory}")
        return running

    # ------------------------------------------------------------------------------ deploying

    def install(self, kernel: Kernel, archive: Path) -> str:
        """Puts the kernel into a folder of its own below /boot; returns the folder's name.

        Raises:
            LabFault: no room, or what arrived is not what was sent.
        """
        folder = f"{PREFIX}{kernel.key[:12]}"
        place = f"/boot/{folder}"
        hashes, size = _contents(archive)
        try:
            if self._has(place, hashes):
                return folder
            self._make_room(folder, size)
            work = f"{place}.new"
            self.machine.run(["rm", "-rf", work, place], ["mkdir", "-p", work])
            with archive.open("rb") as stream:
                self.machine.run(["tar", "-xzpf", "-", "-C", work], stdin=stream, timeout=600)
            if not self._has(work, hashes):
                raise LabFault(
                    Stage.DEPLOY,
                    Reaction.RETRY,
                    f"{place} on {self.machine.address} is not what was sent",
                )
            self.machine.run(["kldxref", work], ["mv", work, place], ["sync"])
        except UnreachableError as error:
            raise LabFault(Stage.DEPLOY, Reaction.RETRY, str(error)) from error
        except CommandError as error:
            raise LabFault(Stage.DEPLOY, Reaction.RETRY, str(error), error.said) from error
        return folder

    def _has(self, place: str, hashes: dict[str, str]) -> bool:
        names = sorted(hashes)
        out = self.machine.try_run(["cd", place], ["sha256", "-r", *names])
        if out is None:
            return False
        found = {}
        for line in out.splitlines():
            digest, _, name = line.partition(" ")
            found[name.strip()] = digest
        return found == hashes

    def _make_room(self, keep: str, needed: int) -> None:
        """Removes our oldest kernels beyond the number that may stay; then looks for room."""
        out = self.machine.run(["ls", "-1t", "/boot"])
        ours = [name for name in out.split() if name.startswith(PREFIX)]
        running = self.look().directory
        spare = [name for name in ours if name not in (keep, running)]
        for name in spare[max(0, self.testbed.dut.kept_kernels - 1) :]:
            self.machine.run(["rm", "-rf", f"/boot/{name}"])
        free = self._free_bytes()
        for name in reversed(spare[: self.testbed.dut.kept_kernels - 1]):
            if free >= needed * _DISK_MARGIN:
                break
            self.machine.run(["rm", "-rf", f"/boot/{name}"])
            free = self._free_bytes()
        if free < needed * _DISK_MARGIN:
            raise LabFault(
                Stage.DEPLOY,
                Reaction.QUARANTINE,
                f"/boot on {self.machine.address} has {free >> 20} MiB free; "
                f"{int(needed * _DISK_MARGIN) >> 20} are needed, and there is nothing of ours "
                "left to remove",
            )

    def _free_bytes(self) -> int:
        lines = self.machine.run(["df", "-k", "/boot"]).splitlines()
        return int(lines[-1].split()[3]) * 1024

    # -------------------------------------------------------------------------------- booting

    def boot(self, kernel: Kernel, archive: Path, console_log: Path) -> Boot:
        """Installs and boots `kernel` once, and proves that it is what runs.

        Raises:
            LabFault: it is not; the machine then runs its good kernel, or is beyond help
                (Reaction.QUARANTINE).
        """
        self.reach()
        folder = self.install(kernel, archive)
        order = uuid.uuid4().hex
        with ConsoleTap(self.testbed.console, console_log):
            started = time.monotonic()
            self._order(folder, order)
            running = self._wait_for_reboot(order, console_log)
            seconds = time.monotonic() - started
            self._prove(running, folder, order, kernel, console_log)
        return Boot(
            id=order,
            testbed=self.testbed.name,
            kernel=kernel.key,
            revision=kernel.revision,
            at=running.boottime,
            seconds=seconds,
        )

    def _order(self, folder: str, order: str) -> None:
        try:
            self.machine.run(
                ["kenv", f"{_MARK}={order}"],
                ["nextboot", "-e", f"{_ORDER}={order}", "-k", folder],
                ["sync"],
            )
        except (UnreachableError, CommandError) as error:
            raise LabFault(Stage.BOOT, Reaction.RETRY, str(error)) from error
        self._reboot()

    def _reboot(self) -> None:
        # The connection may go down before the answer comes; the mark will tell.
        with contextlib.suppress(UnreachableError, CommandError):
            self.machine.run(["shutdown", "-r", "now"])
        self.machine.forget_connection()

    def _wait_for_reboot(self, order: str, console_log: Path) -> Running:
        """What runs after the ordered reboot; after a power cycle if it does not come back."""
        deadline = time.monotonic() + self.testbed.timing.boot_timeout
        while time.monotonic() < deadline:
            time.sleep(self.testbed.timing.poll)
            try:
                running = self.look()
            except HostKeyError as error:
                raise LabFault(Stage.BOOT, Reaction.QUARANTINE, str(error)) from error
            except (UnreachableError, CommandError):
                self.machine.forget_connection()
                continue
            if running.environment.get(_MARK) != order:
                return running
        self.say(
            f"{self.testbed.name}: no answer {self.testbed.timing.boot_timeout:g} s after the "
            "order to reboot; power cycle"
        )
        self.power_cycle()
        self._wait_for_any(Stage.BOOT)
        said = console_log.read_text(errors="replace") if console_log.exists() else ""
        raise LabFault(
            Stage.BOOT,
            Reaction.SKIP,
            panic_in(said) or "the kernel hangs: no answer until the power was cycled",
            said[-8000:],
        )

    def _prove(
        self, running: Running, folder: str, order: str, kernel: Kernel, console_log: Path
    ) -> None:
        said = console_log.read_text(errors="replace") if console_log.exists() else ""
        if running.environment.get(_ORDER) != order:
            panic = panic_in(said)
            raise LabFault(
                Stage.BOOT,
                Reaction.SKIP if panic else Reaction.RETRY,
                panic or f"the machine came back on {running.directory}, not on {folder}",
                said[-8000:],
            )
        wanted = f"/boot/{folder}/kernel"
        if running.bootfile != wanted:
            raise LabFault(
                Stage.BOOT,
                Reaction.RETRY,
                f"the running kernel is {running.bootfile}, ordered was {wanted}",
            )
        if kernel.version not in running.version:
            raise LabFault(
                Stage.BOOT,
                Reaction.RETRY,
                f"the running kernel says {running.version!r}, which is not {kernel.version}: "
                "a stale or foreign kernel",
            )

    # ----------------------------------------------------------------------------- recovering

    def recover(self) -> Running:
        """Back on the known-good kernel, test kernels' leftovers forgotten.

        Raises:
            LabFault: it cannot be brought there.
        """
        running = self.reach()
        good = self.testbed.dut.known_good
        self.machine.try_run(["nextboot", "-D"])
        if running.directory == good:
            return running
        order = uuid.uuid4().hex
        try:
            self.machine.run(["kenv", f"{_MARK}={order}"])
        except (UnreachableError, CommandError) as error:
            raise LabFault(Stage.BOOT, Reaction.QUARANTINE, str(error)) from error
        self._reboot()
        running = self._wait_for_reboot(order, Path("/nonexistent"))
        if running.directory != good:
            raise LabFault(
                Stage.BOOT,
                Reaction.QUARANTINE,
                f"{self.machine.address} comes up on {running.directory}, "
                f"not on its known-good kernel {good}",
            )
        return running

    def power_cycle(self) -> None:
        """Switches the DUT off and on.

        Raises:
            LabFault: there is no switch, or it does not work.
        """
        power = self.testbed.power
        if power is None:
            raise LabFault(
                Stage.BOOT,
                Reaction.QUARANTINE,
                f"{self.machine.address} does not answer, and the lab file names no power switch",
            )
        self.machine.forget_connection()
        try:
            subprocess.run(
                power.cycle,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=power.timeout,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LabFault(
                Stage.BOOT,
                Reaction.QUARANTINE,
                f"the power switch of {self.testbed.name} failed: {error}",
            ) from error

    def _wait_for_any(self, stage: Stage) -> Running:
        deadline = time.monotonic() + self.testbed.timing.boot_timeout
        while time.monotonic() < deadline:
            time.sleep(self.testbed.timing.poll)
            try:
                return self.look()
            except HostKeyError as error:
                raise LabFault(stage, Reaction.QUARANTINE, str(error)) from error
            except (UnreachableError, CommandError):
                self.machine.forget_connection()
        raise LabFault(
            stage,
            Reaction.QUARANTINE,
            f"{self.machine.address} does not come back after a power cycle",
        )


def _contents(archive: Path) -> tuple[dict[str, str], int]:
    """SHA-256 by file name, and the bytes they take unpacked."""
    hashes: dict[str, str] = {}
    size = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
            hashes[member.name] = digest.hexdigest()
            size += member.size
    return hashes, size
