"""The device under test: boots a kernel once, and comes back to the known-good one.

The good kernel stays what the machine boots by default; the other one is named for a single boot
(deploy.py and its siblings). So whatever a test kernel does, the next boot after it is a good
one: by itself after a panic, by the power switch after a hang.

That a boot was *ours* is proven, not assumed. Before the order a mark is left in the running
kernel's environment, which no reboot survives; with the order a number travels through the
loader into the environment of the kernel it starts. A second mark tells until the end of the
visit that it is still that boot. Clocks have no part in it: one that disagrees is only told.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Boot, Kernel, Stage
from netbisect.workers import power
from netbisect.workers.console import ConsoleTap
from netbisect.workers.deploy import Deployment
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
)
from netbisect.workers.kernel_folder import Contents, mismatch
from netbisect.workers.lab import Testbed
from netbisect.workers.last_words import boot_fault, last_words, standing
from netbisect.workers.panic import find_panic
from netbisect.workers.running import Running, look
from netbisect.workers.ssh import Connections
from netbisect.workers.vm_host import switch_on
from netbisect.workers.ways import deployment_of

_MARK = "netbisect.before"
_ORDER = "netbisect.order"
_PROVEN = "netbisect.proven"
_PANIC_SETTINGS = {
    "debug.debugger_on_panic": "0",
    "debug.trace_on_panic": "1",
    "kern.panic_reboot_wait_time": "5",
}
"""A panic tells its stack and reboots; it does not wait for somebody at the console."""
_STARTS = re.compile(r"---<<BOOT>>---|Copyright \(c\) 1992-|KDB: debugger backends")
"""What a kernel says first."""
_ERRORS = (UnreachableError, HostKeyError, CommandError)


class Router:
    """One testbed's DUT."""

    def __init__(
        self, testbed: Testbed, connections: Connections, say: Callable[[str], None]
    ) -> None:
        self.testbed = testbed
        self.machine = connections.machine(testbed.dut.address)
        self.say = say
        self._connections = connections
        self.boottime = 0.0
        """When the kernel that was booted last started, by the machine's own clock."""
        self._tap = ConsoleTap(None, None)
        self._lingers = False
        self._to_release = False

    @property
    def deployment(self) -> Deployment:
        """How it is given a kernel."""
        return deployment_of(self.testbed, self._connections)

    @contextlib.contextmanager
    def listening(self, log: Path) -> Iterator[None]:
        """Keeps the console in `log` for as long as the block lasts: from order to verdict."""
        with ConsoleTap(self.testbed.console, log) as tap:
            self._tap = tap
            try:
                yield
            finally:
                self._tap = ConsoleTap(None, None)
                if tap.failures:
                    self.say(
                        f"{self.testbed.name}: the console's command ended {tap.failures} times; "
                        f"{log} has gaps"
                    )

    # -------------------------------------------------------------------------------- looking

    def look(self) -> Running:
        """What is running; raises what `Machine.run` raises."""
        return look(self.machine)

    def reach(self) -> Running:
        """What is running, after switching it off and on if it does not answer.

        It may be on its way up, so it is given the time of a boot before that.

        Raises:
            LabFault: it is not the machine we know, or does not come back.
        """
        if switch_on(self.testbed):
            self.say(f"{self.testbed.name}: its virtual machine was off; it is switched on")
        running = self._wait(Stage.DEPLOY)
        if running is not None:
            return running
        self._say_silent("")
        running = self.power_cycle(Stage.DEPLOY)
        self.say(f"{self.testbed.name}: back on {running.directory}")
        return running

    def _say_silent(self, since: str) -> None:
        limit = self.testbed.timing.boot_timeout
        self.say(f"{self.testbed.name}: no answer for {limit:g} s{since}; power cycle")

    def _wait(self, stage: Stage, mark: str = "") -> Running | None:
        """What runs once the machine answers without that mark; None when that takes too long.

        Raises:
            LabFault: it is not the machine we know.
        """
        deadline = time.monotonic() + self.testbed.timing.boot_timeout
        self._lingers = False
        while True:
            self._release_when_it_starts(stage)
            try:
                running = self.look()
            except HostKeyError as error:
                raise lab_fault(stage, error) from error
            except (UnreachableError, CommandError):
                self._lingers = False
                self.machine.forget_connection()
            else:
                if not mark or running.environment.get(_MARK) != mark:
                    return running
                self._lingers = True
            if time.monotonic() >= deadline:
                return None
            time.sleep(self.testbed.timing.poll)

    def still_up(self, boot: Boot) -> Running:
        """What runs, which is the boot that was measured.

        Raises:
            LabFault: it went down under the load; the machine is back on its good kernel. Or it
                is not the machine we know.
        """
        hangs, said = False, ""
        try:
            running = self.look()
        except HostKeyError as error:
            raise lab_fault(Stage.BENCH, error) from error
        except (UnreachableError, CommandError):
            answer = self._wait(Stage.BOOT)
            hangs = answer is None
            said = self._tap.said()
            running = answer or self.power_cycle(Stage.BOOT)
        if running.environment.get(_PROVEN) == boot.id:
            return running
        said = said or self._tap.said()
        panic = find_panic(said)
        if panic is not None:
            fault, why = Fault.PANIC_UNDER_LOAD, f"{panic.message}, under the load of this scenario"
        elif hangs:
            fault = Fault.HANG_UNDER_LOAD
            why = f"the router hung under the load of this scenario{standing(said)}"
        elif self.testbed.console is None:
            fault = Fault.PANIC_UNDER_LOAD
            why = "the router went down under the load of this scenario"
        else:
            fault = Fault.POWER_LOSS
            why = "the router restarted in the middle of a run, without a panic on its console"
            if self.testbed.dut.watchdog:
                why = f"{why}: it lost its power, or its watchdog has ended a hang"
        raise LabFault.of(fault, why, last_words(panic, said))

    # -------------------------------------------------------------------------------- booting

    def boot(self, kernel: Kernel, archive: Path, running: Running | None = None) -> Boot:
        """Installs and boots `kernel` once, and proves that it is what runs.

        Args:
            kernel: To boot.
            archive: With its files.
            running: What runs, if somebody has just looked.

        Raises:
            LabFault: it is not; the machine then runs its good kernel, or is beyond help
                (Reaction.QUARANTINE).
        """
        order = uuid.uuid4().hex
        running = running or self.reach()
        try:
            folder, contents = self.deployment.install(running, kernel, archive)
        except _ERRORS as error:
            raise lab_fault(Stage.DEPLOY, error) from error
        self._tap.mark()
        self._tap.note(f"{kernel.version} is ordered as {folder}, order {order}")
        started, at = time.monotonic(), time.time()
        its_clock = self._order(folder, order)
        running = self._wait_for_reboot(order)
        seconds = time.monotonic() - started
        self._prove(running, folder, order, kernel, contents)
        self._guard(order)
        self._tap.mark()  # what comes from here on is of this boot
        self.boottime = running.boottime
        if running.boottime < its_clock:
            self.say(
                f"{self.testbed.name}: by its clock it started {its_clock - running.boottime:.0f} "
                "s before the order; the order's number says otherwise, so that clock was set"
            )
        return Boot(
            id=order,
            testbed=self.testbed.name,
            kernel=kernel.key,
            revision=kernel.revision,
            at=at,
            seconds=seconds,
        )

    def _order(self, folder: str, order: str) -> float:
        """Orders the kernel and the reboot; what the machine's clock says then."""
        self._to_release = not self.deployment.by_itself
        try:
            said = self.machine.run(["kenv", f"{_MARK}={order}"], ["date", "+%s"])
            self.deployment.arm(folder, {_ORDER: order, **_PANIC_SETTINGS})
        except _ERRORS as error:
            raise lab_fault(Stage.BOOT, error) from error
        self._reboot()
        clock = said.splitlines()[-1].strip()
        return float(clock) if clock.isdecimal() else 0.0

    def _reboot(self) -> None:
        # The connection may go down before the answer comes; the mark will tell.
        with contextlib.suppress(UnreachableError, CommandError):
            self.machine.run(["shutdown", "-r", "now"])
        self.machine.forget_connection()

    def _release_when_it_starts(self, stage: Stage) -> None:
        if self._to_release and _STARTS.search(self._tap.said()):
            self._release(stage)

    def _release(self, stage: Stage) -> None:
        """Makes sure from outside that the next boot is a good one.

        Raises:
            LabFault: nobody knows what it would be.
        """
        if not self._to_release:
            return
        try:
            self.deployment.release()
        except _ERRORS as error:
            raise lab_fault(stage, error, Fault.NO_GOOD_KERNEL) from error
        self._to_release = False

    def _wait_for_reboot(self, order: str) -> Running:
        """What runs after the ordered reboot.

        Raises:
            LabFault: it did not come back before its power was cycled.
        """
        running = self._wait(Stage.BOOT, mark=order)
        if running is not None:
            self._release(Stage.BOOT)
            return running
        if self._lingers:
            # The kernel before did not go down, so nothing is known of the one that was ordered.
            self.say(f"{self.testbed.name}: it does not go down; power cycle")
            return self.power_cycle(Stage.BOOT)
        self._say_silent(" after the order to reboot")
        said = self._tap.said()  # before the next boot adds to it
        self.power_cycle(Stage.BOOT)
        why = f"the kernel hangs: no answer until the power was cycled{standing(said)}"
        raise boot_fault(Fault.DOES_NOT_BOOT, why, said)

    def _prove(
        self, running: Running, folder: str, order: str, kernel: Kernel, contents: Contents
    ) -> None:
        if running.environment.get(_ORDER) != order:
            why = f"the machine came back on {running.directory}, not on {folder}"
            raise boot_fault(Fault.WRONG_KERNEL, why, self._tap.said())
        why = self.deployment.misplaced(running, folder) or mismatch(running, kernel, contents)
        if why:
            raise LabFault.of(Fault.WRONG_KERNEL, why)

    def _guard(self, order: str) -> None:
        """Marks this boot, and sees to it that it ends by itself should it hang.

        Raises:
            LabFault: it does not answer any more.
        """
        seconds = self.testbed.dut.watchdog
        try:
            mark = ["kenv", f"{_PROVEN}={order}"]
            # A dump of a test kernel takes minutes and, in /var/crash, gigabytes.
            guards = [["dumpon", "off"]]
            if seconds:
                guards += [["ls", "/dev/fido"], ["watchdogd", "-t", str(seconds)]]
            said, _, *device = self.machine.ask(mark, *guards)
            if order not in said:
                raise CommandError(self.machine.address, shlex.join(mark), 1, said)
        except _ERRORS as error:
            raise lab_fault(Stage.BOOT, error) from error
        if seconds and not device[0].strip():
            self.say(f"{self.testbed.name}: no /dev/fido, so no watchdog guards this boot")

    # ----------------------------------------------------------------------------- recovering

    def recover(self) -> Running:
        """Back on the known-good kernel, test kernels' leftovers forgotten.

        Raises:
            LabFault: it cannot be brought there.
        """
        self._to_release = not self.deployment.by_itself
        self._release(Stage.BOOT)
        running = self.reach()
        order = uuid.uuid4().hex
        try:
            self.deployment.disarm()
            if self.deployment.is_home(running):
                return running
            self.machine.run(["kenv", f"{_MARK}={order}"])
        except _ERRORS as error:
            raise lab_fault(Stage.BOOT, error, Fault.NO_GOOD_KERNEL) from error
        self._reboot()
        back = self._wait(Stage.BOOT, mark=order)
        if back is None:
            self._say_silent(" after the order to reboot")
            back = self.power_cycle(Stage.BOOT)
        if not self.deployment.is_home(back):
            where = f" ({back.root})" if self.testbed.dut.nanobsd else ""
            raise LabFault.of(
                Fault.NO_GOOD_KERNEL,
                f"{self.machine.address} comes up on {back.directory}{where}, "
                f"not on its known-good kernel {self.testbed.dut.known_good}",
            )
        return back

    def power_cycle(self, stage: Stage) -> Running:
        """Switches the DUT off and on; what runs then.

        Raises:
            LabFault: there is no switch, or it does not work, or does not help.
        """
        self._release(stage)
        if self.testbed.power is None:
            why = f"{self.machine.address} does not answer, and the lab file names no power switch"
            raise LabFault.of(Fault.POWER_SWITCH, why, stage=stage)
        self.machine.forget_connection()
        self._tap.note("power cycle")
        why = power.cycle(self.testbed.power)
        if why:
            raise LabFault.of(
                Fault.POWER_SWITCH,
                f"the power switch of {self.testbed.name} failed: {why}",
                stage=stage,
            )
        running = self._wait(stage)
        if running is None:
            raise LabFault.of(
                Fault.UNREACHABLE,
                f"{self.machine.address} does not come back after a power cycle",
                stage=stage,
            )
        return running
