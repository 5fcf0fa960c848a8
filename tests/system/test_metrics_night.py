"""Nights with several metrics, and commits that change one or two of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from netbisect.bisect.model.metric import scenario_of
from netbisect.demo.lab.testbeds import TESTBEDS
from netbisect.demo.mailbox import read
from netbisect.demo.play import DemoRun
from netbisect.demo.service import DemoService
from netbisect.demo.tree import story
from netbisect.demo.tree.story import StoryCommit, append, boring

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("metrics")]

KINDS = ("inet4-forwarding", "inet4-cpu", "inet4-ipsec", "tcp-one-flow")
CPU_AT = 8
BOTH_AT = 8


def cost(path: str, name: str, place: str, nanoseconds: int) -> story.Edit:
    body = f"\tPATH_COST({place}, {nanoseconds});\n\treturn (0);\n"
    return append(path, f"\nint\n{name}(void)\n{{\n{body}}}\n")


def commits() -> list[StoryCommit]:
    """Costs of single scenarios, and a commit that raises one of them."""
    tcp = cost("sys/netinet/tcp_input.c", "tcp_input", "tcp", 5000)
    ipsec = cost("sys/netipsec/ipsec_output.c", "ipsec_encap", "ipsec", 2500)
    aside = cost("sys/kern/subr_taskqueue.c", "taskqueue_run", "aside", 100)
    special = {
        1: StoryCommit("network", "Import TCP, IPsec and tasks", (tcp, ipsec, aside)),
        CPU_AT: StoryCommit(
            "vm",
            "taskqueue: Run tasks twice",
            (cost("sys/kern/subr_taskqueue.c", "taskqueue_again", "aside", 250),),
            role="culprit",
        ),
    }
    return [special.get(number) or boring(number) for number in range(1, CPU_AT + 4)]


def two_effects() -> list[StoryCommit]:
    """A commit that slows IPsec and lowers the CPU use of forwarding."""
    path = "sys/kern/subr_taskqueue.c"
    ipsec = cost("sys/netipsec/ipsec_output.c", "ipsec_encap", "ipsec", 2500)
    special = {
        1: StoryCommit(
            "network", "Import IPsec and tasks", (ipsec, cost(path, "taskqueue_run", "aside", 500))
        ),
        BOTH_AT: StoryCommit(
            "network",
            "ipsec: Encrypt in the interrupt thread",
            (
                cost("sys/netipsec/ipsec_output.c", "ipsec_inline", "ipsec", 1500),
                story.replace(path, "PATH_COST(aside, 500)", "PATH_COST(aside, 100)"),
            ),
            role="culprit",
        ),
    }
    return [special.get(number) or boring(number) for number in range(1, BOTH_AT + 4)]


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DemoRun]:
    """A service with a story of commits and scenarios."""
    commits, kinds = request.param
    service = DemoService(tmp_path / "service")
    testbed = replace(TESTBEDS["c2558"], scenarios=kinds)
    tree = service.build(commits=commits(), seed=3, testbeds=[testbed])
    service.start()
    yield DemoRun(service, tree)
    service.stop()


@pytest.mark.parametrize("play", [(commits, KINDS)], indirect=True, ids=["four kinds"])
def test_only_the_commit_that_raises_the_cpu_use_is_named(play: DemoRun) -> None:
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


@pytest.mark.parametrize(
    "play", [(two_effects, ("inet4-cpu", "inet4-ipsec"))], indirect=True, ids=["two kinds"]
)
def test_drop_and_gain_of_one_commit_are_one_alert(play: DemoRun) -> None:
    play.night()
    play.tree.land(BOTH_AT + 4)
    play.night()

    (alert,) = play.ledger.alerts.all()
    assert alert.culprit == play.tree.revisions[BOTH_AT]
    assert alert.lead == "inet4-ipsec"
    mails = [mail for mail in read(play.service.mails) if "ipsec: Encrypt" in str(mail["Subject"])]
    (text,) = [str(mail.get_payload()) for mail in mails]
    assert re.search(r"^  how much +-[23]\d\.\d % .*, inet4 IPsec gateway", text, re.MULTILINE)
    assert re.search(r"^  but +-2\d\.\d % .*, CPU use", text, re.MULTILINE)
