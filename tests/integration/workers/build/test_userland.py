"""Programs that must fit the kernel: they travel with it where those on the DUT do not."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from builds import built, failed

from netbisect.bisect.model.entities import Kernel, Reaction, Stage
from netbisect.demo.lab import setup
from netbisect.demo.lab.setup import KERNEL_CONFIG, LabFiles
from netbisect.demo.tree.create import SampleTree, create
from netbisect.demo.tree.story import StoryCommit, append, comment, page
from netbisect.demo.tree.story import replace as edit
from netbisect.workers.build.userland import FOLDER, needs_of
from netbisect.workers.cli import main, options
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.dut import Dut, PortSelector
from netbisect.workers.config.lab import Lab, load_lab

PFVAR = "sys/net/pfvar.h"
GROWN = ("\tu_int32_t\t nr;\n", "\tu_int32_t\t nr;\n\tu_int64_t\t anchor;\n")
BASE, REMARK, PF, IPFW, BROKEN = range(5)
"""Places on the line of the tree below."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SampleTree:
    """A tree in which pf, then ipfw, come to speak differently."""
    commits = [
        StoryCommit("docs", "pf: Say what ticket is", (comment(PFVAR, "A ticket is a ticket."),)),
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
    """A lab of that tree; its DUT has the programs of the first commit."""
    place = tmp_path_factory.mktemp("lab") / "lab"
    prepared = setup.prepare(
        place, repository=tree.repository, testbeds=("c2558",), compression=600
    )
    with setup.running(prepared):
        yield prepared


def needs(tree: SampleTree, *programs: str) -> dict[str, list[str]]:
    """Of a DUT whose programs are those of the first commit."""
    return {name: [tree.revisions[BASE]] for name in programs}


def contents(builder: Builder, kernel: Kernel) -> dict[str, int]:
    """Names in the artefact, with their modes."""
    with tarfile.open(builder.kernels / kernel.key / "kernel.tar.gz") as tar:
        return {member.name: member.mode for member in tar if member.isfile()}


def test_no_programs_are_sent_if_the_installed_ones_fit(builder: Builder, tree: SampleTree) -> None:
    """A changed comment changes nothing; nor does what pf says matter to ipfw."""
    for place, programs in ((BASE, ("pfctl", "ipfw")), (REMARK, ("pfctl",)), (PF, ("ipfw",))):
        kernel = built(builder, tree, tree.revisions[place], needs=needs(tree, *programs))
        assert set(contents(builder, kernel)) == {"kernel", "pf.ko", "ipfw.ko"}


def test_programs_that_must_fit_are_sent_with_the_kernel(
    builder: Builder, tree: SampleTree
) -> None:
    """It can be executed, and makes no other kernel of it: a kernel is what boots."""
    plain = built(builder, tree, tree.revisions[IPFW])
    programs = needs(tree, "pfctl", "ipfw", "ifconfig")
    kernel = built(builder, tree, tree.revisions[IPFW], needs=programs)

    assert contents(builder, kernel).items() >= {
        (f"{FOLDER}/pfctl", 0o555),
        (f"{FOLDER}/ipfw", 0o555),
    }
    assert len(contents(builder, kernel)) == 5
    assert kernel.identity == plain.identity
    assert kernel.key != plain.key


def test_a_program_that_does_not_build_is_a_failure(builder: Builder, tree: SampleTree) -> None:
    """Rules set by another program might be other rules."""
    revision = tree.revisions[BROKEN]
    failure = failed(builder, tree, revision, needs=needs(tree, "pfctl"))

    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    assert failure.why.startswith("sbin/pfctl: ")
    assert failure.why.endswith("pfctl.c:9:2: error: not yet")
    built(builder, tree, revision)


def test_an_unknown_userland_revision_is_reported(builder: Builder, tree: SampleTree) -> None:
    """The lab file is wrong, and not the revision."""
    failure = failed(builder, tree, tree.revisions[BASE], needs={"pfctl": ["0" * 40]})

    assert failure.reaction is Reaction.ABORT
    assert failure.why.startswith("userland 000000000000 of the lab file is on no branch of ")


@pytest.fixture
def lab(files: LabFiles) -> Lab:
    return load_lab(files.lab)


def with_dut(lab: Lab, **changes: object) -> Lab:
    (bed,) = lab.testbeds
    dut = replace(bed.dut, **changes)  # type: ignore[arg-type] # as the tests give them
    return replace(lab, testbeds=(replace(bed, dut=dut),))


def test_programs_of_the_scenarios_may_be_sent(lab: Lab) -> None:
    """Of testbeds that say what they have, and boot such kernels."""
    shipped = with_dut(lab, userland="a" * 40)
    assert needs_of(lab, "amd64", KERNEL_CONFIG) == {}
    assert needs_of(shipped, "amd64", KERNEL_CONFIG) == {"pfctl": {"a" * 40}, "ipfw": {"a" * 40}}
    assert needs_of(shipped, "arm64", KERNEL_CONFIG) == {}
    assert needs_of(shipped, "amd64", "GENERIC") == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"userland": "14.2"}, "userland '14.2': expected the full hash of a commit"),
        ({"tools": ("sh",)}, "tools: 'sh': expected some of pfctl, ipfw, ifconfig, netstat"),
    ],
)
def test_invalid_combinations_are_refused(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Dut("d", PortSelector("a"), PortSelector("b"), **changes)  # type: ignore[arg-type] # on purpose


@dataclass
class _CommandLine:
    """Where somebody types netbisect-lab."""

    lab: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, list[dict[str, object]]]:
        """Exit status, and the facts that were printed."""
        status = main.main(["--lab", str(self.lab), *words])
        return status, [json.loads(line) for line in self.capture.readouterr().out.splitlines()]

    def trial(self, revision: str, *scenarios: str) -> tuple[int, list[dict[str, object]]]:
        """Builds and boots it, and runs the scenarios."""
        build = ["--builder", "amd64", "--revision", revision, "--config", KERNEL_CONFIG]
        status, (kernel,) = self.run("build", *build)
        assert status == 0, kernel
        chosen = [word for name in scenarios for word in ("--scenario", name)]
        where = ["--kernels", str(self.lab.parent / "builder" / "kernels")]
        where += ["--logs", str(self.lab.parent / "logs")]
        key = str(kernel["key"])
        return self.run("trial", "--testbed", "c2558", "--kernel", key, *where, *chosen)


@pytest.fixture
def command_line(
    files: LabFiles, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> _CommandLine:
    (tmp_path / "ssh").symlink_to(files.ssh_config.parent)
    (tmp_path / "lab.toml").write_text(files.lab.read_text())
    return _CommandLine(tmp_path / "lab.toml", capfd)


def problems(facts: list[dict[str, object]]) -> object:
    """What speaks against the last sample; a run may have been made once more."""
    return [fact for fact in facts if fact["is"] == "sample"][-1]["problems"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "scenario", "message"),
    [
        (PF, "inet4-pf-stateful", "pfctl: DIOCADDRULE: Inappropriate ioctl for device"),
        (IPFW, "inet4-ipfw-stateful", "ipfw: getsockopt(IP_FW_XADD): Invalid argument"),
        (PF, "inet4-pf-table", "pfctl: DIOCADDRULE: Inappropriate ioctl for device"),
        (IPFW, "inet4-ipfw-rules", "ipfw: getsockopt(IP_FW_XADD): Invalid argument"),
    ],
)
def test_a_sample_needs_programs_that_fit_the_kernel(
    command_line: _CommandLine, tree: SampleTree, place: int, scenario: str, message: str
) -> None:
    """The kernel does not take what the programs on the machine say to it."""
    revision = tree.revisions[place]
    status, facts = command_line.trial(revision, scenario)
    (failure,) = [fact for fact in facts if fact["is"] == "dud"]

    assert status == options.EXIT_UNMEASURABLE
    assert (failure["stage"], failure["reaction"], failure["scenario"]) == (
        "bench",
        "skip",
        scenario,
    )
    assert message in str(failure["why"])
    assert "sample" not in {fact["is"] for fact in facts}

    text = command_line.lab.read_text().replace(
        "[testbeds.dut]", f'[testbeds.dut]\nuserland = "{tree.revisions[BASE]}"'
    )
    command_line.lab.write_text(text)
    status, facts = command_line.trial(revision, scenario)
    assert (status, problems(facts)) == (0, [])
    # The kernel before them is served by the machine's own programs again.
    status, facts = command_line.trial(tree.revisions[BASE], scenario)
    assert (status, problems(facts)) == (0, [])
