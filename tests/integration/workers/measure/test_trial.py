"""A visit over real SSH: what is measured, and what is caught before it can be a wrong number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netbisect.bisect.model.entities import (
    Boot,
    Conditions,
    Fact,
    Failure,
    Reaction,
    Sample,
    Stage,
)
from netbisect.workers.config.lab import Ssh
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.transport.ssh import Connections

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

FORWARDING = ("inet4-forwarding",)
PATIENCE = 1.0
"""Seconds for a boot, where one is expected to hang; a good one takes a quarter."""


def failures(facts: list[Fact]) -> list[Failure]:
    return [fact for fact in facts if isinstance(fact, Failure)]


def samples(facts: list[Fact]) -> list[Sample]:
    return [fact for fact in facts if isinstance(fact, Sample)]


def only_dud(facts: list[Fact]) -> Failure:
    (failure,) = facts
    assert isinstance(failure, Failure), failure
    return failure


@pytest.fixture
def router(c2558: RunningLab) -> Iterator[DeviceUnderTest]:
    with Connections(c2558.lab.ssh) as connections:
        yield DeviceUnderTest(c2558.lab.testbed("c2558"), connections, c2558.said.append)


# ------------------------------------------------------------------------------- good visits


@pytest.fixture(scope="module")
def trial(running_lab: RunningLab) -> list[Fact]:
    """What a good visit with every scenario of the testbed tells."""
    running_lab.bring_home()
    before = running_lab.boots("c2558-dut")
    sound, facts = running_lab.trial(10, running_lab.lab.testbed("c2558").scenarios)
    assert sound
    assert running_lab.boots("c2558-dut") == before + 1
    return facts


def test_trial_boots_once_and_runs_every_scenario(
    running_lab: RunningLab, trial: list[Fact]
) -> None:
    """Facts come in order: the boot, then conditions and sample of each scenario."""
    assert [type(fact) for fact in trial] == [Boot, *4 * [Conditions, Sample]]
    boot = trial[0]
    assert isinstance(boot, Boot)
    kernel, _ = running_lab.kernel(10)
    assert (boot.kernel, boot.revision, boot.testbed) == (kernel.key, kernel.revision, "c2558")
    measured = samples(trial)
    scenarios = running_lab.lab.testbed("c2558").scenarios
    assert [sample.scenario for sample in measured] == list(scenarios)
    conditions = {fact.scenario: fact for fact in trial if isinstance(fact, Conditions)}
    assert len({fact.digest for fact in conditions.values()}) == 4
    for sample in measured:
        assert sample.valid
        assert sample.boot == boot.id
        assert sample.conditions == conditions[sample.scenario].digest
        assert len(sample.received) >= 30
        assert sample.pps < sample.offered_pps


def test_runs_share_one_boot(running_lab: RunningLab) -> None:
    """Each is a sample of its own; scenarios take turns, and no run's log is lost."""
    names = ("inet4-forwarding", "inet6-forwarding")
    running_lab.bring_home()
    before = running_lab.boots("c2558-dut")
    sound, facts = running_lab.trial(10, names, runs=2)
    measured = samples(facts)

    assert sound
    assert running_lab.boots("c2558-dut") == before + 1
    assert [sample.scenario for sample in measured] == [*names, *names]
    assert len({sample.boot for sample in measured}) == 1
    assert all(sample.valid for sample in measured)
    assert len({sample.id for sample in measured}) == 4
    logs = {path.name for path in running_lab.logs.iterdir()}
    assert {"inet4-forwarding.receiver", "inet4-forwarding.2.receiver"} <= logs


def test_rates_match_the_simulated_costs(trial: list[Fact]) -> None:
    """Nanoseconds of igb, ether, mbuf, route, ip and firewall: 1.037 of the machine's each.

    Image and boot have a few percent of luck of their own.
    """
    costs = {
        "inet4-forwarding": 1023,
        "inet6-forwarding": 1097,
        "inet4-pf-stateful": 1646,
        "inet4-ipfw-stateful": 1569,
    }
    for sample in samples(trial):
        assert sample.pps == pytest.approx(1e9 / (costs[sample.scenario] * 1.037), rel=0.06)


def test_culprit_is_slower_than_its_parent(running_lab: RunningLab) -> None:
    """By 23 %, plus or minus the noise of two boots."""
    culprit = running_lab.place_of("culprit")
    parent, child = (
        samples(running_lab.trial(number, FORWARDING)[1])[0].pps
        for number in (culprit - 1, culprit)
    )
    assert 0.68 < child / parent < 0.86


def test_generator_and_receiver_on_two_hosts(running_lab: RunningLab) -> None:
    sound, facts = running_lab.trial(10, FORWARDING, running_lab.lab.testbed("e5-2650"))
    (sample,) = samples(facts)
    assert sound
    assert sample.valid
    assert sample.pps == pytest.approx(1e9 / (962 * 0.178), rel=0.15)


def test_trial_unloads_firewalls(running_lab: RunningLab) -> None:
    running_lab.trial(10, ("inet4-ipfw-stateful", "inet4-pf-stateful"))
    assert running_lab.ssh("c2558-dut", "kldstat").count(".ko") == 0


def test_kept_kernels_limits_test_kernels(running_lab: RunningLab) -> None:
    for number in (11, 40, 41):
        running_lab.trial(number, ())
    names = running_lab.ssh("c2558-dut", "ls -1 /boot").split()
    assert len([name for name in names if name.startswith("kernel.nb-")]) == 3
    assert "kernel" in names


def test_deployed_kernel_is_not_sent_again(c2558: RunningLab) -> None:
    """The disk is full, and no matter."""
    c2558.trial(10, ())
    c2558.control("break", "c2558-dut", "disk-full")
    sound, facts = c2558.trial(10, ())
    assert sound
    assert failures(facts) == []


# ------------------------------------------------- kernels that are not what was to be measured


def test_modified_kernel_is_sent_again(c2558: RunningLab, router: DeviceUnderTest) -> None:
    """What is installed is compared with what was built, byte for byte, before every boot."""
    c2558.trial(11, ())
    kernel, archive = c2558.kernel(11)
    there = c2558.files.disk("c2558-dut") / "boot" / f"kernel.nb-{kernel.key[:12]}" / "kernel"
    original = there.read_bytes()
    there.write_bytes((c2558.files.disk("c2558-dut") / "boot/kernel/kernel").read_bytes())
    boot = router.boot(kernel, archive)
    assert boot.kernel == kernel.key
    assert there.read_bytes() == original
    assert kernel.version in c2558.ssh("c2558-dut", "uname -v")


def test_stale_kernel_is_detected_by_its_version(c2558: RunningLab) -> None:
    """A loader that serves the file of the last boot: folder and order are right, it is not."""
    c2558.trial(40, ())
    kernel, _ = c2558.kernel(40)
    c2558.control("break", "c2558-dut", "stale-loader")
    sound, facts = c2558.trial(41, FORWARDING)
    failure = only_dud(facts)
    assert sound
    assert (failure.stage, failure.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert failure.why == (
        f"the running kernel says 'FreeBSD 15.0-CURRENT {kernel.version} GENERIC-NODEBUG', "
        f"which is not {c2558.kernel(41)[0].version}: a stale or foreign kernel"
    )


def test_loader_fallback_is_detected(c2558: RunningLab) -> None:
    """Here the order does arrive in the environment of the wrong kernel."""
    c2558.control("break", "c2558-dut", "falls-back")
    _, facts = c2558.trial(41, FORWARDING)
    folder = f"kernel.nb-{c2558.kernel(41)[0].key[:12]}"
    assert only_dud(facts).why == (
        f"the running kernel is /boot/kernel/kernel, expected /boot/{folder}/kernel"
    )


# ---------------------------------------------------------------- kernels that do not stay up


def test_panic_without_console_is_a_wrong_kernel(c2558: RunningLab) -> None:
    testbed = replace(c2558.lab.testbed("c2558"), console=None)
    number = c2558.place_of("panic")
    _, facts = c2558.trial(number, FORWARDING, testbed)
    folder = f"kernel.nb-{c2558.kernel(number)[0].key[:12]}"
    assert only_dud(facts).why == f"the machine came back on kernel, not on {folder}"


def test_panic_under_load_ends_the_trial(c2558: RunningLab) -> None:
    """It is a finding about that scenario; the others are not measured on the good kernel."""
    c2558.control("break", "c2558-dut", "panics-under-load")
    sound, facts = c2558.trial(10, ("inet4-forwarding", "inet6-forwarding"))
    boot, failure = facts
    assert sound
    assert isinstance(boot, Boot)
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.reaction) == (Stage.BOOT, Reaction.SKIP)
    assert failure.scenario == "inet4-forwarding"
    assert failure.why == (
        "Fatal trap 12: page fault while in kernel mode in ip_tryforward(), "
        "under the load of this scenario"
    )
    assert "current process" in failure.log
    assert "ip_tryforward+0x2c4" in failure.log
    assert c2558.booted("c2558-dut") == "kernel"


# ------------------------------------------------------------------- machines to be looked after


def test_router_is_switched_on(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "off")
    sound, facts = c2558.trial(10, (), c2558.testbed("c2558", boot_timeout=PATIENCE))
    assert sound
    assert failures(facts) == []
    assert c2558.said[1:3] == [
        "c2558: no answer for 1 s; power cycle",
        "c2558: back on kernel",
    ]


def test_booting_router_is_awaited(c2558: RunningLab) -> None:
    """Its power is not touched: what it is doing may be a dump of the last panic."""
    c2558.ssh("c2558-dut", "shutdown -r now")
    testbed = replace(c2558.lab.testbed("c2558"), power=None)
    sound, _ = c2558.trial(10, (), testbed)
    assert sound


def test_failed_power_switch_quarantines_the_testbed(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "off")
    testbed = c2558.testbed("c2558", boot_timeout=0.2)
    assert testbed.power is not None
    cycle = (*testbed.power.cycle[:-1], "no-such-machine")
    testbed = replace(testbed, power=replace(testbed.power, cycle=cycle))
    _, facts = c2558.trial(10, FORWARDING, testbed)
    failure = only_dud(facts)
    assert failure.reaction is Reaction.QUARANTINE
    assert re.match(
        "the power switch of c2558 failed: exit status 1: no such machine: no-such-m", failure.why
    )


# --------------------------------------------------------------------------- runs gone wrong


def test_unreachable_generator_is_an_infrastructure_fault(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-gen", "off")
    sound, facts = c2558.trial(10, FORWARDING)
    (failure,) = failures(facts)
    assert sound
    assert (failure.stage, failure.reaction, failure.scenario) == (
        Stage.BENCH,
        Reaction.INFRA,
        "inet4-forwarding",
    )
    assert "c2558-gen" in failure.why
    assert "Connection refused" in failure.why


def test_failed_module_skips_only_its_scenario(c2558: RunningLab, tmp_path: Path) -> None:
    """Rules that the kernel's own firewall refuses are the revision's business."""
    rules = c2558.scenario("inet4-pf-stateful")
    broken = replace(rules, name="broken", rules=("passs",))
    c2558.scenarios = {"broken": broken}
    try:
        sound, facts = c2558.trial(10, ("broken", "inet4-forwarding"))
    finally:
        c2558.scenarios = {}
    (failure,) = failures(facts)
    assert sound
    assert (failure.stage, failure.reaction, failure.scenario) == (
        Stage.BENCH,
        Reaction.SKIP,
        "broken",
    )
    assert "stdin:1: syntax error" in failure.why
    assert [sample.valid for sample in samples(facts)] == [True]


# -------------------------------------------------------------------------------- recovering


def test_recover_boots_the_known_good_kernel(c2558: RunningLab, router: DeviceUnderTest) -> None:
    c2558.trial(10, ())
    assert c2558.booted("c2558-dut") != "kernel"
    assert router.recover().directory == "kernel"
    before = c2558.boots("c2558-dut")
    assert router.recover().directory == "kernel"
    assert c2558.boots("c2558-dut") == before, "there is nothing to do"


def test_recover_cancels_a_pending_order(c2558: RunningLab, router: DeviceUnderTest) -> None:
    """A worker that died between the order and the reboot leaves no surprise behind."""
    router.recover()
    c2558.ssh("c2558-dut", "nextboot -e a=b -k kernel")
    router.recover()
    assert "nextboot.conf" not in c2558.ssh("c2558-dut", "ls -1 /boot")


# ------------------------------------------------------------------------------- connections


def test_unknown_host_is_unreachable(running_lab: RunningLab) -> None:
    """Nothing asks for a password or a name; it fails at once."""
    testbed = running_lab.testbed("c2558", boot_timeout=0.1)
    testbed = replace(testbed, dut=replace(testbed.dut, address="nobody.invalid"), power=None)
    sound, facts = running_lab.trial(10, (), testbed)
    assert not sound
    assert only_dud(facts).why == (
        "nobody.invalid does not answer, and the lab file names no power switch"
    )


def test_connections_are_closed(running_lab: RunningLab) -> None:
    with Connections(Ssh(running_lab.files.ssh_config)) as connections:
        machine = connections.machine("c2558-dut")
        machine.run(["uname", "-v"])
        sockets = connections._sockets
        assert machine._socket.parent == sockets
        assert machine._socket.exists()
    assert not sockets.exists()
