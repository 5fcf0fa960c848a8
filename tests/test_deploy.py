"""Three ways to boot a kernel once, each proven to come back: after a good boot, panic and hang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Reaction, Sample, Stage
from netbisect.demo.lab import setup
from netbisect.demo.lab.partitions import Partition, choose
from netbisect.demo.lab.setup import LabFiles
from netbisect.demo.tree.create import Tree
from netbisect.workers.build import KernelBuild
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Lab, load_lab, load_scenario
from netbisect.workers.router import Router
from netbisect.workers.ssh import Connections
from netbisect.workers.trial import Trial

if TYPE_CHECKING:
    from netbisect.workers.lab import Testbed

FORWARDING = load_scenario("inet4-forwarding")
WAYS = ("apu2", "d1518")
"""A testbed with two partitions, and one with its root on a server."""


@dataclass
class TwoWays:
    """A lab with those testbeds."""

    files: LabFiles
    lab: Lab
    tree: Tree
    connections: Connections
    logs: Path
    said: list[str]
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

    def router(self, testbed: Testbed) -> Router:
        return Router(testbed, self.connections, self.said.append)

    def trial(
        self, number: int, testbed: Testbed, *, measure: bool = False
    ) -> tuple[bool, list[Fact]]:
        facts: list[Fact] = []
        kernel, archive = self.kernel(number)
        scenarios = [FORWARDING] if measure else []
        trial = Trial(testbed, kernel, archive, scenarios, self.logs)
        return trial.run(self.connections, facts.append, self.said.append), facts

    def ssh(self, machine: str, *words: str) -> str:
        return self.connections.machine(machine).run(words)

    def boot_folder(self, name: str) -> Path:
        """Where test kernels lie, on the disk of this host."""
        machines = self.files.place / "machines"
        if name == "apu2":
            return machines / "apu2-dut" / "upgrade" / "boot"
        return machines / "boot-server" / "disk" / "roots" / "d1518-dut" / "boot"

    def kernels(self, name: str) -> list[str]:
        return sorted(path.name for path in self.boot_folder(name).glob("kernel.nb-*"))


@pytest.fixture(scope="module")
def started(sample_tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWays]:
    base = tmp_path_factory.mktemp("ways")
    files = setup.prepare(
        base / "lab", repository=sample_tree.repository, testbeds=WAYS, compression=600
    )
    lab = load_lab(files.lab)
    with setup.running(files), Connections(lab.ssh) as connections:
        yield TwoWays(files, lab, sample_tree, connections, base / "logs", [])


@pytest.fixture
def ways(started: TwoWays) -> Iterator[TwoWays]:
    started.said.clear()
    yield started
    for machine in ("apu2-dut", "d1518-dut", "boot-server"):
        started.ssh("power", "mend", machine)
    for name in WAYS:
        started.router(started.testbed(name)).recover()


def panicking(ways: TwoWays) -> int:
    (number,) = (
        ways.tree.revisions.index(one) for one, part in ways.tree.roles.items() if part == "panic"
    )
    return number


def only_dud(facts: list[Fact]) -> Dud:
    (dud,) = facts
    assert isinstance(dud, Dud)
    return dud


# -------------------------------------------------------------------------------- each of the ways


@pytest.mark.parametrize("name", WAYS)
def test_a_kernel_is_booted_once_and_measured(ways: TwoWays, name: str) -> None:
    """And whatever comes then, the next boot is of the good one."""
    testbed = ways.testbed(name)
    sound, facts = ways.trial(10, testbed, measure=True)
    assert sound
    assert [fact.valid for fact in facts if isinstance(fact, Sample)] == [True]
    assert isinstance(facts[0], Boot)
    kernel, _ = ways.kernel(10)
    running = ways.router(testbed).look()
    assert running.directory == f"kernel.nb-{kernel.key[:12]}"
    ways.ssh("power", "cycle", testbed.dut.address)
    back = ways.router(testbed).reach()
    assert back.directory == "kernel"
    assert ways.router(testbed).deployment.is_home(back)


@pytest.mark.parametrize("name", WAYS)
def test_one_test_kernel_follows_on_the_other(ways: TwoWays, name: str) -> None:
    """Without a boot of the good one between; old ones go, but not the one that runs."""
    testbed = ways.testbed(name)
    testbed = replace(testbed, dut=replace(testbed.dut, kept_kernels=1))
    for number in (10, 11, 12):
        sound, facts = ways.trial(number, testbed)
        assert sound
        assert isinstance(facts[0], Boot), facts
    newest = {f"kernel.nb-{ways.kernel(number)[0].key[:12]}" for number in (11, 12)}
    assert set(ways.kernels(name)) == newest
    assert (ways.boot_folder(name) / "kernel" / "kernel").is_file()


@pytest.mark.parametrize("name", WAYS)
def test_a_panic_at_boot_comes_back_by_itself(ways: TwoWays, name: str) -> None:
    """The power is not touched."""
    testbed = replace(ways.testbed(name), power=None)
    sound, facts = ways.trial(panicking(ways), testbed)
    dud = only_dud(facts)
    assert sound
    assert (dud.stage, dud.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert dud.why.startswith("panic: mtx_lock() of destroyed mutex")
    assert ways.router(testbed).look().directory == "kernel"


@pytest.mark.parametrize("name", WAYS)
def test_a_hang_is_ended_by_the_power_switch(ways: TwoWays, name: str) -> None:
    testbed = ways.testbed(name, boot_timeout=1.5)
    ways.ssh("power", "break", testbed.dut.address, "hangs")
    router = ways.router(testbed)
    with router.listening(ways.logs / "hang.log"), pytest.raises(LabFault) as caught:
        router.boot(*ways.kernel(10))
    assert caught.value.reaction is Reaction.SKIP
    assert caught.value.why.startswith("the kernel hangs")
    assert router.deployment.is_home(router.look())


@pytest.mark.parametrize("name", WAYS)
def test_a_panic_under_load_ends_on_the_good_kernel(ways: TwoWays, name: str) -> None:
    testbed = ways.testbed(name)
    ways.ssh("power", "break", testbed.dut.address, "panics-under-load")
    _, facts = ways.trial(10, testbed, measure=True)
    dud = facts[-1]
    assert isinstance(dud, Dud)
    assert "in ip_tryforward()" in dud.why
    assert ways.router(testbed).deployment.is_home(ways.router(testbed).look())


@pytest.mark.parametrize("name", WAYS)
def test_a_full_disk_boots_nothing(ways: TwoWays, name: str) -> None:
    testbed = ways.testbed(name)
    full = "boot-server" if name == "d1518" else testbed.dut.address
    ways.ssh("power", "break", full, "disk-full")
    sound, facts = ways.trial(14, testbed)
    dud = only_dud(facts)
    assert not sound
    assert (dud.stage, dud.reaction) == (Stage.DEPLOY, Reaction.QUARANTINE)
    assert f"boot on {full} has 0 MiB free" in dud.why
    assert ways.router(testbed).look().directory == "kernel"


@pytest.mark.parametrize("name", WAYS)
def test_recovering_takes_back_an_order_that_was_not_carried_out(ways: TwoWays, name: str) -> None:
    """A worker that died between order and reboot leaves no surprise behind."""
    testbed = ways.testbed(name)
    router = ways.router(testbed)
    folder, _ = router.deployment.install(router.reach(), *ways.kernel(10))
    router.deployment.arm(folder, {"a": "b"})
    router.recover()
    ways.ssh("power", "cycle", testbed.dut.address)
    assert router.deployment.is_home(router.reach())


# ---------------------------------------------------------------------------- two partitions


def test_the_good_partition_is_never_written_to(ways: TwoWays) -> None:
    good = ways.files.place / "machines" / "apu2-dut" / "disk"
    before = {path: path.read_bytes() for path in (good / "boot").rglob("*") if path.is_file()}
    ways.trial(10, ways.testbed("apu2"))
    after = {path: path.read_bytes() for path in (good / "boot").rglob("*") if path.is_file()}
    assert after == before
    with pytest.raises(Exception, match="Read-only file system"):
        ways.ssh("apu2-dut", "mkdir", "-p", "/boot/x")


def test_labels_that_are_not_there_need_the_owner(ways: TwoWays) -> None:
    testbed = ways.testbed("apu2")
    layout = testbed.dut.nanobsd
    assert layout is not None
    for wrong, why in (
        (replace(layout, test="OTHER2"), "cannot mount /dev/gpt/OTHER2: fsck_ffs"),
        (replace(layout, good="OTHER1"), "has its root on ufs:/dev/gpt/BSDRP1, which is neither"),
    ):
        other = replace(testbed, dut=replace(testbed.dut, nanobsd=wrong))
        sound, facts = ways.trial(10, other)
        assert not sound
        assert why in only_dud(facts).why


def test_gptboot_tries_once_and_then_what_is_known_to_be_good(tmp_path: Path) -> None:
    """As gptboot(8) says: `bootonce` alone is a boot that has failed."""
    good, test = (Partition(n, f"P{n}", tmp_path) for n in (3, 4))
    good.attributes, test.attributes = {"bootme"}, {"bootme", "bootonce"}
    assert choose([good, test]) is test
    assert test.attributes == {"bootonce"}
    assert choose([good, test]) is good
    assert test.attributes == {"bootfailed"}


# -------------------------------------------------------------------------------- the network


def test_without_a_console_a_panic_over_the_network_is_ended_by_the_switch(ways: TwoWays) -> None:
    """Nobody tells when the kernel starts, so it panics until its time is over."""
    testbed = replace(ways.testbed("d1518", boot_timeout=2.0), console=None)
    router = ways.router(testbed)
    with pytest.raises(LabFault) as caught:
        router.boot(*ways.kernel(panicking(ways)))
    assert caught.value.why.startswith("the kernel hangs")
    assert router.look().directory == "kernel"
    assert not (ways.boot_folder("d1518") / "nextboot.conf").exists()


def test_a_server_that_does_not_take_the_order_back_needs_the_owner(ways: TwoWays) -> None:
    """Nobody could say what the next boot would be."""
    router = ways.router(ways.testbed("d1518"))
    folder, _ = router.deployment.install(router.reach(), *ways.kernel(10))
    router.deployment.arm(folder, {})
    ways.ssh("power", "break", "boot-server", "off")
    with pytest.raises(LabFault) as caught:
        router.recover()
    assert caught.value.reaction is Reaction.QUARANTINE
    assert "boot-server" in caught.value.why
