"""Every fault of the table, made to happen: what follows is what the table says, and no more.

In the simulated lab, over real SSH. What only the service can meet is in test_quarantine.py,
test_conductor.py and test_service.py; a fault without a test of its own fails a test here.
"""

from __future__ import annotations

import ast
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from netbisect.bisect import wire
from netbisect.bisect.faults import RULES, Fault, fault_of_run, rule_of
from netbisect.bisect.model import Dud, Fact, Reaction, Sample, Stage
from netbisect.demo.lab.faults import Fault as Broken
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import Tree
from netbisect.workers import clocks
from netbisect.workers.build import KernelBuild
from netbisect.workers.lab import Builder, NanoBsd, Source
from netbisect.workers.router import Router
from netbisect.workers.ssh import Connections

if TYPE_CHECKING:
    from netbisect.workers.lab import Testbed
    from tests.lab_fixtures import RunningLab

HERE = Path(__file__).parent
FORWARDING = ("inet4-forwarding",)
PATIENCE = 1.0
"""Seconds for a boot, where one is expected to hang; a good one takes a quarter."""
MACHINES = ("c2558-dut", "c2558-gen", "e5-2650-dut", "e5-2650-gen", "e5-2650-rcv")

Change: TypeAlias = "Callable[[RunningLab, Testbed], Testbed]"


def as_it_is(_: RunningLab, testbed: Testbed) -> Testbed:
    return testbed


def impatient(lab: RunningLab, testbed: Testbed) -> Testbed:
    return lab.testbed(testbed.name, boot_timeout=PATIENCE)


def without_power(_: RunningLab, testbed: Testbed) -> Testbed:
    timing = replace(testbed.timing, boot_timeout=0.2)
    return replace(testbed, power=None, timing=timing)


def with_another_good_kernel(_: RunningLab, testbed: Testbed) -> Testbed:
    return replace(testbed, dut=replace(testbed.dut, known_good="kernel.good"))


def with_an_unknown_port(_: RunningLab, testbed: Testbed) -> Testbed:
    port = replace(testbed.generator.port, interface="igb9", mac="")
    return replace(testbed, generator=replace(testbed.generator, port=port))


def with_partitions_it_has_not(_: RunningLab, testbed: Testbed) -> Testbed:
    layout = NanoBsd(good="A1", test="A2")
    return replace(testbed, dut=replace(testbed.dut, deploy="nanobsd", nanobsd=layout))


def with_a_short_run(_: RunningLab, testbed: Testbed) -> Testbed:
    """Shorter than a lab file may say, as by a pkt-gen that ends before its time."""
    timing = replace(testbed.timing)
    object.__setattr__(timing, "run", 12.0)
    return replace(testbed, timing=timing)


@dataclass(frozen=True)
class Broke:
    """How a fault is made to happen."""

    machine: str = ""
    broken: Broken | None = None
    change: Change = as_it_is
    scenario: str = "inet4-forwarding"
    number: int = 10
    role: str = ""
    """Of the commit, instead of its number."""
    testbed: str = "c2558"


DUT, GENERATOR = "c2558-dut", "c2558-gen"
VISITS = {
    Fault.DEPLOYMENT: Broke(DUT, Broken.LOSES_WRITES, number=45),
    Fault.DISK_FULL: Broke(DUT, Broken.DISK_FULL, number=46),
    Fault.UNFIT: Broke(change=with_partitions_it_has_not),
    Fault.COMMAND: Broke(change=with_an_unknown_port),
    Fault.WRONG_KERNEL: Broke(DUT, Broken.IGNORES_NEXTBOOT),
    Fault.PANIC_AT_BOOT: Broke(role="panic"),
    Fault.DOES_NOT_BOOT: Broke(DUT, Broken.HANGS, impatient),
    Fault.PANIC_UNDER_LOAD: Broke(DUT, Broken.PANICS_UNDER_LOAD),
    Fault.HANG_UNDER_LOAD: Broke(DUT, Broken.HANGS_UNDER_LOAD, impatient),
    Fault.POWER_LOSS: Broke(DUT, Broken.POWER_LOSS),
    Fault.UNREACHABLE: Broke(DUT, Broken.DEAD, impatient),
    Fault.POWER_SWITCH: Broke(DUT, Broken.OFF, without_power),
    Fault.HOST_KEY: Broke(DUT, Broken.NEW_HOST_KEY),
    Fault.NO_GOOD_KERNEL: Broke(change=with_another_good_kernel, role="panic"),
    Fault.SCENARIO: Broke(scenario="broken"),
    Fault.GENERATOR_DIES: Broke("e5-2650-gen", Broken.DIES_UNDER_LOAD, testbed="e5-2650"),
    Fault.RECEIVER_DIES: Broke("e5-2650-rcv", Broken.DIES_UNDER_LOAD, testbed="e5-2650"),
    Fault.PKT_GEN_DIES: Broke(GENERATOR, Broken.PKT_GEN_CRASHES),
    Fault.WRONG_RATE: Broke(GENERATOR, Broken.SLOW_SENDER),
    Fault.NO_LINK: Broke(DUT, Broken.CABLE_OUT),
    Fault.NO_TRAFFIC: Broke(scenario="closed"),
    Fault.LINK_FLAP: Broke(DUT, Broken.LINK_FLAPS),
    Fault.DAMAGED: Broke(DUT, Broken.BAD_CABLE),
    Fault.THROTTLING: Broke(DUT, Broken.THROTTLES),
    Fault.CLOCK_JUMP: Broke(DUT, Broken.CLOCK_JUMPS),
    Fault.OTHER_LOAD: Broke(DUT, Broken.BUSY),
    Fault.SETTINGS: Broke(DUT, Broken.MEDDLER),
    Fault.ODD_RUN: Broke(change=with_a_short_run),
}
"""What happens on a testbed."""
TOOLS = 'for a; do test "$a" = kernel-toolchain && exit 0; done'
"""A make to which the tree's tools are no trouble."""
BUILDS = {
    Fault.CHECKOUT: "",
    Fault.DOES_NOT_BUILD: "echo 'route.c:3: error: no such thing'; exit 1",
    Fault.STALE_BUILD: "exit 0",
    Fault.BUILD_HANGS: "exec sleep 600",
    Fault.BUILDER: "echo 'ld: error: kernel: No space left on device'; exit 1",
}
"""What happens on a build host: what its make does."""
SERVICE = {
    Fault.WORKER_LOST: ("test_quarantine.py", "test_a_worker_that_is_lost_holds_up_no_other"),
    Fault.MASTER_STOPPED: (
        "test_service.py",
        "test_the_culprit_is_named_although_the_master_is_killed",
    ),
    Fault.NO_ANSWER: ("test_conductor.py", "test_what_dies_without_an_answer_is_tried_again"),
    Fault.USAGE: ("test_quarantine.py", "test_another_lab_file_on_a_worker_ends_the_question"),
    Fault.CANCELLED: ("test_conductor.py", "test_what_a_person_cancels_stays_cancelled"),
}
"""What only the service can meet: where its test is."""


def duds(facts: list[Fact]) -> list[Dud]:
    return [fact for fact in facts if isinstance(fact, Dud)]


def valid(facts: list[Fact]) -> list[Sample]:
    return [fact for fact in facts if isinstance(fact, Sample) and fact.valid]


@pytest.fixture
def lab(running_lab: RunningLab) -> Iterator[RunningLab]:
    """The lab for a test that breaks something anywhere; all is mended afterwards."""
    rules = running_lab.scenario("inet4-pf-stateful")
    plain = running_lab.scenario("inet4-forwarding")
    running_lab.scenarios = {
        "broken": replace(rules, name="broken", rules=("passs",)),
        "closed": replace(plain, name="closed", sysctls={"net.inet.ip.forwarding": 0}),
    }
    yield running_lab
    running_lab.scenarios = {}
    mend(running_lab)


def mend(lab: RunningLab) -> None:
    for machine in MACHINES:
        lab.control("mend", machine)
    with Connections(lab.lab.ssh) as connections:
        for name in ("c2558", "e5-2650"):
            Router(lab.lab.testbed(name), connections, lab.said.append).recover()


def visit(lab: RunningLab, how: Broke) -> tuple[bool, list[Fact], Testbed]:
    number = lab.place_of(how.role) if how.role else how.number
    lab.kernel(number)
    testbed = how.change(lab, lab.lab.testbed(how.testbed))
    if how.broken is not None:
        lab.control("break", how.machine, how.broken)
    sound, facts = lab.trial(number, (how.scenario,), testbed)
    return sound, facts, testbed


# --------------------------------------------------------------------------------- the table


def test_every_fault_has_a_rule_and_a_test() -> None:
    """None of them is left to chance."""
    assert set(RULES) == set(Fault)
    assert set(VISITS) | set(BUILDS) | set(SERVICE) == set(Fault)


@pytest.mark.parametrize("fault", SERVICE)
def test_the_tests_elsewhere_are_there(fault: Fault) -> None:
    """By their names."""
    file, name = SERVICE[fault]
    tree = ast.parse((HERE / file).read_text())
    there = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert name in there


def test_the_documented_table_is_the_one_in_code() -> None:
    """docs/lab.md, row by row."""
    page = (HERE.parent / "docs" / "lab.md").read_text()
    body = page.split("\n## What failures ask for\n", 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in row.split(" | ")] for row in body.splitlines()[1:]]

    assert [
        (row[0].removeprefix("| "), *row[1:-1], row[-1].removesuffix(" |")) for row in rows
    ] == [
        (
            f"`{fault}`",
            rule.what,
            rule.stage or "anywhere",
            str(rule.tries),
            rule.reaction,
            rule.advice,
        )
        for fault, rule in RULES.items()
    ]


def test_every_raise_names_its_fault() -> None:
    """`LabFault.of` takes the reaction from the table; nobody decides for himself."""
    unnamed = [
        f"{path.name}:{node.lineno}"
        for path in sorted((HERE.parent / "workers").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id == "LabFault"
    ]

    assert not unnamed


def test_a_reaction_and_a_fault_survive_the_wire() -> None:
    """Also where an older netbisect-lab does not name the fault."""
    dud = Dud("1", "a", Stage.BENCH, Reaction.INFRA, "hot", 1.0, 2.0, fault=Fault.THROTTLING.value)
    assert wire.loads(wire.dumps(dud)) == dud
    old = wire.dumps(replace(dud, fault="")).replace(',"fault":""', "")
    assert "fault" not in old
    assert wire.loads(old).fault == ""
    assert rule_of(wire.loads(old).fault) is None
    assert rule_of(dud.fault) is RULES[Fault.THROTTLING]


def test_of_several_sentences_the_likeliest_cause_names_the_fault() -> None:
    """A pkt-gen that died explains a low rate; heat explains nothing that the generator does."""
    slow = "the generator offered 890,000 pps, less than 99 % of 1,488,095"
    assert fault_of_run([slow, "the generator's pkt-gen crashed"]) is Fault.PKT_GEN_DIES
    assert fault_of_run([slow]) is Fault.WRONG_RATE
    assert fault_of_run(["a sentence that nobody has written yet"]) is Fault.ODD_RUN


# ------------------------------------------------------------------------------- every fault


@pytest.mark.parametrize("fault", VISITS, ids=lambda fault: fault.value)
def test_a_fault_of_the_lab_gets_its_reaction(lab: RunningLab, fault: Fault) -> None:
    """As in the table; no number comes of it, and the machine is home or out of bounds."""
    rule = RULES[fault]
    sound, facts, _ = visit(lab, VISITS[fault])

    found = {dud.fault: dud for dud in duds(facts)}
    assert fault.value in found
    assert found[fault.value].reaction is rule.reaction
    assert rule.stage in (None, found[fault.value].stage)
    assert not valid(facts)
    assert sound == (Reaction.QUARANTINE not in {dud.reaction for dud in duds(facts)})
    runs = [fact for fact in facts if isinstance(fact, Sample)]
    if rule.stage is Stage.BENCH and runs:
        assert len(runs) <= rule.tries
    if sound and fault is not Fault.SCENARIO:
        assert lab.booted(f"{VISITS[fault].testbed}-dut") == "kernel"


@pytest.mark.parametrize("fault", BUILDS, ids=lambda fault: fault.value)
def test_a_fault_of_a_build_gets_its_reaction(
    fault: Fault, sample_tree: Tree, tmp_path: Path
) -> None:
    """As in the table; no kernel comes of it."""
    make = tmp_path / "make.sh"
    make.write_text(f"#!/bin/sh\n{TOOLS}\n{BUILDS[fault]}\n")
    make.chmod(0o755)
    builder = Builder("amd64", "amd64", tmp_path / "builder", make=(str(make),), build_timeout=1)
    gone = tmp_path / "gone.git"
    source = Source(str(gone if fault is Fault.CHECKOUT else sample_tree.repository))
    revision = sample_tree.revisions[4]
    dud = KernelBuild(builder, source, revision, KERNEL_CONFIG, lambda _: None).run()

    assert isinstance(dud, Dud)
    rule = RULES[fault]
    assert (dud.fault, dud.stage, dud.reaction) == (fault.value, rule.stage, rule.reaction)


@pytest.mark.parametrize(
    "said",
    [
        "/tmp/x.s: fatal error: error writing to file: No space left on device",
        "sh: ctfconvert: not found",
        "make[2]: exec(cc): cc: command not found",
        "clang: error: unable to execute command: Killed",
    ],
)
def test_what_the_build_host_lacks_is_not_the_revisions_doing(
    said: str, sample_tree: Tree, tmp_path: Path
) -> None:
    """The line that says so is told."""
    make = tmp_path / "make.sh"
    make.write_text(f"#!/bin/sh\n{TOOLS}\necho '{said}'\necho '*** Error code 1'\nexit 1\n")
    make.chmod(0o755)
    builder = Builder("amd64", "amd64", tmp_path / "builder", make=(str(make),))
    source = Source(str(sample_tree.repository))
    revision = sample_tree.revisions[4]
    dud = KernelBuild(builder, source, revision, KERNEL_CONFIG, lambda _: None).run()

    assert isinstance(dud, Dud)
    assert dud.reaction is Reaction.INFRA
    assert dud.why == f"the build host cannot build it: {said}"


def test_a_header_that_is_not_found_is_the_revisions_doing(
    sample_tree: Tree, tmp_path: Path
) -> None:
    make = tmp_path / "make.sh"
    said = "a.c:1: fatal error: 'b.h' file not found"
    make.write_text(f'#!/bin/sh\n{TOOLS}\necho "{said}"\nexit 1\n')
    make.chmod(0o755)
    builder = Builder("amd64", "amd64", tmp_path / "builder", make=(str(make),))
    source = Source(str(sample_tree.repository))
    revision = sample_tree.revisions[4]
    dud = KernelBuild(builder, source, revision, KERNEL_CONFIG, lambda _: None).run()

    assert isinstance(dud, Dud)
    assert dud.reaction is Reaction.SKIP


# ------------------------------------------------------------------------- what needs more care


def test_a_clock_that_jumps_on_the_worker_gives_no_sample(
    lab: RunningLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of facts are of that clock. Nothing but its reading can be made to jump here."""
    ahead = iter(range(0, 10**9, 1800))
    real = time.time
    monkeypatch.setattr(clocks, "time", _Jumping(lambda: real() + next(ahead)))
    sound, facts = lab.trial(10, FORWARDING)

    assert sound
    assert not valid(facts)
    (dud,) = duds(facts)
    assert dud.fault == Fault.CLOCK_JUMP.value
    assert "the clock of this host jumped by +1800 s during the run" in dud.why


@dataclass
class _Jumping:
    """The time module, with a clock that is set again whenever it is read."""

    time: Callable[[], float]

    @staticmethod
    def monotonic() -> float:
        return time.monotonic()


def test_a_visit_that_was_cut_short_is_ended_before_the_next(lab: RunningLab) -> None:
    """Its worker or master died: nobody knows how it left the router, so it goes home first."""
    kernel, archive = lab.kernel(10)
    with Connections(lab.lab.ssh) as connections:
        router = Router(lab.lab.testbed("c2558"), connections, lab.said.append)
        with router.listening(lab.logs / "console.log"):
            router.boot(kernel, archive)
    before = lab.boots(DUT)
    sound, facts = lab.trial(11, FORWARDING)

    assert sound
    assert len(valid(facts)) == 1
    assert lab.boots(DUT) == before + 2, "by way of the good kernel"
    before = lab.boots(DUT)
    lab.trial(10, FORWARDING)
    assert lab.boots(DUT) == before + 1, "after a visit that has ended there is no need"


def test_a_fault_in_one_scenario_leaves_the_samples_of_the_others(lab: RunningLab) -> None:
    """Also those that are measured after it."""
    sound, facts = lab.trial(10, ("closed", "inet6-forwarding"))

    assert sound
    assert [sample.scenario for sample in valid(facts)] == ["inet6-forwarding"]
    (dud,) = duds(facts)
    assert (dud.scenario, dud.fault) == ("closed", Fault.NO_TRAFFIC.value)


def test_a_clean_disk_is_room_enough(lab: RunningLab) -> None:
    """Test kernels of earlier visits are removed before anybody is called."""
    lab.trial(10, ())
    lab.trial(11, ())
    boot = lab.files.disk(DUT) / "boot"
    assert len(list(boot.glob("kernel.nb-*"))) >= 2
    lab.control("break", DUT, Broken.DISK_FULL)
    sound, facts = lab.trial(47, ())

    assert not sound
    assert duds(facts)[0].fault == Fault.DISK_FULL.value
    left = {path.name for path in boot.glob("kernel.nb-*")}
    running = lab.booted(DUT)
    assert left <= {running}, "all that may go has gone"


# ------------------------------------------------------------------------------- no fault at all

HARMLESS = {Fault.NO_GOOD_KERNEL, Fault.COMMAND, Fault.ODD_RUN, Fault.NO_TRAFFIC, Fault.SCENARIO}
"""Made by the test's own lab file or scenario, and not by a machine."""
AT_RANDOM = [
    one for fault, one in VISITS.items() if one.broken is not None and fault not in HARMLESS
]


@pytest.mark.slow
def test_no_fault_becomes_a_sample_and_none_stops_the_other_testbed(lab: RunningLab) -> None:
    """Faults at random over two testbeds: a visit has a sample exactly where nothing is wrong."""
    luck = random.Random(20)
    for number in range(5):
        one = luck.choice(AT_RANDOM)
        other = "e5-2650" if one.testbed == "c2558" else "c2558"
        sound, facts, _ = visit(lab, one)
        assert not valid(facts), one
        assert duds(facts), one
        assert all(dud.fault for dud in duds(facts)), one

        well, others = lab.trial(10 + number % 3, FORWARDING, lab.lab.testbed(other))
        assert well, one
        assert len(valid(others)) == 1, one
        assert not duds(others), one
        if not sound:
            assert Reaction.QUARANTINE in {dud.reaction for dud in duds(facts)}, one
        mend(lab)
