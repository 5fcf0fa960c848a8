"""The device under test: boots a test kernel once, then returns to the known-good kernel.

The known-good kernel is the default; a boot method selects the test kernel for a single boot.
After a panic the machine comes back by itself, after a hang by a power cycle.

Each boot is verified. A mark in the environment of the running kernel disappears with the reboot.
The number of the order passes through loader(8) into the environment of the new kernel. A third
mark identifies this boot until the trial ends. Clocks are not used; a clock that was set is only
reported.
"""

from __future__ import annotations

import contextlib
import pkgutil
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from netbisect.bisect.model.entities import Boot, Kernel, Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.dut import BOOT_METHODS
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.toml import Scalar
from netbisect.workers.config.tunables import PANIC_TUNABLES
from netbisect.workers.dut.base import BootMethod
from netbisect.workers.dut.kernel_folder import KernelContents, mismatch
from netbisect.workers.dut.running_kernel import RunningKernel, read_running_kernel
from netbisect.workers.transport import power
from netbisect.workers.transport.console import ConsoleTap
from netbisect.workers.transport.errors import (
    CommandError,
    HostKeyError,
    LabFault,
    MachineError,
    lab_fault,
)
from netbisect.workers.transport.panic import (
    boot_fault,
    console_excerpt,
    find_panic,
    prompt_suffix,
    silence_suffix,
)
from netbisect.workers.transport.ssh import Connections
from netbisect.workers.vm.host import switch_on

_MARK = "netbisect.before"
_PROVEN = "netbisect.proven"
ORDER = "netbisect.order"
"""Variable of kenv(1): number of the trial that booted this kernel."""
_STARTS = re.compile(r"---<<BOOT>>---|Copyright \(c\) 1992-|KDB: debugger backends")
"""First output of a kernel."""


class DeviceUnderTest:
    """The DUT of one testbed."""

    def __init__(
        self, testbed: Testbed, connections: Connections, say: Callable[[str], None]
    ) -> None:
        self.testbed = testbed
        self.machine = connections.machine(testbed.dut.address)
        self.say = say
        self._connections = connections
        self.boottime = 0.0
        """Start of the current kernel, by the machine's clock."""
        self._tap = ConsoleTap(None, None)
        self._silence = ""
        """Why the machine did not answer last; "" if it did."""
        self._to_release = False

    @property
    def boot_method(self) -> BootMethod:
        """The testbed's boot method."""
        dut = self.testbed.dut
        method: BootMethod = pkgutil.resolve_name(BOOT_METHODS[dut.deploy])(dut, self._connections)
        return method

    @contextlib.contextmanager
    def recording_console(self, log: Path) -> Iterator[None]:
        """Records the console in `log` inside the block."""
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

    def look(self) -> RunningKernel:
        """The running kernel; raises what `Machine.run` raises."""
        return read_running_kernel(self.machine)

    def reach(self) -> RunningKernel:
        """Waits for the machine, with a power cycle after one boot timeout.

        Raises:
            LabFault: unknown host key, or no answer after the power cycle.
        """
        if switch_on(self.testbed):
            self.say(f"{self.testbed.name}: its virtual machine was off; it is switched on")
        running = self._wait(Stage.DEPLOY)
        if running is not None:
            return running
        running = self._report_and_cycle(Stage.DEPLOY)
        self.say(f"{self.testbed.name}: back on {running.directory}")
        return running

    def _wait(self, stage: Stage, mark: str = "") -> RunningKernel | None:
        """Waits for an answer of a kernel without `mark`; None after the boot timeout.

        Raises:
            LabFault: unknown host key.
        """
        deadline = time.monotonic() + self.testbed.timing.boot_timeout
        while True:
            self._release_when_it_starts(stage)
            try:
                running = self.look()
            except HostKeyError as error:
                raise lab_fault(stage, error) from error
            except MachineError as error:
                self._silence = str(error)
                self.machine.forget_connection()
            else:
                if not mark or running.environment.get(_MARK) != mark:
                    return running
                self._silence = ""
            if time.monotonic() >= deadline:
                return None
            time.sleep(self.testbed.timing.poll)

    def check_still_up(self, boot: Boot) -> RunningKernel:
        """Checks that this boot still runs after a run.

        Raises:
            LabFault: it panicked, hung or restarted; the known-good kernel runs now.
                Or unknown host key.
        """
        hangs, output = False, ""
        try:
            running = self.look()
        except HostKeyError as error:
            raise lab_fault(Stage.BENCH, error) from error
        except MachineError:
            answer = self._wait(Stage.BOOT)
            hangs = answer is None
            output = self._tap.output()
            running = answer or self.power_cycle(Stage.BOOT)
        if running.environment.get(_PROVEN) == boot.id:
            return running
        output = output or self._tap.output()
        panic = find_panic(output)
        if panic is not None:
            fault, why = Fault.PANIC_UNDER_LOAD, f"{panic.message}, under the load of this scenario"
        elif hangs:
            fault = Fault.HANG_UNDER_LOAD
            why = f"the router hung under the load of this scenario{prompt_suffix(output)}"
        elif self.testbed.console is None:
            fault = Fault.PANIC_UNDER_LOAD
            why = "the router went down under the load of this scenario"
        else:
            fault = Fault.POWER_LOSS
            why = "the router restarted in the middle of a run, without a panic on its console"
            why += silence_suffix(output)
            if self.testbed.dut.watchdog:
                why = f"{why}: it lost its power, or its watchdog has ended a hang"
        raise LabFault(fault, why, console_excerpt(panic, output))

    # -------------------------------------------------------------------------------- booting

    def boot(
        self,
        kernel: Kernel,
        archive: Path,
        running: RunningKernel | None = None,
        tunables: Mapping[str, Scalar] | None = None,
    ) -> Boot:
        """Deploys and boots `kernel` once, and verifies the running kernel.

        `running` is the running kernel, if already known; `tunables` are for loader(8), in addition
        to those of the testbed.

        Raises:
            LabFault: the boot failed; the known-good kernel runs now, unless the reaction is
            quarantine.
        """
        order = uuid.uuid4().hex
        running = running or self.reach()
        try:
            folder, contents = self.boot_method.deploy(running, kernel, archive)
        except MachineError as error:
            raise lab_fault(Stage.DEPLOY, error) from error
        self._tap.mark()
        self._tap.note(f"{kernel.version} is ordered as {folder}, order {order}")
        started, at = time.monotonic(), time.time()
        wanted = {**self.testbed.tunables, **(tunables or {})}
        settings = {name: str(value) for name, value in wanted.items()}
        its_clock = self._order(folder, order, settings)
        running = self._wait_for_reboot(order)
        seconds = time.monotonic() - started
        self._prove(running, folder, order, kernel, contents)
        _check_passed_on(running, settings)
        self._guard(order)
        self._tap.mark()  # what comes from here on is of this boot
        self.boottime = running.boottime
        if running.boottime < its_clock:
            self.say(
                f"{self.testbed.name}: by its clock it started {its_clock - running.boottime:.0f} "
                "s before the order; the order's number says otherwise, so that clock was set"
            )
        return Boot(order, self.testbed.name, kernel.key, kernel.revision, at, seconds)

    def _order(self, folder: str, order: str, tunables: Mapping[str, str]) -> float:
        """Orders the kernel; returns the machine's clock at that time."""
        self._to_release = not self.boot_method.one_shot
        try:
            output = self.machine.run(["kenv", f"{_MARK}={order}"], ["date", "+%s"])
            self.boot_method.boot_once(folder, {ORDER: order, **tunables, **PANIC_TUNABLES})
        except MachineError as error:
            raise lab_fault(Stage.BOOT, error) from error
        self._reboot()
        clock = output.splitlines()[-1].strip()
        return float(clock) if clock.isdecimal() else 0.0

    def _reboot(self) -> None:
        # The connection may go down before the answer comes; the mark will tell.
        with contextlib.suppress(MachineError):
            self.machine.run(["shutdown", "-r", "now"])
        self.machine.forget_connection()

    def _release_when_it_starts(self, stage: Stage) -> None:
        if self._to_release and _STARTS.search(self._tap.output()):
            self._release(stage)

    def _release(self, stage: Stage) -> None:
        """Makes the next boot a known-good one.

        Raises:
            LabFault: unknown state of the next boot.
        """
        if not self._to_release:
            return
        try:
            self.boot_method.fall_back()
        except MachineError as error:
            raise lab_fault(stage, error, Fault.NO_GOOD_KERNEL) from error
        self._to_release = False

    def _wait_for_reboot(self, order: str) -> RunningKernel:
        """The kernel after the reboot.

        Raises:
            LabFault: the machine needed a power cycle.
        """
        running = self._wait(Stage.BOOT, mark=order)
        if running is not None:
            self._release(Stage.BOOT)
            return running
        if not self._silence:
            # The kernel before did not go down, so nothing is known of the one that was ordered.
            return self._report_and_cycle(Stage.BOOT, mark=order)
        output = self._tap.output()  # before the next boot adds to it
        running = self._report_and_cycle(Stage.BOOT, " after the order to reboot")
        if running.environment.get(ORDER) == order:
            return running  # no kernel had used the order up: the one before hung on its way down
        why = "the kernel hangs: no answer until the power was cycled"
        why += prompt_suffix(output) + silence_suffix(output)
        raise boot_fault(Fault.DOES_NOT_BOOT, why, output)

    def _prove(
        self,
        running: RunningKernel,
        folder: str,
        order: str,
        kernel: Kernel,
        contents: KernelContents,
    ) -> None:
        if running.environment.get(ORDER) != order:
            output = self._tap.output()
            why = f"the machine came back on {running.directory}, not on {folder}"
            raise boot_fault(Fault.WRONG_KERNEL, f"{why}{silence_suffix(output)}", output)
        why = self.boot_method.prove(running, folder) or mismatch(running, kernel, contents)
        if why:
            raise LabFault(Fault.WRONG_KERNEL, why)

    def _guard(self, order: str) -> None:
        """Marks this boot and starts the watchdog.

        Raises:
            LabFault: no answer.
        """
        try:
            # A dump of a test kernel takes minutes and, in /var/crash, gigabytes.
            self.machine.try_run(["dumpon", "off"])
            self.machine.run(["kenv", f"{_PROVEN}={order}"])
            if seconds := self.testbed.dut.watchdog:
                self._start_watchdog(seconds)
        except MachineError as error:
            raise lab_fault(Stage.BOOT, error) from error

    def _start_watchdog(self, seconds: int) -> None:
        # /dev/fido also exists without a watchdog: sys/dev/watchdog/watchdog.c.
        try:
            self.machine.run(["watchdogd", "-t", str(seconds)])
        except CommandError as error:
            self.say(f"{self.testbed.name}: no watchdog guards this boot: {error}")

    # ----------------------------------------------------------------------------- recovering

    def recover(self) -> RunningKernel:
        """Returns to the known-good kernel and cancels pending orders.

        Raises:
            LabFault: not possible.
        """
        self._to_release = not self.boot_method.one_shot
        self._release(Stage.BOOT)
        running = self.reach()
        order = uuid.uuid4().hex
        try:
            self.boot_method.clean_up()
            if self.boot_method.runs_known_good(running):
                return running
            self.machine.run(["kenv", f"{_MARK}={order}"])
        except MachineError as error:
            raise lab_fault(Stage.BOOT, error, Fault.NO_GOOD_KERNEL) from error
        self._reboot()
        back = self._wait(Stage.BOOT, mark=order)
        if back is None:
            back = self._report_and_cycle(Stage.BOOT, " after the order to reboot", mark=order)
        if not self.boot_method.runs_known_good(back):
            where = f" ({back.root})" if self.testbed.dut.nanobsd else ""
            why = (
                f"{self.machine.address} comes up on {back.directory}{where}, "
                f"not on its known-good kernel {self.testbed.dut.known_good}"
            )
            raise LabFault(Fault.NO_GOOD_KERNEL, why)
        return back

    def _report_and_cycle(self, stage: Stage, since: str = "", mark: str = "") -> RunningKernel:
        limit = self.testbed.timing.boot_timeout
        silent = self._silence and f"no answer for {limit:g} s{since}: {self._silence}"
        self.say(f"{self.testbed.name}: {silent or 'it does not go down'}; power cycle")
        return self.power_cycle(stage, mark)

    def power_cycle(self, stage: Stage, mark: str = "") -> RunningKernel:
        """Cycles the power; returns the kernel that runs then, which is one without `mark`.

        A management controller may answer before it switches, or report an error although it has
        switched.

        Raises:
            LabFault: no switch, or no answer afterwards.
        """
        self._release(stage)
        if self.testbed.power is None:
            why = f"{self.machine.address} does not answer, and the lab file names no power switch"
            raise LabFault(Fault.POWER_SWITCH, why, stage=stage)
        self.machine.forget_connection()
        self._tap.note("power cycle")
        failure = power.cycle(self.testbed.power)
        if failure:
            failure = f"the power switch of {self.testbed.name} failed: {failure}"
        running = self._wait(stage, mark)
        if running is None:
            address = self.machine.address
            silence = self._silence or "it has not restarted"
            why = f"{address} does not come back after a power cycle: {silence}"
            output = self._tap.output()
            fault = Fault.POWER_SWITCH if failure else Fault.UNREACHABLE
            log = console_excerpt(find_panic(output), output)
            raise LabFault(fault, failure or why, log, stage=stage)
        if failure:
            self.say(f"{failure}; the machine is back nevertheless")
        return running


def _check_passed_on(running: RunningKernel, tunables: Mapping[str, str]) -> None:
    """Checks that loader(8) has passed on the tunables.

    Raises:
        LabFault: it has not.
    """
    for name, value in tunables.items():
        found = running.environment.get(name)
        if found != value:
            state = "is missing" if found is None else f"is {found!r}"
            why = f"the tunable {name}, ordered as {value!r}, {state} in the kernel's environment"
            why = f"{why}: look for another file of the loader that sets it"
            raise LabFault(Fault.UNFIT, why)
