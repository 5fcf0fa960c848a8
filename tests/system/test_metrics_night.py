"""Nights with several metrics, and a commit that changes two of them."""

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
CULPRIT_AT = 8
TASKS, IPSEC = "sys/kern/subr_taskqueue.c", "sys/netipsec/ipsec_output.c"


def cost(path: str, name: str, place: str, nanoseconds: int) -> story.Edit:
    body = f"\tPATH_COST({place}, {nanoseconds});\n\treturn (0);\n"
    return append(path, f"\nint\n{name}(void)\n{{\n{body}}}\n")


def commits() -> list[StoryCommit]:
    """Costs of single scenarios, and a commit that moves one to the other."""
    first = (cost(IPSEC, "ipsec_encap", "ipsec", 2500), cost(TASKS, "taskqueue_run", "aside", 200))
    moved = (
        story.replace(IPSEC, "PATH_COST(ipsec, 2500)", "PATH_COST(ipsec, 1000)"),
        cost(TASKS, "taskqueue_encap", "aside", 350),
    )
    special = {
        1: StoryCommit("network", "Import IPsec and tasks", first),
        CULPRIT_AT: StoryCommit("vm", "ipsec: Encrypt in tasks", moved, role="culprit"),
    }
    return [special.get(number) or boring(number) for number in range(1, CULPRIT_AT + 7)]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[DemoRun]:
    service = DemoService(tmp_path / "service")
    testbed = replace(TESTBEDS["c2558"], scenarios=KINDS)
    tree = service.build(commits=commits(), seed=3, testbeds=[testbed])
    service.start()
    yield DemoRun(service, tree)
    service.stop()
    assert logged_errors(service.place) == []


def test_commit_that_changes_two_metrics_has_one_alert(play: DemoRun) -> None:
    """The commit raises the CPU use, and makes IPsec faster; a later night has no alert."""
    play.night()
    assert play.ledger.alerts.all() == []

    play.tree.land(CULPRIT_AT + 4)
    play.night()
    (alert,) = play.ledger.alerts.all()
    assert alert.culprit == play.tree.revisions[CULPRIT_AT]
    assert alert.lead == "inet4-cpu~cpu.percent.lower"
    measured = {scenario_of(series) for _, series in play.ledger.samples.counts()}
    assert measured == set(KINDS)
    subjects = [str(mail["Subject"]) for mail in read(play.service.mails)]
    assert any("CPU use" in one and "+" in one for one in subjects), subjects
    mails = [mail for mail in read(play.service.mails) if "ipsec: Encrypt" in str(mail["Subject"])]
    (text,) = [str(mail.get_payload()) for mail in mails]
    assert re.search(r"^  how much +[+]\d\d\.\d % .*, CPU use", text, re.MULTILINE), text
    assert re.search(r"^  but +[+]\d\d\.\d % .*, inet4 IPsec gateway", text, re.MULTILINE), text

    play.tree.land(len(play.tree.revisions))
    play.night()
    assert [one.id for one in play.ledger.alerts.all()] == [alert.id]
