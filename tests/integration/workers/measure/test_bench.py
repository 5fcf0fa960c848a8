"""Runs of scenarios on a booted router: settings, firewalls and conditions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab_fixtures import BY_HAND, RunningLab

from netbisect.bisect.model.entities import Failure, Sample
from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.scenario import Scenario, load_scenario
from netbisect.workers.dut import firewall
from netbisect.workers.transport.errors import LabFault

if TYPE_CHECKING:  # pytest would collect it
    from netbisect.workers.config.testbed import Testbed


FORWARDING = load_scenario("inet4-forwarding")


def measure(
    lab: RunningLab, logs: Path, *scenarios: Scenario, testbed: Testbed | None = None
) -> list[Sample]:
    with lab.bench(logs, testbed or "c2558") as bench:
        return [bench.measure(scenario, BY_HAND)[0][1] for scenario in scenarios]


def settings(logs: Path, scenario: str = "inet4-forwarding") -> dict[str, str]:
    """The settings of the router before the packets of a run."""
    seen = json.loads((logs / f"{scenario}.observed.json").read_text())
    found: dict[str, str] = seen["before"]["settings"]
    return found


def test_flows_on_one_queue_are_a_warning_of_the_sample(c2558: RunningLab, tmp_path: Path) -> None:
    """The sample is valid, also with two bound threads; the counters of the queues are logged."""
    c2558.control("break", "c2558-dut", "one-queue")
    testbed = c2558.lab.testbed("c2558")
    generator = replace(testbed.generators[0], threads=2, first_cpu=2)
    testbed = replace(testbed, generator=generator)
    (sample,) = measure(c2558, tmp_path, FORWARDING, testbed=testbed)
    seen = json.loads((tmp_path / "inet4-forwarding.observed.json").read_text())
    egress = seen["during"]["c2558-dut"]["ports"]

    assert sample.valid, sample.problems
    (warning,) = sample.warnings
    assert warning == (
        "flows meet on one queue: 100 % of the packets of the router's egress (igb3) "
        "went through tx 0 of 4 queues"
    )
    assert egress["the router's egress"]["queues"].keys() == {"tx 0"}


def test_sysctls_and_modules_of_a_scenario_do_not_outlast_it(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    """Unknown optional sysctls are ignored; an unknown required one skips the revision."""
    dut = "c2558-dut"
    names = ("inet4-pf-stateful", "inet4-ipfw-stateful", "inet4-forwarding", "tcp-one-flow")
    *_, sample, tcp = measure(running_lab, tmp_path, *map(load_scenario, names))
    assert sample.problems + tcp.problems == ()
    loaded = [settings(tmp_path, name)["the list of loaded modules"] for name in names]
    assert loaded == ["kernel pf.ko", "ipfw.ko kernel", "kernel", "kernel"]
    during = settings(tmp_path)
    assert (during["dev.igb.2.fc"], during["kern.random.harvest.mask"]) == ("0", "351")
    assert running_lab.ssh(dut, "sysctl -n dev.igb.2.fc kern.random.harvest.mask") == "3\n511\n"
    running_lab.ssh(dut, "sysctl net.inet.ip.fastforwarding", status=1)

    old = replace(FORWARDING, sysctls={"net.inet.ip.fastforwarding": 1}, optional={})
    with pytest.raises(LabFault, match="unknown oid 'net"):
        measure(running_lab, tmp_path, old)


def test_full_disk_of_this_host_ends_logs_and_not_the_run(
    c2558: RunningLab, tmp_path: Path
) -> None:
    for kind in ("observed", "measure"):
        (tmp_path / f"inet4-cpu.{kind}.json").symlink_to("/dev/full")
    found = c2558.measure(tmp_path, load_scenario("inet4-cpu"))
    assert all(sample.valid for sample in found.values()), found


@pytest.fixture
def renamed(c2558: RunningLab) -> Iterator[RunningLab]:
    """The lab with a router whose test kernels rename its ports; it is recovered afterwards."""
    c2558.control("break", "c2558-dut", "renamed-ports")
    yield c2558
    c2558.recover("c2558")


def test_kernel_with_renamed_ports_is_measured(renamed: RunningLab) -> None:
    c2558 = renamed
    testbed = c2558.lab.testbed("c2558")
    ends = PortSelector(pci="pci0:2:0:0"), PortSelector(pci="pci0:3:0:0")
    testbed = replace(testbed, dut=replace(testbed.dut, ingress=ends[0], egress=ends[1]))
    sound, facts = c2558.trial(12, ("inet4-forwarding", "inet4-pf-stateful"), testbed)
    measured = [fact for fact in facts if isinstance(fact, Sample)]
    assert sound
    assert not [fact for fact in facts if isinstance(fact, Failure)]
    assert "em0: flags" in c2558.ssh("c2558-dut", "ifconfig -a")
    assert [sample.valid for sample in measured] == [True, True]
    assert settings(c2558.logs)["dev.em.1.fc"] == "0"


def conditions(lab: RunningLab, logs: Path, scenario: Scenario = FORWARDING) -> dict[str, str]:
    with lab.bench(logs) as bench:
        return bench.measure(scenario, BY_HAND)[0][0].values


def test_tunables_and_pkt_gen_are_conditions_but_titles_are_not(
    c2558: RunningLab, tmp_path: Path
) -> None:
    before = conditions(c2558, tmp_path)
    place = "/usr/local/bin/pkt-gen"
    program = c2558.files.disk("c2558-gen") / place[1:]
    program.write_text("another version")
    c2558.ssh("c2558-dut", "kenv hw.igb.num_queues=2")
    try:
        after = conditions(c2558, tmp_path, replace(FORWARDING, title="Another title"))
    finally:
        program.write_text("")
        c2558.control("cycle", "c2558-dut")
        c2558.device(c2558.lab.testbed("c2558")).reach()
    ends = [f"pkt-gen of the {end}" for end in ("generator", "receiver")]
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {
        "hw.igb.num_queues",
        *ends,
    }
    assert [after[name] for name in ends] == 2 * [sha256(b"another version").hexdigest()[:16]]
    assert "net.inet.ip.fw.default_to_accept" not in after


@pytest.mark.long
def test_unknown_option_of_pkt_gen_is_a_problem_of_the_run(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    """pkt-gen exits with status 255, like ssh(1) after a lost connection."""
    traffic = replace(FORWARDING.traffic, checksums=True)
    (sample,) = measure(running_lab, tmp_path, replace(FORWARDING, traffic=traffic))
    assert "the generator's pkt-gen says: pkt-gen: illegal option -- U" in sample.problems


class Recorder:
    """A machine that records its commands and returns given outputs."""

    address = "dut"

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.commands: list[list[str]] = []

    def ask(self, *commands: list[str]) -> list[str]:
        self.commands += commands
        return [self.answers.pop(0) if self.answers else "" for _ in commands]

    def run(self, *commands: list[str], stdin: bytes | None = None) -> str:
        self.commands += commands
        return ""


def test_modules_on_top_of_a_firewall_are_unloaded_before_it() -> None:
    """A firewall that was only loaded for modules goes with them; ipdivert has to be forced.

    One that is built into the kernel cannot be unloaded: it is switched off and flushed.
    """
    head = "Id Refs Address Size Name\n 1 4 0xf 1 kernel"
    rows = [f"\n 1 1 0xf 1 {name}.ko" for name in ("ipfw", "ipdivert", "dummynet")]
    for left, last in ((rows[0], [["ipfw"]]), ("", [])):
        machine = Recorder([head + "".join(rows), "", "ipfw", "", "", head + left])
        firewall.switch_off(machine)  # type: ignore[arg-type]
        unloaded = [command[1:] for command in machine.commands if command[0] == "kldunload"]
        assert unloaded == [["-f", "dummynet"], ["-f", "ipdivert"], *last]
    machine = Recorder([head, "Id Refs Name\n 9 1 pf\n", ""])
    firewall.switch_off(machine)  # type: ignore[arg-type]
    assert machine.commands[3:] == [["pfctl", "-q", "-d"], ["pfctl", "-q", "-F", "all"]]
