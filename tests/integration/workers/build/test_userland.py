"""Programs that are sent with a kernel if those of the DUT do not fit it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from builds import built, failed
from lab_fixtures import LabCommand, LabFiles, RunningLab, started

from netbisect.bisect.model.entities import Kernel, Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import SampleTree, create
from netbisect.demo.tree.story import StoryCommit, append, comment, page
from netbisect.demo.tree.story import replace as edit
from netbisect.workers.build.userland import needs_of
from netbisect.workers.cli import output
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.dut import TOOLS_FOLDER

PFVAR = "sys/net/pfvar.h"
GROWN = ("\tu_int32_t\t nr;\n", "\tu_int32_t\t nr;\n\tu_int64_t\t anchor;\n")
BASE, REMARK, PF, IPFW, BROKEN = range(5)
"""Positions of the commits of the tree below."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SampleTree:
    """A tree whose commits change the interface of pf, and then that of ipfw."""
    commits = [
        StoryCommit("docs", "pf: Document ticket", (comment(PFVAR, "Number of a transaction."),)),
        StoryCommit("firewall", "pf: Let rules have anchors", (edit(PFVAR, *GROWN),)),
        StoryCommit(
            "firewall",
            "ipfw: More sets",
            (edit("sys/netinet/ip_fw.h", "uint16_t\t set", "uint32_t\t set"),),
        ),
        StoryCommit(
            "firewall", "pfctl: Not yet", (append("sbin/pfctl/pfctl.c", "#error not yet\n"),)
        ),
        *(
            StoryCommit("docs", f"igb.4: Day {day}", (page("igb", f"Day {day}."),))
            for day in range(4)
        ),
    ]
    return create(tmp_path_factory.mktemp("abi") / "tree.git", commits)


@pytest.fixture(scope="module")
def files(tree: SampleTree, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFiles]:
    """A lab of this tree; its DUT has the programs of the first commit."""
    with started(tmp_path_factory.mktemp("lab"), tree, "c2558", compression=600) as lab:
        yield lab.files


def needs(tree: SampleTree, *programs: str) -> dict[str, list[str]]:
    return {name: [tree.revisions[BASE]] for name in programs}


def contents(builder: Builder, kernel: Kernel) -> dict[str, int]:
    """Modes of the files in the archive by name."""
    with tarfile.open(builder.kernels / kernel.key / "kernel.tar.gz") as tar:
        return {member.name: member.mode for member in tar if member.isfile()}


def test_programs_that_must_fit_are_sent_with_the_kernel(
    builder: Builder, tree: SampleTree
) -> None:
    """They do not change the identity; comments and the other firewall do not matter."""
    for place, programs in ((BASE, ("pfctl", "ipfw")), (REMARK, ("pfctl",)), (PF, ("ipfw",))):
        kernel = built(builder, tree, tree.revisions[place], needs=needs(tree, *programs))
        assert set(contents(builder, kernel)) == {"kernel", "pf.ko", "ipfw.ko"}

    plain = built(builder, tree, tree.revisions[IPFW])
    more = needs(tree, "pfctl", "ipfw", "ifconfig")
    kernel = built(builder, tree, tree.revisions[IPFW], needs=more)
    assert contents(builder, kernel).items() >= {
        (f"{TOOLS_FOLDER}/pfctl", 0o555),
        (f"{TOOLS_FOLDER}/ipfw", 0o555),
    }
    assert len(contents(builder, kernel)) == 5
    assert kernel.identity == plain.identity
    assert kernel.key != plain.key


def test_a_program_that_does_not_build_is_a_failure(builder: Builder, tree: SampleTree) -> None:
    """An older program might load other rules. An unknown revision is a fault of the lab file."""
    revision = tree.revisions[BROKEN]
    failure = failed(builder, tree, revision, needs=needs(tree, "pfctl"))

    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    assert failure.why.startswith("sbin/pfctl: ")
    assert failure.why.endswith("pfctl.c:9:2: error: not yet")
    built(builder, tree, revision)
    failure = failed(builder, tree, revision, needs={"pfctl": ["0" * 40]})
    assert failure.reaction is Reaction.ABORT
    assert failure.why.startswith("userland 000000000000 of the lab file is on no branch of ")


def test_programs_of_the_scenarios_may_be_sent(running_lab: RunningLab) -> None:
    """Only testbeds with the key `userland` and this configuration need programs."""
    assert needs_of(running_lab.lab, "amd64", KERNEL_CONFIG) == {}
    testbed = running_lab.lab.testbed("c2558")
    testbed = replace(testbed, dut=replace(testbed.dut, userland="a" * 40))
    lab = replace(running_lab.lab, testbeds=(testbed,))
    assert needs_of(lab, "amd64", KERNEL_CONFIG) == {"pfctl": {"a" * 40}, "ipfw": {"a" * 40}}
    assert needs_of(lab, "arm64", KERNEL_CONFIG) == {}
    assert needs_of(lab, "amd64", "GENERIC") == {}

    for changes, message in (
        ({"userland": "14.2"}, "userland '14.2': expected the full hash of a commit"),
        ({"tools": ("sh",)}, "tools: 'sh': expected some of pfctl, ipfw, ifconfig, netstat"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(testbed.dut, **changes)  # type: ignore[arg-type] # on purpose


@dataclass
class _CommandLine:
    lab: Path
    call: LabCommand

    def run(self, *words: str) -> tuple[int, list[dict[str, object]]]:
        status, facts, _ = self.call(self.lab, *words)
        return status, [json.loads(line) for line in facts.splitlines()]

    def trial(self, revision: str, *scenarios: str) -> tuple[int, list[dict[str, object]]]:
        build = ["--builder", "amd64", "--revision", revision, "--config", KERNEL_CONFIG]
        status, (kernel,) = self.run("build", *build)
        assert status == 0, kernel
        chosen = [word for name in scenarios for word in ("--scenario", name)]
        folders = ["--kernels", str(self.lab.parent / "builder" / "kernels")]
        folders += ["--logs", str(self.lab.parent / "logs")]
        key = str(kernel["key"])
        return self.run("trial", "--testbed", "c2558", "--kernel", key, *folders, *chosen)


@pytest.fixture
def command_line(files: LabFiles, tmp_path: Path, lab_command: LabCommand) -> _CommandLine:
    (tmp_path / "ssh").symlink_to(files.ssh_config.parent)
    (tmp_path / "lab.toml").write_text(files.lab.read_text())
    return _CommandLine(tmp_path / "lab.toml", lab_command)


def problems(facts: list[dict[str, object]]) -> dict[object, object]:
    """Problems of the last sample of each scenario; a run may have been repeated."""
    return {fact["scenario"]: fact["problems"] for fact in facts if fact["is"] == "sample"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "scenarios", "message"),
    [
        (
            PF,
            ["inet4-pf-stateful", "inet4-pf-table"],
            "pfctl: DIOCADDRULE: Inappropriate ioctl for device",
        ),
        (
            IPFW,
            ["inet4-ipfw-stateful", "inet4-ipfw-rules"],
            "ipfw: getsockopt(IP_FW_XADD): Invalid argument",
        ),
    ],
)
def test_a_sample_needs_programs_that_fit_the_kernel(
    command_line: _CommandLine, tree: SampleTree, place: int, scenarios: list[str], message: str
) -> None:
    """The kernel rejects the ioctls of other programs, which `userland` prevents."""
    revision = tree.revisions[place]
    status, facts = command_line.trial(revision, *scenarios)
    failures = [fact for fact in facts if fact["is"] == "dud"]

    assert status == output.EXIT_UNMEASURABLE
    assert [fact["scenario"] for fact in failures] == scenarios
    for failure in failures:
        assert (failure["stage"], failure["reaction"]) == ("bench", "skip")
        assert message in str(failure["why"])
    assert "sample" not in {fact["is"] for fact in facts}

    text = command_line.lab.read_text().replace(
        "[testbeds.dut]", f'[testbeds.dut]\nuserland = "{tree.revisions[BASE]}"'
    )
    command_line.lab.write_text(text)
    no_problems = {name: [] for name in scenarios}
    status, facts = command_line.trial(revision, *scenarios)
    assert (status, problems(facts)) == (0, no_problems)
    # An earlier kernel uses the installed programs again.
    status, facts = command_line.trial(tree.revisions[BASE], *scenarios)
    assert (status, problems(facts)) == (0, no_problems)
