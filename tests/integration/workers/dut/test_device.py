"""Detection of the booted kernel, and timeouts."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab
from programs import runs
from waiting import wait_until

from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.testbed import Power
from netbisect.workers.dut import device
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.dut.running_kernel import RunningKernel, read_running_kernel
from netbisect.workers.transport import power
from netbisect.workers.transport.errors import LabFault

DUT = "c2558-dut"


@pytest.fixture
def one(c2558: RunningLab) -> DeviceUnderTest:
    c2558.messages.clear()
    return DeviceUnderTest(c2558.lab.testbed("c2558"), c2558.connections, c2558.messages.append)


def change_running_kernel(patch: pytest.MonkeyPatch, **changes: object) -> None:
    """Changes properties of the running test kernel, like those of a foreign kernel."""

    def changed(machine: object) -> RunningKernel:
        running = read_running_kernel(machine)  # type: ignore[arg-type]  # a Machine
        is_test_kernel = "netbisect.order" in running.environment
        return replace(running, **changes) if is_test_kernel else running  # type: ignore[arg-type]

    patch.setattr(device, "read_running_kernel", changed)


def test_other_kernel_of_the_same_revision_is_detected(
    c2558: RunningLab, one: DeviceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changes, why in (
        ({"build_id": "ab" * 20}, "the running kernel has the build id abab"),
        ({"ident": "GENERIC"}, "has the configuration GENERIC, ordered was GENERIC-NODEBUG"),
    ):
        change_running_kernel(monkeypatch, **changes)
        with pytest.raises(LabFault, match=why) as caught:
            one.boot(*c2558.kernel(10))
        assert caught.value.fault is Fault.WRONG_KERNEL
        monkeypatch.undo()


@pytest.mark.parametrize("seconds", [-86_400.0 * 365, 86_400.0 * 365])
def test_clock_jumps_do_not_affect_boot_detection(
    c2558: RunningLab, one: DeviceUnderTest, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Boots are identified by a number; their time is that of the worker."""
    began = time.time()
    start = one.look().boottime
    change_running_kernel(monkeypatch, boottime=start + seconds)
    boot = one.boot(*c2558.kernel(10))
    assert began <= boot.at <= time.time()
    logged = [line for line in c2558.messages if "that clock was set" in line]
    assert bool(logged) == (seconds < 0)
    monkeypatch.undo()
    one.recover()
    change_running_kernel(monkeypatch, boottime=start + seconds)
    c2558.control("break", DUT, "ignores-nextboot")
    with pytest.raises(LabFault, match=r"nb-.{12}; there is no output of its console"):
        one.boot(*c2558.kernel(10))


@pytest.mark.long
@pytest.mark.parametrize("fault", ["", "off"])
def test_machine_that_does_not_go_down_is_power_cycled(
    c2558: RunningLab, one: DeviceUnderTest, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The machine goes on answering, or hangs on its way down; the power cycle boots the kernel.

    As with IPMI, the power goes off after the command has ended, here with an error. The machines
    of the simulated lab have no watchdog.
    """

    def reboot(_: DeviceUnderTest) -> None:
        if fault:
            c2558.control("break", DUT, fault)

    bed = c2558.testbed("c2558", boot_timeout=3.0)
    late = f"(sleep 0.5; {shlex.join(bed.power.cycle)}) >/dev/null 2>&1 & exit 1"
    dut = replace(bed.dut, watchdog=60)
    one.testbed = replace(bed, power=Power(("sh", "-c", late)), dut=dut)
    monkeypatch.setattr(DeviceUnderTest, "_reboot", reboot)
    kernel, archive = c2558.kernel(10)
    assert one.boot(kernel, archive).kernel == kernel.key
    assert ("c2558: it does not go down; power cycle" in c2558.messages) == (not fault)
    [logged] = [line for line in c2558.messages if "no watchdog guards this boot" in line]
    assert "Operation not supported" in logged
    assert one.recover().directory == "kernel"


@pytest.mark.long
def test_loader_prompt_is_reported(c2558: RunningLab, one: DeviceUnderTest, tmp_path: Path) -> None:
    """The kernel file is damaged after its verification, as by a failing disk."""
    one.testbed = c2558.testbed("c2558", boot_timeout=2.0)
    place = c2558.files.disk(DUT) / "boot"
    order = one._order

    def damage(folder: str, number: str, tunables: Mapping[str, str]) -> float:
        (place / folder / "kernel").write_bytes(b"")
        return order(folder, number, tunables)

    one._order = damage  # type: ignore[method-assign]  # the simulated lab has no such fault
    with one.recording_console(tmp_path / "console.log"), pytest.raises(LabFault) as caught:
        one.boot(*c2558.kernel(10))
    assert caught.value.why == (
        "the kernel hangs: no answer until the power was cycled; "
        "it stands at OK: the loader could not go on"
    )


def test_failed_power_command_gives_the_reason(tmp_path: Path) -> None:
    """A hanging command is killed with its children."""
    for command, why in (
        (("true",), ""),
        (("sh", "-c", "echo no such outlet; exit 2"), "exit status 2: no such outlet"),
        (("false",), "exit status 1: no output"),
        (("/none/ipmitool",), "/none/ipmitool cannot be run: No such file or directory"),
    ):
        assert power.cycle(Power(command)) == why
    script = f"sleep 600 & echo $! >{tmp_path}/pid; wait"
    assert power.cycle(Power(("sh", "-c", script), timeout=1)) == "it had not ended after 1 s"
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not runs(child))
