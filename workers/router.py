"""The device under test: boots a kernel once, and comes back to the known-good one.

The good kernel stays the default of the loader; `nextboot` names the other one for a single
boot. So whatever a test kernel does, the next boot after it is a good one: by itself after a
panic, by the power switch after a hang.

That a boot was *ours* is proven, not assumed. Before the order a mark is left in the running
kernel's environment, which no reboot survives; with the order a number travels through the
loader into the environment of the kernel it starts. Clocks have no part in it.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Boot, Kernel, Stage
from netbisect.workers.console import ConsoleTap, panic_in
from netbisect.workers.deploy import install
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
)
from netbisect.workers.lab import Testbed
from netbisect.workers.ssh import Connections

_MARK = "netbisect.before"
_ORDER = "netbisect.order"
_BOOTTIME = re.compile(r"sec = (\d+), usec = (\d+)")
_LOG_CHARACTERS = 8000
"""Of a console that go into a Dud, from its end."""


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

        It may be on its way up, so it is given the time of a boot before that.

        Raises:
            LabFault: it is not the machine we know, or does not come back.
        """
        running = self.answer(Stage.DEPLOY)
        if running is not None:
            return running
        self._say_silent("")
        running = self.power_cycle(Stage.DEPLOY)
        self.say(f"{self.testbed.name}: back on {running.directory}")
        return running

    def answer(self, stage: Stage) -> Running | None:
        """What is running; None when it does not answer within the time of a boot.

        Raises:
            LabFault: it is not the machine we know.
        """
        return self._wait(stage)

    def _say_silent(self, since: str) -> None:
        limit = self.testbed.timing.boot_timeout
        self.say(f"{self.testbed.name}: no answer for {limit:g} s{since}; power cycle")

    def _wait(self, stage: Stage, mark: str = "") -> Running | None:
        """What runs once the machine answers without that mark; None when that takes too long.

        Raises:
            LabFault: it is not the machine we know.
        """
        deadline = time.monotonic() + self.testbed.timing.boot_timeout
        while True:
            try:
                running = self.look()
            except HostKeyError as error:
                raise lab_fault(stage, error) from error
            except (UnreachableError, CommandError):
                self.machine.forget_connection()
            else:
                if not mark or running.environment.get(_MARK) != mark:
                    return running
            if time.monotonic() >= deadline:
                return None
            time.sleep(self.testbed.timing.poll)

    # -------------------------------------------------------------------------------- booting

    def boot(self, kernel: Kernel, archive: Path, console_log: Path) -> Boot:
        """Installs and boots `kernel` once, and proves that it is what runs.

        Raises:
            LabFault: it is not; the machine then runs its good kernel, or is beyond help
                (Reaction.QUARANTINE).
        """
        order = uuid.uuid4().hex
        # The console is opened first: it is connected when there is something to hear.
        with ConsoleTap(self.testbed.console, console_log):
            self.reach()
            folder = install(self.machine, self.testbed, kernel, archive)
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
        except (UnreachableError, HostKeyError, CommandError) as error:
            raise lab_fault(Stage.BOOT, error) from error
        self._reboot()

    def _reboot(self) -> None:
        # The connection may go down before the answer comes; the mark will tell.
        with contextlib.suppress(UnreachableError, CommandError):
            self.machine.run(["shutdown", "-r", "now"])
        self.machine.forget_connection()

    def _wait_for_reboot(self, order: str, console_log: Path) -> Running:
        """What runs after the ordered reboot.

        Raises:
            LabFault: it did not come back before its power was cycled.
        """
        running = self._wait(Stage.BOOT, mark=order)
        if running is not None:
            return running
        self._say_silent(" after the order to reboot")
        self.power_cycle(Stage.BOOT)
        said = console_log.read_text(errors="replace")
        panic = panic_in(said)
        raise LabFault.of(
            Fault.PANIC_AT_BOOT if panic else Fault.DOES_NOT_BOOT,
            panic or "the kernel hangs: no answer until the power was cycled",
            said[-_LOG_CHARACTERS:],
        )

    def _prove(
        self, running: Running, folder: str, order: str, kernel: Kernel, console_log: Path
    ) -> None:
        said = console_log.read_text(errors="replace")
        if running.environment.get(_ORDER) != order:
            panic = panic_in(said)
            raise LabFault.of(
                Fault.PANIC_AT_BOOT if panic else Fault.WRONG_KERNEL,
                panic or f"the machine came back on {running.directory}, not on {folder}",
                said[-_LOG_CHARACTERS:],
            )
        wanted = f"/boot/{folder}/kernel"
        if running.bootfile != wanted:
            raise LabFault.of(
                Fault.WRONG_KERNEL,
                f"the running kernel is {running.bootfile}, ordered was {wanted}",
            )
        if kernel.version not in running.version:
            raise LabFault.of(
                Fault.WRONG_KERNEL,
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
        order = uuid.uuid4().hex
        try:
            self.machine.try_run(["nextboot", "-D"])
            if running.directory == good:
                return running
            self.machine.run(["kenv", f"{_MARK}={order}"])
        except (UnreachableError, HostKeyError, CommandError) as error:
            raise lab_fault(Stage.BOOT, error, Fault.NO_GOOD_KERNEL) from error
        self._reboot()
        back = self._wait(Stage.BOOT, mark=order)
        if back is None:
            self._say_silent(" after the order to reboot")
            back = self.power_cycle(Stage.BOOT)
        if back.directory != good:
            raise LabFault.of(
                Fault.NO_GOOD_KERNEL,
                f"{self.machine.address} comes up on {back.directory}, "
                f"not on its known-good kernel {good}",
            )
        return back

    def power_cycle(self, stage: Stage) -> Running:
        """Switches the DUT off and on; what runs then.

        Raises:
            LabFault: there is no switch, or it does not work, or does not help.
        """
        power = self.testbed.power
        why = ""
        if power is None:
            why = f"{self.machine.address} does not answer, and the lab file names no power switch"
        else:
            self.machine.forget_connection()
            try:
                subprocess.run(
                    power.cycle,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=power.timeout,
                    check=True,
                )
            except subprocess.CalledProcessError as error:
                why = f"exit status {error.returncode}: {error.stderr.strip()}"
            except (OSError, subprocess.TimeoutExpired) as error:
                why = str(error)
            why = why and f"the power switch of {self.testbed.name} failed: {why}"
        if why:
            raise LabFault.of(Fault.POWER_SWITCH, why, stage=stage)
        running = self._wait(stage)
        if running is None:
            raise LabFault.of(
                Fault.UNREACHABLE,
                f"{self.machine.address} does not come back after a power cycle",
                stage=stage,
            )
        return running


def _read(console_log: Path) -> str:
    return console_log.read_text(errors="replace") if console_log.exists() else ""
