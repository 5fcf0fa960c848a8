"""Injects every fault in the simulated lab and compares the reaction with the table of faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from _pytest.mark import ParameterSet
from builds import failed, script
from lab_fixtures import RunningLab, failures

from netbisect.bisect.model.entities import Fact, Failure, Reaction, Sample, Stage
from netbisect.bisect.model.faults import RULES, Fault
from netbisect.demo.lab.faults import InjectedFault as Broken
from netbisect.demo.tree.create import SampleTree
from netbisect.workers.config.builder import Builder
from netbisect.workers.config.dut import NanoBsd, PortSelector
from netbisect.workers.dut.ports import PortNotFoundError
from netbisect.workers.measure import trial as trial_module
from netbisect.workers.transport.errors import CommandError, bench_fault, build_fault, lab_fault

if TYPE_CHECKING:  # pytest would collect it
    from netbisect.workers.config.testbed import Testbed


HERE = Path(__file__).parents[3]
FORWARDING = ("inet4-forwarding",)
PATIENCE = 2.0
"""Boot timeout in seconds for expected hangs; a successful boot takes a quarter."""

Change: TypeAlias = "Callable[[RunningLab, Testbed], Testbed]"


def unchanged(_: RunningLab, testbed: Testbed) -> Testbed:
    return testbed


def with_a_short_boot_timeout(lab: RunningLab, testbed: Testbed) -> Testbed:
    return lab.testbed(testbed.name, boot_timeout=PATIENCE)


def without_power(_: RunningLab, testbed: Testbed) -> Testbed:
    timing = replace(testbed.timing, boot_timeout=0.2)
    return replace(testbed, power=None, timing=timing)


def with_another_good_kernel(_: RunningLab, testbed: Testbed) -> Testbed:
    return replace(testbed, dut=replace(testbed.dut, known_good="kernel.good"))


def with_an_unknown_ingress(_: RunningLab, testbed: Testbed) -> Testbed:
    return replace(testbed, dut=replace(testbed.dut, ingress=PortSelector(interface="igb9")))


def with_unknown_partitions(lab: RunningLab, testbed: Testbed) -> Testbed:
    lab.recover("c2558")  # a running test kernel would need gpart
    layout = NanoBsd(good="A1", test="A2")
    return replace(testbed, dut=replace(testbed.dut, deploy="nanobsd", nanobsd=layout))


def with_a_short_run(_: RunningLab, testbed: Testbed) -> Testbed:
    """The run is shorter than a lab file allows, like that of a pkt-gen that ends early."""
    timing = replace(testbed.timing)
    object.__setattr__(timing, "run", 12.0)
    return replace(testbed, timing=timing)


def with_a_short_wait(lab: RunningLab, testbed: Testbed) -> Testbed:
    """A receiver without packets waits until run_timeout."""
    return lab.testbed(testbed.name, run_timeout=60.0)


@dataclass(frozen=True)
class Broke:
    machine: str = ""
    broken: Broken | None = None
    change: Change = unchanged
    scenario: str = "inet4-forwarding"
    number: int = 10
    role: str = ""
    """Role of the commit, instead of its number."""
    testbed: str = "c2558"
    why: tuple[str, ...] = ()
    """Parts of the failure's message, or of the problems of its runs."""
    log: tuple[str, ...] = ()
    """Parts of the log of the failure."""


DUT, GENERATOR = "c2558-dut", "c2558-gen"
TRIALS = {
    Fault.DEPLOYMENT: Broke(DUT, Broken.LOSES_WRITES, number=45, why=("is not what was sent",)),
    Fault.DISK_FULL: Broke(why=("/boot on c2558-dut has 0 MiB free; 1 are needed",)),
    Fault.UNFIT: Broke(change=with_unknown_partitions),
    Fault.COMMAND: Broke(change=with_an_unknown_ingress, why=("c2558-dut: no interface called",)),
    Fault.WRONG_KERNEL: Broke(
        DUT, Broken.IGNORES_NEXTBOOT, why=("the machine came back on kernel, not on kernel.nb-",)
    ),
    Fault.PANIC_AT_BOOT: Broke(
        role="panic",
        why=("panic: mtx_lock() of destroyed mutex @ sys/kern/subr_smp.c:17",),
        log=("KDB: stack backtrace:",),
    ),
    Fault.DOES_NOT_BOOT: Broke(
        DUT,
        Broken.HANGS,
        with_a_short_boot_timeout,
        why=("the kernel hangs: no answer until the power was cycled",),
    ),
    Fault.PANIC_UNDER_LOAD: Broke(
        DUT,
        Broken.PANICS_UNDER_LOAD,
        why=("Fatal trap 12: page fault while in kernel mode in ip_tryforward(), under the load",),
        log=("current process", "ip_tryforward+0x2c4"),
    ),
    Fault.HANG_UNDER_LOAD: Broke(DUT, Broken.HANGS_UNDER_LOAD, with_a_short_boot_timeout),
    Fault.POWER_LOSS: Broke(DUT, Broken.POWER_LOSS),
    Fault.UNREACHABLE: Broke(
        DUT,
        Broken.DEAD,
        with_a_short_boot_timeout,
        why=("c2558-dut does not come back after a power cycle: c2558-dut: ",),
    ),
    Fault.POWER_SWITCH: Broke(
        DUT,
        Broken.OFF,
        without_power,
        why=("c2558-dut does not answer, and the lab file names no power switch",),
    ),
    Fault.HOST_KEY: Broke(
        DUT, Broken.NEW_HOST_KEY, why=("c2558-dut: the host key is not the known one",)
    ),
    Fault.NO_GOOD_KERNEL: Broke(change=with_another_good_kernel, role="panic"),
    Fault.SCENARIO: Broke(scenario="broken", why=("stdin:1: syntax error",)),
    Fault.GENERATOR_DIES: Broke("e5-2650-gen", Broken.DIES_UNDER_LOAD, testbed="e5-2650"),
    Fault.RECEIVER_DIES: Broke("e5-2650-rcv", Broken.DIES_UNDER_LOAD, testbed="e5-2650"),
    Fault.PKT_GEN_DIES: Broke(
        GENERATOR,
        Broken.PKT_GEN_CRASHES,
        why=("the receiver's pkt-gen crashed", "the generator's pkt-gen crashed"),
    ),
    Fault.WRONG_RATE: Broke(GENERATOR, Broken.SLOW_SENDER, why=("less than 99 % of 1,488,095",)),
    Fault.NO_LINK: Broke(
        DUT,
        Broken.CABLE_OUT,
        with_a_short_wait,
        why=("the router's egress (igb3) has no link before the run: no carrier",),
    ),
    Fault.NO_TRAFFIC: Broke(
        change=with_a_short_wait, scenario="closed", why=("the receiver: none of its",)
    ),
    Fault.LINK_FLAP: Broke(
        DUT, Broken.LINK_FLAPS, why=("links went down: c2558-dut igb2 3x, c2558-dut igb3 2x",)
    ),
    Fault.DAMAGED: Broke(DUT, Broken.BAD_CABLE, why=("the router's ingress (igb2) counted ",)),
    Fault.THROTTLING: Broke(
        DUT,
        Broken.THROTTLES,
        why=(
            "the router ran at 1440 MHz of 2401 after the run",
            "the router was throttled for its heat during the run: dev.cpu.0",
            "dev.cpu.3 101 of 100 C",
        ),
    ),
    Fault.CLOCK_JUMP: Broke(DUT, Broken.CLOCK_JUMPS),
    Fault.OTHER_LOAD: Broke(
        DUT,
        Broken.BUSY,
        why=("other programs took 93 % of a processor of the router before the run, cc most",),
    ),
    Fault.SETTINGS: Broke(
        DUT, Broken.MEDDLER, why=("net.inet.ip.redirect changed during the run, from '0' to '1'",)
    ),
    Fault.ODD_RUN: Broke(change=with_a_short_run),
}
"""Faults of a testbed."""
TOOLS = 'for a; do test "$a" = kernel-toolchain && exit 0; done'
"""A replacement of make that skips the toolchain."""
BUILDS = {
    Fault.CHECKOUT: "",
    Fault.DOES_NOT_BUILD: "echo 'route.c:3: error: no such thing'; exit 1",
    Fault.STALE_BUILD: "exit 0",
    Fault.BUILD_HANGS: "exec sleep 600",
    Fault.BUILDER: "echo 'ld: error: kernel: No space left on device'; exit 1",
}
"""Faults of a builder, with the script that replaces make."""
SERVICE = {Fault.WORKER_LOST, Fault.MASTER_STOPPED, Fault.NO_ANSWER, Fault.USAGE, Fault.CANCELLED}
"""Faults of the service, tested in tests/integration/steps/scheduler."""
LONG = {Fault.DOES_NOT_BOOT, Fault.UNREACHABLE, Fault.BUILD_HANGS}


def parameters(faults: Iterable[Fault]) -> list[ParameterSet]:
    return [
        pytest.param(fault, id=fault.value, marks=[pytest.mark.long] * (fault in LONG))
        for fault in faults
    ]


def valid(facts: list[Fact]) -> list[Sample]:
    return [fact for fact in facts if isinstance(fact, Sample) and fact.valid]


@pytest.fixture
def lab(running_lab: RunningLab) -> Iterator[RunningLab]:
    rules = running_lab.scenario("inet4-pf-stateful")
    plain = running_lab.scenario("inet4-forwarding")
    running_lab.scenarios = {
        "broken": replace(rules, name="broken", rules=("passs",)),
        "closed": replace(plain, name="closed", sysctls={"net.inet.ip.forwarding": 0}),
    }
    yield running_lab
    running_lab.scenarios = {}
    running_lab.restore()


def test_every_fault_has_a_rule_and_a_test() -> None:
    assert set(RULES) == set(Fault)
    assert set(TRIALS) | set(BUILDS) | SERVICE == set(Fault)


def test_documentation_lists_the_faults() -> None:
    page = (HERE.parent / "docs" / "faults.md").read_text()
    body = page.split("\n## Reactions\n", 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
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


ON_ONE_BOOT = (
    Fault.PKT_GEN_DIES,
    Fault.WRONG_RATE,
    Fault.DAMAGED,
    Fault.CLOCK_JUMP,
    Fault.OTHER_LOAD,
    Fault.SETTINGS,
    Fault.SCENARIO,
    Fault.THROTTLING,
)
"""Faults that can be mended during a trial; a router is throttled until its next boot."""
SEPARATE = {*ON_ONE_BOOT, Fault.DISK_FULL}
"""Faults with tests of their own."""


def check_reaction(fault: Fault, facts: list[Fact]) -> None:
    rule = RULES[fault]
    found = {failure.fault: failure for failure in failures(facts)}
    assert fault.value in found
    assert found[fault.value].reaction is rule.reaction
    assert rule.stage in (None, found[fault.value].stage)
    runs = [fact for fact in facts if isinstance(fact, Sample)]
    problems = "\n".join([found[fault.value].why, *(one for run in runs for one in run.problems)])
    assert [part for part in TRIALS[fault].why if part not in problems] == []
    assert [part for part in TRIALS[fault].log if part not in found[fault.value].log] == []
    assert not valid(facts)
    if rule.stage is Stage.BENCH and runs:
        assert len(runs) == rule.tries
        assert all(run.received or run.offered for run in runs)


@pytest.mark.parametrize("fault", parameters(one for one in TRIALS if one not in SEPARATE))
def test_lab_fault_gets_its_reaction(lab: RunningLab, fault: Fault) -> None:
    how = TRIALS[fault]
    number = lab.place_of(how.role) if how.role else how.number
    testbed = how.change(lab, lab.lab.testbed(how.testbed))
    lab.kernel(number)
    if how.broken is not None:
        lab.control("break", how.machine, how.broken)
    sound, facts = lab.trial(number, (how.scenario,), testbed)

    check_reaction(fault, facts)
    assert sound == (Reaction.QUARANTINE not in {failure.reaction for failure in failures(facts)})
    if sound:
        assert lab.booted(f"{how.testbed}-dut") == "kernel"


@pytest.mark.long
def test_faults_of_runs_get_their_reactions(lab: RunningLab) -> None:
    """Each occurs in a scenario of its own, and the trial continues with the next scenario."""
    lab.scenarios = {
        fault: replace(lab.scenario(TRIALS[fault].scenario), name=fault.value)
        for fault in ON_ONE_BOOT
    }
    waiting = [TRIALS[fault] for fault in reversed(ON_ONE_BOOT)]

    def break_the_next() -> None:
        lab.mend()
        if waiting:
            how = waiting.pop()
            if how.broken is not None:
                lab.control("break", how.machine, how.broken)

    break_the_next()
    sound, facts = lab.trial(
        10, ON_ONE_BOOT, then=lambda fact: isinstance(fact, Failure) and break_the_next()
    )

    for fault in ON_ONE_BOOT:
        own = (fact for fact in facts if isinstance(fact, Failure | Sample))
        check_reaction(fault, [fact for fact in own if fact.scenario == fault.value])
    assert sound
    assert lab.booted(DUT) == "kernel"


@pytest.mark.parametrize("fault", parameters(BUILDS))
def test_build_fault_gets_its_reaction(
    fault: Fault, sample_tree: SampleTree, tmp_path: Path
) -> None:
    place = tmp_path / "gone.git" if fault is Fault.CHECKOUT else sample_tree.repository
    limit = 3 if fault is Fault.BUILD_HANGS else 600
    make = script(tmp_path / "make.sh", f"{TOOLS}\n{BUILDS[fault]}")
    builder = Builder(
        "amd64", "amd64", tmp_path / "builder", make=(str(make),), build_timeout=limit
    )
    failure = failed(builder, place, sample_tree.revisions[4])

    rule = RULES[fault]
    found = failure.fault, failure.stage, failure.reaction
    assert found == (fault.value, rule.stage, rule.reaction)


def test_missing_resources_are_the_hosts_fault(c2558: RunningLab) -> None:
    for output in (
        "/tmp/x.s: fatal error: error writing to file: No space left on device",
        "sh: ctfconvert: not found",
        "make[2]: exec(cc): cc: command not found",
        "clang: error: unable to execute command: Killed",
    ):
        fault = build_fault(f"cc -c x.c\n{output}\n*** Error code 1", "x.c does not build")
        assert fault.reaction is Reaction.INFRA
        assert fault.why == f"the build host cannot build it: {output}"
    error = CommandError("c2558-dut", "nextboot", 1, "/boot/nextboot.conf: Read-only file system")
    assert lab_fault(Stage.BOOT, error).fault is Fault.UNFIT
    bed = c2558.testbed("c2558")
    both = replace(bed, generator=replace(bed.generators[0], address="c2558-dut"))
    assert bench_fault(error, both).fault is Fault.COMMAND
    apart = replace(bed, receiver=replace(bed.receivers[0], address="receiver"))
    absent = PortNotFoundError("no interface called igb9", "receiver")
    assert bench_fault(absent, apart).fault is Fault.RECEIVER_DIES


def test_clock_jump_on_the_worker_invalidates_the_run(
    lab: RunningLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test replaces the function that reads the clock of the worker."""
    ahead = iter(range(0, 10**9, 1800))
    real = time.time() - time.monotonic()
    monkeypatch.setattr(trial_module, "_offset", lambda: real + next(ahead))
    sound, facts = lab.trial(10, FORWARDING)

    assert sound
    assert not valid(facts)
    (failure,) = failures(facts)
    assert failure.fault == Fault.CLOCK_JUMP.value
    assert "the clock of this host jumped by +1800 s during the run" in failure.why


@pytest.mark.parametrize("fault", [Fault.PANIC_UNDER_LOAD, Fault.HANG_UNDER_LOAD])
def test_kernel_that_ends_before_a_command_of_its_scenario_is_blamed(
    lab: RunningLab, fault: Fault
) -> None:
    how = TRIALS[fault]
    testbed = how.change(lab, lab.lab.testbed("c2558"))
    lab.kernel(10)
    lab.control("break", DUT, str(how.broken))
    _, facts = lab.trial(10, ("inet4-cpu",), testbed)
    check_reaction(fault, facts)


def test_interrupted_trial_is_followed_by_recovery(lab: RunningLab) -> None:
    kernel, archive = lab.kernel(10)
    router = lab.device(lab.lab.testbed("c2558"))
    with router.recording_console(lab.logs / "console.log"):
        router.boot(kernel, archive)
    before = lab.boots(DUT)
    sound, facts = lab.trial(11, FORWARDING)

    assert sound
    assert len(valid(facts)) == 1
    assert lab.boots(DUT) == before + 2, "the known-good kernel is booted first"
    before = lab.boots(DUT)
    lab.trial(10, FORWARDING)
    assert lab.boots(DUT) == before + 1, "a completed trial needs no recovery"


def test_old_kernels_are_removed_before_disk_full(lab: RunningLab) -> None:
    lab.trial(10, ())
    lab.trial(11, ())
    boot = lab.files.disk(DUT) / "boot"
    assert len(list(boot.glob("kernel.nb-*"))) >= 2
    lab.control("break", DUT, Broken.DISK_FULL)
    sound, facts = lab.trial(46, FORWARDING)

    assert not sound
    check_reaction(Fault.DISK_FULL, facts)
    left = {path.name for path in boot.glob("kernel.nb-*")}
    running = lab.booted(DUT)
    assert left <= {running}, "other kernels remain"
