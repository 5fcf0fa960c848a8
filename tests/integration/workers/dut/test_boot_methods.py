"""Boot methods in the simulated lab: boots, panics, hangs and errors."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab, module_lab, only_failure

from netbisect.bisect.model.entities import Boot, Reaction, Sample, Stage
from netbisect.workers import dut as dut_package
from netbisect.workers.config.dut import BOOT_METHODS
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.dut import boot_environment
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.transport.errors import LabFault

TESTBEDS = ("apu2", "d1518", "atom-zfs", "atom-be")
"""Testbeds with NanoBSD, PXE, nextboot on ZFS, and a boot environment."""
running = module_lab(*TESTBEDS)
pytestmark = pytest.mark.xdist_group("boot methods")  # one process runs the lab


@pytest.mark.parametrize("name", TESTBEDS)
def test_kernel_boots_once(lab: RunningLab, name: str) -> None:
    """A panic needs no power cycle; another root leaves the known-good kernel."""

    def files() -> dict[Path, bytes]:
        found = lab.files.disk(f"{name}-dut").rglob("*")
        return {path: path.read_bytes() for path in found if path.is_file()}

    assert [check for check in examine(lab.lab, testbed=name) if not check.good] == []
    testbed = lab.testbed(name)
    before = files()
    sound, facts = lab.trial(10, ("inet4-forwarding",), testbed)
    assert sound
    assert [fact.valid for fact in facts if isinstance(fact, Sample)] == [True]
    assert isinstance(facts[0], Boot)
    assert files() == before or name not in ("apu2", "atom-be")
    kernel, _ = lab.kernel(10)
    running = lab.device(testbed).look()
    assert running.directory == f"kernel.nb-{kernel.key[:12]}"
    # The next kernel is stored on the running root file system.
    lab.device(testbed).boot_method.deploy(running, *lab.kernel(11))
    lab.control("cycle", testbed.dut.address)
    running = lab.device(testbed).reach()
    assert running.directory == "kernel"
    assert lab.device(testbed).boot_method.runs_known_good(running)

    testbed = replace(testbed, power=None)
    sound, facts = lab.trial(lab.place_of("panic"), (), testbed)
    failure = only_failure(facts)
    assert sound
    assert (failure.stage, failure.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert failure.why.startswith("panic: mtx_lock() of destroyed mutex")
    assert lab.device(testbed).look().directory == "kernel"


@pytest.mark.parametrize(
    "name", [TESTBEDS[0], *(pytest.param(name, marks=pytest.mark.long) for name in TESTBEDS[1:])]
)
def test_hang_ends_with_a_power_cycle(lab: RunningLab, name: str) -> None:
    testbed = lab.testbed(name, boot_timeout=2.5)
    lab.control("break", testbed.dut.address, "hangs")
    device = lab.device(testbed)
    with device.recording_console(lab.logs / "hang.log"), pytest.raises(LabFault) as caught:
        device.boot(*lab.kernel(10))
    assert caught.value.reaction is Reaction.SKIP
    assert caught.value.why.startswith("the kernel hangs")
    assert device.boot_method.runs_known_good(device.look())


def test_unknown_label_quarantines_the_testbed(lab: RunningLab) -> None:
    """A boot method for another root file system and an old loader quarantine it as well."""
    nanobsd, zfs = (lab.testbed(name) for name in ("apu2", "atom-zfs"))
    layout = nanobsd.dut.nanobsd
    assert layout is not None
    ufs = "has its root on ufs:/dev/gpt/BSDRP1, "
    for testbed, changes, why in (
        (nanobsd, {"nanobsd": replace(layout, test="OTHER2")}, "/dev/gpt/OTHER2: fsck_ffs"),
        (nanobsd, {"nanobsd": replace(layout, good="OTHER1")}, f"{ufs}which is neither"),
        (zfs, {"deploy": "nextboot"}, "has its root on ZFS (zfs:zroot/ROOT/default)"),
        (nanobsd, {"deploy": "nextboot-zfs", "nanobsd": None}, f"{ufs}not on ZFS"),
        (nanobsd, {"deploy": "bootenv", "nanobsd": None}, f"{ufs}not on ZFS"),
    ):
        dut = replace(testbed.dut, **changes)  # type: ignore[arg-type] # changes of fields
        sound, facts = lab.trial(10, (), replace(testbed, dut=dut))
        assert not sound
        assert why in only_failure(facts).why

    # The loader before 13.0 would boot the kernel repeatedly.
    place = lab.files.place / "machines" / "atom-zfs-dut" / "disk" / "boot" / "lua" / "config.lua"
    text = place.read_text()
    place.write_text("")
    try:
        sound, facts = lab.trial(10, (), zfs)
    finally:
        place.write_text(text)
    assert not sound
    assert "/boot/lua/config.lua know nothing of it" in only_failure(facts).why


def test_root_outside_of_a_boot_environment_is_reported() -> None:
    """libbe_init() of bectl(8) then fails, without output; so does a missing bectl(8)."""
    assert boot_environment.lacking("zfs:zroot/ROOT/default", "default\tNR\t/\t1G\tnow\n") == ""
    why = boot_environment.lacking("zfs:tank", "")
    assert why.startswith("has its root on zfs:tank, and `bectl list` fails or shows no boot env")


def test_unreachable_pxe_server_quarantines_the_testbed(lab: RunningLab) -> None:
    device = lab.device(lab.testbed("d1518"))
    folder, _ = device.boot_method.deploy(device.reach(), *lab.kernel(10))
    device.boot_method.boot_once(folder, {})
    lab.control("break", "boot-server", "off")
    with pytest.raises(LabFault, match="boot-server") as caught:
        device.recover()
    assert caught.value.reaction is Reaction.QUARANTINE
    assert [o.what for o in examine(lab.lab, testbed="d1518") if not o.good] == ["boot method"]


def test_documented_steps_add_a_boot_method(
    c2558: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Follows docs/boot-methods.md."""
    page = (Path(__file__).parents[4] / "docs" / "boot-methods.md").read_text()
    module, entry = (
        textwrap.dedent(block) for block in re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    )
    (tmp_path / "tee.py").write_text(module)
    monkeypatch.setattr(dut_package, "__path__", [*dut_package.__path__, str(tmp_path)])
    for name, place in ast.literal_eval(f"{{{entry}}}").items():
        monkeypatch.setitem(BOOT_METHODS, name, place)
    testbed = c2558.lab.testbed("c2558")
    testbed = replace(testbed, dut=replace(testbed.dut, deploy="tee"))

    device = DeviceUnderTest(testbed, c2558.connections, c2558.messages.append)
    boot = device.boot(*c2558.kernel(10))
    assert boot.kernel == c2558.kernel(10)[0].key
    device.boot_method.boot_once("kernel", {})
    assert device.recover().directory == "kernel"
    assert "nextboot.conf" not in c2558.ssh("c2558-dut", "ls -1 /boot")
