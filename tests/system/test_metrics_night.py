"""Nights with several metrics, and two commits that change one or two of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from service_fixtures import logged_errors

from netbisect.bisect.model.metric import scenario_of
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.mailbox import read
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.demo.tree import story
from netbisect.demo.tree.story import StoryCommit, append, boring

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("metrics")]

KINDS = ("inet4-cpu", "inet4-ipsec")
CPU_AT, BOTH_AT = 8, 16
TASKS, IPSEC = "sys/kern/subr_taskqueue.c", "sys/netipsec/ipsec_output.c"


def cost(path: str, name: str, place: str, nanoseconds: int) -> story.Edit:
    body = f"\tPATH_COST({place}, {nanoseconds});\n\treturn (0);\n"
    return append(path, f"\nint\n{name}(void)\n{{\n{body}}}\n")


def commits() -> list[StoryCommit]:
    """Costs of single scenarios, a commit that raises one, and one that moves it to another."""
    first = (
        cost(IPSEC, "ipsec_encap", "ipsec", 2500),
        cost(TASKS, "taskqueue_run", "aside", 200),
    )
    moved = (
        cost(IPSEC, "ipsec_inline", "ipsec", 1500),
        story.replace(TASKS, "PATH_COST(aside, 350)", "PATH_COST(aside, 10)"),
    )
    twice = (cost(TASKS, "taskqueue_again", "aside", 350),)
    special = {
        1: StoryCommit("network", "Import IPsec and tasks", first),
        CPU_AT: StoryCommit("vm", "taskqueue: Run tasks twice", twice, role="culprit"),
        BOTH_AT: StoryCommit("network", "ipsec: Encrypt in the interrupt thread", moved),
    }
    return [special.get(number) or boring(number) for number in range(1, BOTH_AT + 4)]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[DemoRun]:
    service = DemoService(tmp_path / "service")
    testbed = replace(TESTBEDS["c2558"], scenarios=KINDS)
    tree = service.build(commits=commits(), seed=3, testbeds=[testbed])
    service.start()
    yield DemoRun(service, tree)
    service.stop()
    assert logged_errors(service.place) == []


def test_each_commit_that_changes_a_metric_has_one_alert(play: DemoRun) -> None:
    """The first commit raises the CPU use, the second one lowers it and slows IPsec."""
    play.night()
    assert play.ledger.alerts.all() == []

    play.tree.land(CPU_AT + 4)
    play.night()
    (alert,) = play.ledger.alerts.all()
    assert alert.culprit == play.tree.revisions[CPU_AT]
    assert alert.lead == "inet4-cpu~cpu.percent.lower"
    measured = {scenario_of(series) for _, series in play.ledger.samples.counts()}
    assert measured == set(KINDS)
    subjects = [str(mail["Subject"]) for mail in read(play.service.mails)]
    assert any("CPU use" in one and "+" in one for one in subjects), subjects

    play.tree.land(BOTH_AT + 4)
    play.night()
    (_, alert) = play.ledger.alerts.all()
    assert alert.culprit == play.tree.revisions[BOTH_AT]
    assert alert.lead == "inet4-ipsec"
    mails = [mail for mail in read(play.service.mails) if "ipsec: Encrypt" in str(mail["Subject"])]
    (text,) = [str(mail.get_payload()) for mail in mails]
    assert re.search(r"^  how much +-[23]\d\.\d % .*, inet4 IPsec gateway", text, re.MULTILINE)
    assert re.search(r"^  but +-2\d\.\d % .*, CPU use", text, re.MULTILINE)
