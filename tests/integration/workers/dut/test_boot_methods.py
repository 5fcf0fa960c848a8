"""Boot methods in the simulated lab: good boot, panic, hang, interrupted order."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab_fixtures import RunningLab, only_failure

from netbisect.bisect.model.entities import Boot, Fact, Kernel, Reaction, Sample, Stage
from netbisect.demo.lab import setup
from netbisect.demo.lab.setup import LabFiles
from netbisect.demo.tree.create import SampleTree
from netbisect.workers import dut as dut_package
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.dut import BOOT_METHODS
from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.measure.trial import TrialRunner
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.ssh import Connections

if TYPE_CHECKING:  # pytest would collect it
    from netbisect.workers.config.testbed import Testbed


FORWARDING = load_scenario("inet4-forwarding")
TESTBEDS = ("apu2", "d1518", "atom-zfs", "atom-be")
"""With NanoBSD, PXE, nextboot on ZFS, and a boot environment."""


@dataclass
class MethodLab:
    """A running lab with these testbeds."""

    files: LabFiles
    lab: Lab
    tree: SampleTree
    connections: Connections
    logs: Path
    messages: list[str]
    built: dict[int, tuple[Kernel, Path]] = field(default_factory=dict)

    def kernel(self, number: int) -> tuple[Kernel, Path]:
        if number not in self.built:
            self.built[number] = self._build(number)
        return self.built[number]

    def _build(self, number: int) -> tuple[Kernel, Path]:
        revision = self.tree.revisions[number]
        build = KernelBuild(
            self.lab.builders[0], self.lab.source, revision, setup.KERNEL_CONFIG, lambda _: None
        )
        kernel = build.run()
        assert isinstance(kernel, Kernel)
        return kernel, build.kernels.archive(kernel.key)

    def testbed(self, name: str, boot_timeout: float = 15.0) -> Testbed:
        bed = self.lab.testbed(name)
        return replace(bed, timing=replace(bed.timing, boot_timeout=boot_timeout))

    def device(self, testbed: Testbed) -> DeviceUnderTest:
        return DeviceUnderTest(testbed, self.connections, self.messages.append)

    def trial(
        self, number: int, testbed: Testbed, *, measure: bool = False
    ) -> tuple[bool, list[Fact]]:
        facts: list[Fact] = []
        kernel, archive = self.kernel(number)
        scenarios = [FORWARDING] if measure else []
        trial = TrialRunner(testbed, kernel, archive, scenarios, self.logs)
        return trial.run(self.connections, facts.append, self.messages.append), facts

    def ssh(self, machine: str, *words: str) -> str:
        return self.connections.machine(machine).run(words)

    def boot_folder(self, name: str) -> Path:
        """Where test kernels lie, on the disk of this host."""
        machines = self.files.place / "machines"
        if name == "apu2":
            return machines / "apu2-dut" / "upgrade" / "boot"
        if name == "atom-zfs":
            return machines / "atom-zfs-dut" / "disk" / "boot"
        if name == "atom-be":
            return machines / "atom-be-dut" / "environment-netbisect" / "boot"
        return machines / "boot-server" / "disk" / "roots" / "d1518-dut" / "boot"

    def kernels(self, name: str) -> list[str]:
        return sorted(path.name for path in self.boot_folder(name).glob("kernel.nb-*"))


@pytest.fixture(scope="module")
def started(
    sample_tree: SampleTree, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MethodLab]:
    base = tmp_path_factory.mktemp("boot")
    files = setup.prepare(
        base / "lab", repository=sample_tree.repository, testbeds=TESTBEDS, compression=600
    )
    lab = load_lab(files.lab)
    with setup.running(files), Connections(lab.ssh) as connections:
        yield MethodLab(files, lab, sample_tree, connections, base / "logs", [])


@pytest.fixture
def lab(started: MethodLab) -> Iterator[MethodLab]:
    started.messages.clear()
    yield started
    for machine in (*(f"{name}-dut" for name in TESTBEDS), "boot-server"):
        started.ssh("power", "mend", machine)
    for name in TESTBEDS:
        started.device(started.testbed(name)).recover()


def panicking(lab: MethodLab) -> int:
    (number,) = (
        lab.tree.revisions.index(one) for one, part in lab.tree.roles.items() if part == "panic"
    )
    return number


@pytest.mark.parametrize("name", TESTBEDS)
def test_kernel_boots_once(lab: MethodLab, name: str) -> None:
    testbed = lab.testbed(name)
    sound, facts = lab.trial(10, testbed, measure=True)
    assert sound
    assert [fact.valid for fact in facts if isinstance(fact, Sample)] == [True]
    assert isinstance(facts[0], Boot)
    kernel, _ = lab.kernel(10)
    running = lab.device(testbed).look()
    assert running.directory == f"kernel.nb-{kernel.key[:12]}"
    lab.ssh("power", "cycle", testbed.dut.address)
    back = lab.device(testbed).reach()
    assert back.directory == "kernel"
    assert lab.device(testbed).boot_method.runs_known_good(back)


@pytest.mark.parametrize("name", TESTBEDS)
def test_doctor_finds_no_fault(lab: MethodLab, name: str) -> None:
    assert [check for check in examine(lab.lab, testbed=name) if not check.good] == []


@pytest.mark.parametrize("name", TESTBEDS)
def test_panic_at_boot_needs_no_power_cycle(lab: MethodLab, name: str) -> None:
    testbed = replace(lab.testbed(name), power=None)
    sound, facts = lab.trial(panicking(lab), testbed)
    failure = only_failure(facts)
    assert sound
    assert (failure.stage, failure.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert failure.why.startswith("panic: mtx_lock() of destroyed mutex")
    assert lab.device(testbed).look().directory == "kernel"


@pytest.mark.parametrize(
    "name", [TESTBEDS[0], *(pytest.param(name, marks=pytest.mark.long) for name in TESTBEDS[1:])]
)
def test_hang_ends_with_a_power_cycle(lab: MethodLab, name: str) -> None:
    testbed = lab.testbed(name, boot_timeout=2.5)
    lab.ssh("power", "break", testbed.dut.address, "hangs")
    device = lab.device(testbed)
    with device.recording_console(lab.logs / "hang.log"), pytest.raises(LabFault) as caught:
        device.boot(*lab.kernel(10))
    assert caught.value.reaction is Reaction.SKIP
    assert caught.value.why.startswith("the kernel hangs")
    assert device.boot_method.runs_known_good(device.look())


def test_good_partition_is_read_only(lab: MethodLab) -> None:
    good = lab.files.place / "machines" / "apu2-dut" / "disk"
    before = {path: path.read_bytes() for path in (good / "boot").rglob("*") if path.is_file()}
    lab.trial(10, lab.testbed("apu2"))
    after = {path: path.read_bytes() for path in (good / "boot").rglob("*") if path.is_file()}
    assert after == before
    with pytest.raises(Exception, match="Read-only file system"):
        lab.ssh("apu2-dut", "mkdir", "-p", "/boot/x")


def test_unknown_labels_quarantine_the_testbed(lab: MethodLab) -> None:
    testbed = lab.testbed("apu2")
    layout = testbed.dut.nanobsd
    assert layout is not None
    for wrong, why in (
        (replace(layout, test="OTHER2"), "cannot mount /dev/gpt/OTHER2: fsck_ffs"),
        (replace(layout, good="OTHER1"), "has its root on ufs:/dev/gpt/BSDRP1, which is neither"),
    ):
        other = replace(testbed, dut=replace(testbed.dut, nanobsd=wrong))
        sound, facts = lab.trial(10, other)
        assert not sound
        assert why in only_failure(facts).why


def test_good_boot_environment_is_not_written_to(lab: MethodLab) -> None:
    good = lab.files.place / "machines" / "atom-be-dut" / "disk"
    before = {path: path.read_bytes() for path in good.rglob("*") if path.is_file()}
    sound, facts = lab.trial(10, lab.testbed("atom-be"))
    assert sound
    assert isinstance(facts[0], Boot)
    after = {path: path.read_bytes() for path in good.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("name", "deploy", "why"),
    [
        ("atom-zfs", "nextboot", "has its root on ZFS (zfs:zroot/ROOT/default)"),
        ("apu2", "nextboot-zfs", "has its root on ufs:/dev/gpt/BSDRP1, not on ZFS"),
        ("apu2", "bootenv", "has its root on ufs:/dev/gpt/BSDRP1, not on ZFS"),
    ],
)
def test_method_for_another_root_quarantines_the_testbed(
    lab: MethodLab, name: str, deploy: str, why: str
) -> None:
    testbed = lab.testbed(name)
    dut = replace(testbed.dut, deploy=deploy, nanobsd=None)
    sound, facts = lab.trial(10, replace(testbed, dut=dut))
    assert not sound
    assert why in only_failure(facts).why


def test_system_without_the_label_quarantines_the_testbed(lab: MethodLab) -> None:
    """As one before 13.0: its loader would boot the kernel again and again."""
    place = lab.files.place / "machines" / "atom-zfs-dut" / "disk" / "boot" / "lua" / "config.lua"
    text = place.read_text()
    place.write_text("")
    try:
        sound, facts = lab.trial(10, lab.testbed("atom-zfs"))
    finally:
        place.write_text(text)
    assert not sound
    assert "/boot/lua/config.lua know nothing of it" in only_failure(facts).why


def test_unreachable_pxe_server_quarantines_the_testbed(lab: MethodLab) -> None:
    device = lab.device(lab.testbed("d1518"))
    folder, _ = device.boot_method.deploy(device.reach(), *lab.kernel(10))
    device.boot_method.boot_once(folder, {})
    lab.ssh("power", "break", "boot-server", "off")
    with pytest.raises(LabFault) as caught:
        device.recover()
    assert caught.value.reaction is Reaction.QUARANTINE
    assert "boot-server" in caught.value.why


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

    with Connections(c2558.lab.ssh) as connections:
        device = DeviceUnderTest(testbed, connections, c2558.messages.append)
        boot = device.boot(*c2558.kernel(10))
        assert boot.kernel == c2558.kernel(10)[0].key
        device.boot_method.boot_once("kernel", {})
        assert device.recover().directory == "kernel"
        assert "nextboot.conf" not in c2558.ssh("c2558-dut", "ls -1 /boot")
