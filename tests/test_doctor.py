"""The look at every machine of the lab: what is in order and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netbisect.workers.doctor import Check, examine
from netbisect.workers.lab import Console, Lab, Port, Power, Source
from netbisect.workers.ssh import Connections

if TYPE_CHECKING:
    from netbisect.workers.lab import Testbed
    from tests.lab_fixtures import RunningLab


def checks(lab: Lab) -> dict[tuple[str, str], Check]:
    with Connections(lab.ssh) as connections:
        return {(check.where, check.what): check for check in examine(lab, connections)}


def test_a_sound_lab_is_found_sound(running_lab: RunningLab) -> None:
    """Tree, builder, and of each testbed the router, four ports, power switch and console."""
    found = checks(running_lab.lab)
    assert [key for key, check in found.items() if not check.good] == []
    assert list(found)[:2] == [("source", "branches"), ("amd64", "make")]
    assert [what for where, what in found if where == "e5-2650"] == [
        "dut e5-2650-dut",
        "ingress e5-2650-dut",
        "egress e5-2650-dut",
        "generator e5-2650-gen",
        "receiver e5-2650-rcv",
        "power",
        "console",
    ]
    assert found["source", "branches"].found == "main"
    assert found["c2558", "receiver c2558-gen"].found == "igb3 00:1b:21:c4:95:7b active"


def test_looking_changes_nothing(running_lab: RunningLab) -> None:
    before = running_lab.boots("c2558-dut"), running_lab.ssh("c2558-dut", "kenv")
    checks(running_lab.lab)
    assert (running_lab.boots("c2558-dut"), running_lab.ssh("c2558-dut", "kenv")) == before


def changed(change: Callable[[Lab], Lab], lab: Lab, where: str, what: str) -> Check:
    check = checks(change(replace(lab, testbeds=lab.testbeds[:1])))[where, what]
    assert not check.good
    return check


@pytest.mark.parametrize(
    ("change", "what", "said"),
    [
        (
            lambda bed: replace(bed, dut=replace(bed.dut, ingress=Port(interface="ix7"))),
            "ingress c2558-dut",
            "no interface called ix7; there is igb2 00:08:a2:09:33:da, igb3 ",
        ),
        (lambda bed: replace(bed, power=None), "power", "the lab file names no switch"),
        (lambda bed: replace(bed, console=None), "console", "the lab file names no console"),
        (
            lambda bed: replace(bed, power=Power(("ipmi-of-nowhere", "cycle"))),
            "power",
            "no ipmi-of-nowhere on this host",
        ),
        (
            lambda bed: replace(bed, console=Console(("conserver-of-nowhere",))),
            "console",
            "no conserver-of-nowhere on this host",
        ),
    ],
    ids=["port", "no switch", "no console", "no ipmi", "no conserver"],
)
def test_what_a_testbed_lacks_is_told(
    running_lab: RunningLab, change: Callable[[Testbed], Testbed], what: str, said: str
) -> None:
    def of_lab(lab: Lab) -> Lab:
        return replace(lab, testbeds=tuple(change(bed) for bed in lab.testbeds))

    assert changed(of_lab, running_lab.lab, "c2558", what).found.startswith(said)


def test_a_machine_that_is_down_is_told_and_the_others_are_looked_at(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "off")
    found = checks(replace(c2558.lab, testbeds=c2558.lab.testbeds[:1]))
    bad = [what for (_, what), check in found.items() if not check.good]
    assert bad == ["dut c2558-dut", "ingress c2558-dut", "egress c2558-dut"]
    assert "Connection refused" in found["c2558", "dut c2558-dut"].found


def test_a_port_without_a_link_is_told(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-gen", "cable-out")
    found = checks(replace(c2558.lab, testbeds=c2558.lab.testbeds[:1]))
    check = found["c2558", "generator c2558-gen"]
    assert (check.good, check.found) == (False, "igb2 00:1b:21:c4:95:7a no carrier")


def test_another_host_key_is_told(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-gen", "new-host-key")
    found = checks(replace(c2558.lab, testbeds=c2558.lab.testbeds[:1]))
    assert found["c2558", "receiver c2558-gen"].found == (
        "c2558-gen: the host key is not the known one"
    )


def test_a_tree_that_is_not_there_is_told(running_lab: RunningLab, tmp_path: Path) -> None:
    def without_tree(lab: Lab) -> Lab:
        return replace(lab, source=Source(str(tmp_path / "none.git")))

    check = changed(without_tree, running_lab.lab, "source", "repository")
    assert "none.git" in check.found


def test_a_builder_without_its_make_is_told(running_lab: RunningLab) -> None:
    def without_make(lab: Lab) -> Lab:
        return replace(lab, builders=(replace(lab.builders[0], make=("bmake-of-nowhere",)),))

    check = changed(without_make, running_lab.lab, "amd64", "make")
    assert check.found == "no bmake-of-nowhere on this host"


def test_a_builder_without_its_cross_compiler_is_told(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    """The make of such a builder is in the tree."""

    def crossed(lab: Lab) -> Lab:
        return replace(lab, builders=(replace(lab.builders[0], cross_bindir=tmp_path),))

    check = changed(crossed, running_lab.lab, "amd64", "compiler")
    assert check.found == f"no {tmp_path / 'clang'} on this host"
