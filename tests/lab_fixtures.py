"""The sample tree and the simulated lab, for tests that act on real files and real SSH."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from guard_fixtures import RAN, recorded, roles, verdict

from netbisect.bisect.model import Dud, Fact, Kernel
from netbisect.demo.lab import setup
from netbisect.demo.lab.setup import LabFiles
from netbisect.demo.tree.create import Tree, create
from netbisect.workers.build import KernelBuild
from netbisect.workers.lab import Lab, Scenario, Testbed, load_lab, load_scenario
from netbisect.workers.router import Router
from netbisect.workers.ssh import Connections
from netbisect.workers.trial import Trial


@dataclass
class RunningLab:
    """A lab whose machines answer."""

    files: LabFiles
    lab: Lab
    tree: Tree
    logs: Path
    connections: Connections
    said: list[str] = field(default_factory=list)
    """What the last trial said on its way."""
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    """Those of a test's own."""
    _built: dict[int, Kernel | Dud] = field(default_factory=dict)

    def control(self, *words: str) -> str:
        """Gives an order to the power switch: cycle, break, mend."""
        return self.connections.machine("power").run(words)

    def ssh(self, machine: str, *words: str, status: int = 0) -> str:
        """What a machine answers to a line, which must end with that status."""
        done = subprocess.run(
            ["ssh", "-F", str(self.files.ssh_config), machine, " ".join(words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def build(self, number: int) -> Kernel | Dud:
        """What building the revision at that place on the line gives; built once."""
        if number not in self._built:
            self._built[number] = KernelBuild(
                self.lab.builders[0],
                self.lab.source,
                self.tree.revisions[number],
                setup.KERNEL_CONFIG,
                lambda _: None,
            ).run()
        return self._built[number]

    def kernel(self, number: int) -> tuple[Kernel, Path]:
        """A kernel with its archive."""
        kernel = self.build(number)
        assert isinstance(kernel, Kernel), kernel
        return kernel, self.lab.builders[0].kernels / kernel.key / "kernel.tar.gz"

    def place_of(self, role: str) -> int:
        """Where on the line the first commit with that role is."""
        return min(
            self.tree.revisions.index(revision)
            for revision, part in self.tree.roles.items()
            if part == role
        )

    def testbed(
        self, name: str, boot_timeout: float | None = None, run_timeout: float | None = None
    ) -> Testbed:
        """A testbed, perhaps with less patience."""
        bed = self.lab.testbed(name)
        timing = bed.timing
        if boot_timeout is not None:
            timing = replace(timing, boot_timeout=boot_timeout)
        if run_timeout is not None:
            timing = replace(timing, run_timeout=run_timeout)
        return replace(bed, timing=timing)

    def trial(
        self,
        number: int,
        scenarios: tuple[str, ...],
        testbed: Testbed | None = None,
        runs: int = 1,
    ) -> tuple[bool, list[Fact]]:
        """A visit of the revision at that place: whether the testbed is sound, and the facts."""
        kernel, archive = self.kernel(number)
        facts: list[Fact] = []
        self.said.clear()
        trial = Trial(
            testbed or self.lab.testbed("c2558"),
            kernel,
            archive,
            [self.scenario(name) for name in scenarios],
            self.logs,
            runs,
        )
        with Connections(self.lab.ssh) as connections:
            sound = trial.run(connections, facts.append, self.said.append)
        return sound, facts

    def bring_home(self) -> None:
        """Ends a visit that another test cut short: the next would do so, by a boot of its own."""
        with Connections(self.lab.ssh) as connections:
            Router(self.lab.testbed("c2558"), connections, self.said.append).recover()

    def scenario(self, name: str) -> Scenario:
        """A scenario of the test's own, or one of those that ship."""
        return self.scenarios.get(name) or load_scenario(name)

    def boots(self, router: str) -> int:
        """How often a router has come up."""
        return int((self.files.place / "machines" / router / "boots").read_text())

    def booted(self, router: str) -> str:
        """The folder of the kernel that a router runs."""
        found = re.match(r"/boot/(.*)/kernel", self.ssh(router, "sysctl -n kern.bootfile"))
        assert found is not None
        return found[1]


@pytest.fixture(scope="session")
def sample_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The sample tree with its whole story on `main`."""
    tree = create(tmp_path_factory.mktemp("tree") / "tree.git")
    tree.land(len(tree.revisions))
    return tree


@pytest.fixture(scope="session")
def running_lab(
    sample_tree: Tree, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningLab]:
    """A small lab that runs; one for all tests, which leave it as they found it."""
    base = tmp_path_factory.mktemp("lab")
    files = setup.prepare(base / "lab", repository=sample_tree.repository, compression=600)
    lab = load_lab(files.lab)
    with setup.running(files), Connections(lab.ssh) as connections, recorded() as sent:
        yield RunningLab(files, lab, sample_tree, base / "logs", connections)
    # Whatever the tests of one process have had netbisect say, its keys must be allowed to.
    known = roles(lab)
    refused = [
        (address, line)
        for address, line in sorted(sent)
        if address in known and all(verdict(base, line, *role) != RAN for role in known[address])
    ]
    assert not refused, f"sent, and not allowed: {refused}"
    lines = (files.place / "simulator.log").read_text().splitlines()
    # What asyncio says when a client that was killed is written to.
    said = [line for line in lines if line != "socket.send() raised exception."]
    assert not said, said


@pytest.fixture
def c2558(running_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab for a test that breaks something at the testbed c2558; it is mended afterwards."""
    running_lab.bring_home()
    yield running_lab
    for machine in ("c2558-dut", "c2558-gen"):
        running_lab.control("mend", machine)
