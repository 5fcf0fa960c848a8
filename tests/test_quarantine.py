"""Testbeds in quarantine: remembered, told once, waited for, and released when they are well."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from real_master import REVISION, RealMaster, case
from twisted.internet import reactor, task

from netbisect.bisect.faults import IN_A_ROW, Fault
from netbisect.bisect.model import (
    Boot,
    Comparison,
    Dud,
    Night,
    NightDone,
    Reaction,
    Sample,
    Stage,
    Unfinished,
)
from netbisect.reports.owner import Confinement, quarantine
from netbisect.steps import cli, control
from netbisect.steps.builders import elsewhere
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load
from netbisect.store.database import StoreError
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, DecisionStage, Outcome

pytestmark = pytest.mark.both_databases

OTHER = "b" * 40
THIRD = "c" * 40


@pytest.fixture
def ledger(url: str) -> Ledger:
    return open_ledger(url)


# ------------------------------------------------------------------------------- what is kept


def test_a_testbed_is_put_into_quarantine_once(ledger: Ledger) -> None:
    """What is said later changes nothing, and nobody is told twice."""
    letter = ("subject", "text")
    first = ledger.quarantine("c2558", why="too hot", letter=letter, recipients=["a@b"])
    again = ledger.quarantine("c2558", why="another", letter=letter, recipients=["a@b"])

    assert again == first
    assert ledger.quarantined() == {"c2558": first}
    assert [mail.key for mail in ledger.waiting_mails()] == [f"quarantine:{first.id}"]


def test_a_release_says_who_asked_for_it_and_is_kept(ledger: Ledger) -> None:
    """The history of a testbed has all of it; a new quarantine is another one."""
    held = ledger.quarantine("c2558", why="too hot", fault=Fault.THROTTLING.value)
    asked = ledger.ask_release("c2558", by="ana", note="new fans")
    assert asked.wanted_at is not None
    ledger.release(held.id)

    assert ledger.quarantined() == {}
    (past,) = ledger.quarantines("c2558")
    assert (past.released_by, past.note, past.fault) == ("ana", "new fans", "throttling")
    assert past.released_at is not None
    assert ledger.quarantine("c2558", why="again").id != held.id
    kinds = [event.kind for event in ledger.events_since(0)[0]]
    assert kinds == ["quarantine", "release-asked", "released", "quarantine"]


def test_a_release_that_is_refused_can_be_asked_for_again(ledger: Ledger) -> None:
    held = ledger.quarantine("c2558", why="too hot")
    ledger.ask_release("c2558", by="ana")
    refused = ledger.refuse_release(held.id, "no link")

    assert (refused.wanted_at, refused.refused, refused.released_at) == (None, "no link", None)
    assert ledger.ask_release("c2558", by="bo").wanted_by == "bo"


def test_what_is_not_in_quarantine_cannot_be_released(ledger: Ledger) -> None:
    with pytest.raises(StoreError, match="the testbed c2558 is not in quarantine"):
        ledger.ask_release("c2558", by="ana")


def a_visit(
    ledger: Ledger, name: str, *reactions: Reaction, testbed: str = "c2558", boots: bool = True
) -> None:
    """A visit that is over, with these duds."""
    night = Night("main", testbed, REVISION, ("s",), 1)
    asked = ledger.ask(night, key=f"night:{name}")
    decision = ledger.intend(
        asked.id, DecisionStage.TRIAL, REVISION, testbed, config="G", arch="amd64", why="w"
    )
    if boots:
        ledger.record(Boot(name, testbed, "k", REVISION, 1.0, 1.0), decision.id)
    for number, reaction in enumerate(reactions):
        why = f"{name} is bad"
        dud = Dud(f"{name}{number}", REVISION, Stage.BENCH, reaction, why, 1.0, 1.0, testbed)
        ledger.record(dud, decision.id)
    ledger.finish(decision.id, Outcome.OK)


def test_bad_visits_are_counted_in_a_row(ledger: Ledger) -> None:
    """A visit that was none does not count; a good one ends the row, and so does a release."""
    a_visit(ledger, "1", Reaction.INFRA)
    a_visit(ledger, "2")
    a_visit(ledger, "3", Reaction.INFRA, Reaction.RETRY)
    a_visit(ledger, "lost", boots=False)
    a_visit(ledger, "elsewhere", testbed="e5-2650")
    a_visit(ledger, "4", Reaction.RETRY, Reaction.INFRA)
    assert [dud.why for dud in ledger.bad_visits("c2558")] == ["4 is bad", "3 is bad"]
    a_visit(ledger, "5", Reaction.SKIP)
    assert ledger.bad_visits("c2558") == []
    a_visit(ledger, "6", Reaction.INFRA)
    held = ledger.quarantine("c2558", why="too hot")
    ledger.ask_release("c2558", by="ana")
    ledger.release(held.id)
    assert ledger.bad_visits("c2558") == []


def test_visits_of_a_question_that_came_to_nothing_are_counted_in_a_row(ledger: Ledger) -> None:
    """A valid sample ends the row, and so does a release; what was taken back does not count."""
    night = Night("main", "c2558", REVISION, ("s",), 1)
    asked, another = ledger.ask(night, key="night"), ledger.ask(night, key="another")

    def visit(outcome: Outcome, *, valid: bool | None = None, question: Asked = asked) -> None:
        decision = ledger.intend(
            question.id, DecisionStage.TRIAL, REVISION, "c2558", config="G", arch="amd64", why="w"
        )
        name = f"{decision.id}"
        ledger.record(Boot(name, "c2558", "k", REVISION, 1.0, 1.0), decision.id)
        if valid is not None:
            problems = () if valid else ("too slow",)
            sample = Sample(name, name, "c2558", "s", 1.0, 2.0, (), (), problems, "", 1.0, 1.0)
            ledger.record(sample, decision.id)
        ledger.finish(decision.id, outcome)

    visit(Outcome.DUD)
    visit(Outcome.DUD, valid=True)
    visit(Outcome.DUD, valid=False)
    visit(Outcome.WITHDRAWN)
    visit(Outcome.OK, valid=True, question=another)
    visit(Outcome.LOST)
    assert ledger.fruitless_visits(asked.id, "c2558") == 2
    assert ledger.fruitless_visits(asked.id, "e5-2650") == 0
    assert ledger.fruitless_visits(another.id, "c2558") == 0
    held = ledger.quarantine("c2558", why="too hot")
    ledger.ask_release("c2558", by="ana")
    ledger.release(held.id)
    assert ledger.fruitless_visits(asked.id, "c2558") == 0


def test_bad_infrastructure_is_never_held_against_the_revision(ledger: Ledger) -> None:
    """However often it spoils a run; the same runs without it leave the revision alone."""
    night = Night("main", "c2558", REVISION, ("s",), 1)
    reactions = {Reaction.INFRA: {}, Reaction.RETRY: {REVISION}}
    for reaction, skipped in reactions.items():
        asked = ledger.ask(night, key=f"night:{reaction}")
        for number in range(4):
            name = f"{reaction}{number}"
            decision = ledger.intend(
                asked.id, DecisionStage.TRIAL, REVISION, "c2558", config="G", arch="a", why="w"
            )
            ledger.record(Boot(name, "c2558", "k", REVISION, number, 1.0), decision.id)
            problems = ("the router ran at 800 MHz of 2400 after the run",)
            spoilt = Sample(name, name, "c2558", "s", 1.0, 2.0, (), (), problems, "", number, 1.0)
            ledger.record(spoilt, decision.id)
            dud = Dud(name, REVISION, Stage.BENCH, reaction, "hot", number, 1.0, "c2558", "s")
            ledger.record(dud, decision.id)
            ledger.finish(decision.id, Outcome.OK)
        assert set(ledger.evidence(asked, config="G", arch="a").skipped) == set(skipped)


# -------------------------------------------------------------------------------- what is told


def test_the_owner_is_told_why_and_what_to_do() -> None:
    """With the end of the console, harmless in any mail program and not too wide."""
    log = "\n".join(
        [*(f"line {number}" for number in range(99)), "panic: \x1b[31mno\x00" + "x" * 99]
    )
    letter = quarantine(
        Confinement("c2558", "Atom", "no link", "netbisect", Fault.NO_LINK.value, log)
    )

    assert letter.subject == "[netbisect] c2558: in quarantine, it needs a look"
    lines = letter.text.splitlines()
    assert max(map(len, lines)) <= 78
    assert "The testbed c2558 is in quarantine: no link." in lines
    assert "Look at the cables and at the ports' other ends." in lines
    assert "  netbisect testbeds release c2558 --note '...'" in lines
    assert any(line.startswith("  panic: [31mno xxx") for line in lines)
    assert "  line 98" in lines
    assert "  line 1" not in lines


def test_a_quarantine_by_hand_has_no_fault_and_no_log() -> None:
    letter = quarantine(Confinement("c2558", "", "new fans", "ana"))
    assert "console" not in letter.text
    assert "said:" not in letter.text
    assert not re.search(r"\n\n\n", letter.text)


# ------------------------------------------------------------------------------ another builder


class _Named:
    def __init__(self, name: str) -> None:
        self.worker = self
        self.workername = name


class _Asks:
    def __init__(self, *avoided: str) -> None:
        self.properties = self
        self.avoided = list(avoided)

    def getProperty(self, _: str, default: list[str]) -> list[str]:  # noqa: N802 - Buildbot's name
        return self.avoided or default


class _Builder:
    def __init__(self, *workers: _Named) -> None:
        self.workers = workers


def test_a_kernel_goes_to_a_builder_that_has_not_failed_at_it() -> None:
    """It waits for a busy one, and goes back to the first where there is no other."""
    one, two = _Named("one"), _Named("two")
    assert elsewhere(_Builder(one, two), [one, two], _Asks("one")) is two
    assert elsewhere(_Builder(one, two), [one], _Asks("one")) is None
    assert elsewhere(_Builder(one), [one], _Asks("one")) is one
    assert elsewhere(_Builder(one, two), [two, one], _Asks()) is two
    assert elsewhere(_Builder(one, two), [], _Asks()) is None


# ------------------------------------------------------------------------------ in the service


def forget_what_a_lost_worker_would_say() -> None:
    """A worker of Buildbot that goes in the middle of a command may keep some output for later."""
    for call in reactor.getDelayedCalls():
        if getattr(call.func, "__name__", "") == "send_message_from_buffer":
            call.cancel()


@pytest.mark.slow
class Ward(RealMaster):
    """Two testbeds and two builders; one of them has trouble."""

    timeout = 120
    builders = ("builder", "another")
    testbeds = ("c2558", "e5-2650")
    owner = "owner@lab.invalid"

    def compare(self, testbed: str = "c2558") -> Asked:
        question = Comparison(
            "main",
            testbed,
            OTHER,
            REVISION,
            ("inet4-forwarding",),
            "inet4-forwarding",
            math.log(0.9),
        )
        return self.ledger.ask(question, key=f"compare:{testbed}", priority=200)

    def places(self) -> list[str]:
        path = self.folder / "places"
        return path.read_text().splitlines() if path.exists() else []

    def mails(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(mail.subject, mail.recipients) for mail in self.ledger.waiting_mails()]

    @case
    async def test_a_testbed_that_needs_its_owner_gets_no_orders_and_the_other_goes_on(
        self,
    ) -> None:
        """The comparison waits, the night ends and says why, and one mail goes to each."""
        self.script({"c2558": {"trial": "lab"}})
        await self.start()
        waiting = self.compare()
        await self.until(lambda: bool(self.ledger.quarantined()))
        held = self.ledger.quarantined()["c2558"]
        assert (held.fault, held.why) == (Fault.HOST_KEY.value, "as the script says")
        assert held.log == "the last words of the machine"
        night = await self.closed(self.ask(THIRD))
        assert isinstance(night.finding, Unfinished)
        assert "c2558 is in quarantine since " in night.finding.why
        assert night.finding.why.endswith("as the script says")
        await self.closed(self.ask("d" * 40))
        other = await self.closed(self.ask(THIRD, testbed="e5-2650"))

        assert other.finding == NightDone(2)
        assert self.ledger.question(waiting.id).finding is None
        assert self.places().count("trial c2558") == 1
        assert self.mails() == [
            ("[netbisect] c2558: in quarantine, it needs a look", ("owner@lab.invalid",)),
            ("[netbisect] main c2558: the night has no result", ("people@lab.invalid",)),
        ]

    @case
    async def test_after_its_release_what_waited_goes_on(self) -> None:
        """It is brought home and looked at first; as long as it is not well it stays."""
        self.script({"c2558": {"trial": "lab", "recover": "lab"}})
        await self.start()
        waiting = self.compare()
        await self.until(lambda: bool(self.ledger.quarantined()))
        self.ledger.ask_release("c2558", by="ana", note="new key")
        await self.until(lambda: bool(self.ledger.quarantined()["c2558"].refused))
        refused = self.ledger.quarantined()["c2558"]
        assert "the generator does not answer" in refused.refused
        assert self.places()[-1] == "look c2558"
        self.script({})
        self.ledger.ask_release("c2558", by="ana", note="new key")
        asked = await self.closed(waiting)

        assert not isinstance(asked.finding, Unfinished)
        (past,) = self.ledger.quarantines("c2558")
        assert (past.released_by, past.note) == ("ana", "new key")
        places = self.places()
        assert places.index("look c2558") < len(places) - 1

    @case
    async def test_what_waits_too_long_ends(self) -> None:
        """Nobody has come to look for `patience_days`."""
        object.__setattr__(self.settings, "patience_days", 0.0)
        self.ledger.quarantine("c2558", why="too hot")
        await self.start()
        asked = await self.closed(self.compare())

        assert isinstance(asked.finding, Unfinished)
        assert asked.finding.why.startswith("after 0 days of waiting, c2558 is in quarantine")
        assert self.places() == []

    @case
    async def test_bad_infrastructure_in_a_row_ends_in_quarantine(self) -> None:
        """The revision is not skipped for it, and the rule of the table counts."""
        self.script({"c2558": {"trial": "infra"}})
        await self.start()
        waiting = self.compare()
        await self.until(lambda: bool(self.ledger.quarantined()))
        held = self.ledger.quarantined()["c2558"]

        assert self.places().count("trial c2558") == IN_A_ROW
        assert held.why == (
            "3 visits in a row had bad infrastructure; the last one: as the script says"
        )
        assert held.fault == Fault.THROTTLING.value
        evidence = self.ledger.evidence(waiting, config="GENERIC", arch="amd64")
        assert evidence.skipped == {}

    @case
    async def test_a_visit_that_has_not_begun_is_taken_back(self) -> None:
        """Somebody puts a testbed into quarantine while an order waits behind another."""
        self.script({REVISION: {"trial": "wait"}})
        await self.start()
        first = self.ask(boots=1)
        await self.until((self.folder / "waiting").exists)
        second = self.ask(OTHER, boots=1)

        def ordered() -> bool:
            decisions = self.ledger.decisions(second.id)
            return any(one.stage is DecisionStage.TRIAL and one.buildset for one in decisions)

        await self.until(ordered)
        self.ledger.quarantine("c2558", why="new fans", by="ana")
        second = await self.closed(second)
        assert isinstance(second.finding, Unfinished)
        assert second.finding.why.endswith("new fans")
        (self.folder / "go").touch()
        first = await self.closed(first)

        assert first.finding == NightDone(1) or isinstance(first.finding, Unfinished)
        assert self.calls().count(f"trial {OTHER}") == 0
        assert self.calls().count(f"trial {REVISION}") == 1

    @case
    async def test_a_testbed_that_does_not_come_home_is_put_into_quarantine(self) -> None:
        """Nothing is asked of it, and still somebody must look."""
        self.script({"c2558": {"recover": "lab"}})
        await self.start()
        await self.closed(self.ask(boots=1))
        await self.until(lambda: bool(self.ledger.quarantined()))
        held = self.ledger.quarantined()["c2558"]

        assert held.fault == Fault.NO_GOOD_KERNEL.value
        assert "the generator does not answer" in held.why

    @case
    async def test_a_testbed_is_sent_home_again_when_its_order_had_no_answer(self) -> None:
        """It may run a test kernel still; when it is home that is all."""
        self.script({"c2558": {"recover": ["crash", "crash", "ok"]}})
        await self.start()
        await self.closed(self.ask(boots=1))
        await self.until(lambda: self.places().count("recover c2558") == 3)
        await task.deferLater(reactor, 4 * self.settings.tick)

        assert self.places().count("recover c2558") == 3
        assert self.ledger.quarantined() == {}

    @case
    async def test_a_testbed_of_which_nobody_knows_whether_it_is_home_is_put_into_quarantine(
        self,
    ) -> None:
        """When the order to go there has come to no answer three times."""
        self.script({"c2558": {"recover": "crash"}})
        await self.start()
        await self.closed(self.ask(boots=1))
        await self.until(lambda: bool(self.ledger.quarantined()))

        assert self.places().count("recover c2558") == 3
        assert self.ledger.quarantined()["c2558"].fault == Fault.NO_GOOD_KERNEL.value

    @case
    async def test_a_kernel_is_built_on_another_builder(self) -> None:
        """What the first one lacks is not held against the revision."""
        self.script({"builder": {"build": "lab"}, "another": {"build": "lab"}})
        await self.start()
        spoilt = await self.closed(self.ask(THIRD))
        assert isinstance(spoilt.finding, Unfinished)
        assert "in 3 tries" in spoilt.finding.why
        assert {"build builder", "build another"} <= set(self.places())

        for broken in ("builder", "another"):
            self.script({broken: {"build": "lab"}})
            revision = {"builder": OTHER, "another": REVISION}[broken]
            asked = await self.closed(self.ask(revision, boots=1))
            assert asked.finding == NightDone(1)
        assert self.ledger.quarantined() == {}

    @case
    async def test_another_lab_file_on_a_worker_ends_the_question(self) -> None:
        """Another try would find the same file."""
        self.script({"c2558": {"trial": "usage"}})
        await self.start()
        asked = await self.closed(self.ask())

        assert isinstance(asked.finding, Unfinished)
        assert "lab.toml: there is no such testbed" in asked.finding.why
        assert self.places().count("trial c2558") == 1
        assert self.ledger.quarantined() == {}

    @case
    async def test_a_worker_that_is_lost_holds_up_no_other(self) -> None:
        """Its visit is made again when it is back; the other testbed measures meanwhile."""
        self.script({"c2558": {"trial": "wait"}})
        await self.start()
        asked = self.ask(boots=1)
        await self.until((self.folder / "waiting").exists)
        worker = self.master.workers.workers["c2558"]
        await worker.disownServiceParent()
        self.addCleanup(forget_what_a_lost_worker_would_say)
        other = await self.closed(self.ask(OTHER, boots=1, testbed="e5-2650"))
        assert other.finding == NightDone(1)
        assert self.ledger.question(asked.id).finding is None
        (self.folder / "go").touch()
        await worker.setServiceParent(self.master.workers)
        asked = await self.closed(asked)

        assert asked.finding == NightDone(1)
        readings = self.ledger.evidence(asked, config="GENERIC", arch="amd64").readings
        assert len(readings) == 1


# ----------------------------------------------------------------------------- the command line


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["testbeds", *map(str, arguments)])


@pytest.fixture
def folder(quiet_house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a service that never runs, with a ledger of the test's own."""
    settings = (quiet_house / control.SETTINGS).read_text()
    (tmp_path / "lab").symlink_to(quiet_house / "lab")
    for name in ("tree.git", "workers.password"):
        if (quiet_house / name).exists():
            (tmp_path / name).symlink_to(quiet_house / name)
    (tmp_path / control.SETTINGS).write_text(settings)
    monkeypatch.setenv("LOGNAME", "ana")
    return tmp_path


def listed(folder: Path) -> dict[str, dict[str, Any]]:
    result = run("--json", "--folder", folder)
    assert result.exit_code == 0, result.output
    return {row["testbed"]: row for row in json.loads(result.output)}


def test_the_list_says_who_works_and_who_does_not(folder: Path) -> None:
    """As a table, and as JSON."""
    name = next(iter(listed(folder)))
    assert listed(folder)[name]["state"] == "in use"
    done = run("quarantine", name, "--why", "new fans", "--folder", folder)
    assert (done.exit_code, done.output) == (0, f"{name} is in quarantine.\n")

    row = listed(folder)[name]
    assert (row["state"], row["why"], row["by"]) == ("in quarantine", "new fans", "ana")
    table = run("--folder", folder).output
    assert re.search(rf"^{name} +in quarantine .* new fans", table, re.MULTILINE)
    status = CliRunner().invoke(cli.main, ["status", str(folder)]).output
    assert f"  {name}, since " in status


def test_a_release_is_asked_for_and_its_history_is_kept(folder: Path) -> None:
    """The master looks at it first, so that it is not in use at once."""
    name = next(iter(listed(folder)))
    run("quarantine", name, "--why", "new fans", "--folder", folder)
    asked = run("release", name, "--note", "all are in", "--folder", folder)
    assert asked.exit_code == 0
    assert listed(folder)[name]["state"] == "being looked at"
    settings, _ = load(folder / control.SETTINGS)
    ledger = open_ledger(settings.database)
    ledger.release(ledger.quarantined()[name].id)

    assert listed(folder)[name]["state"] == "in use"
    (row,) = json.loads(run("history", name, "--json", "--folder", folder).output)
    assert (row["released_by"], row["note"]) == ("ana", "all are in")
    assert "new fans" in run("history", name, "--folder", folder).output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("quarantine", "nobody", "--why", "x"), "no testbed 'nobody'"),
        (("release", "nobody"), "no testbed 'nobody'"),
        (("quarantine", "NAME", "--why", " "), "--why is empty; expected a sentence"),
        (("release", "NAME"), "is not in quarantine"),
        (("--json", "history", "NAME"), "--json here belongs to the list"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    folder: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    name = next(iter(listed(folder)))
    said = [name if word == "NAME" else word for word in arguments]
    result = run(*said, "--folder", folder)

    assert result.exit_code in (1, 2)
    assert sentence in result.output
    assert "Traceback" not in result.output
    assert listed(folder)[name]["state"] == "in use"


def test_who_is_in_quarantine_already_stays_as_it_is(folder: Path) -> None:
    name = next(iter(listed(folder)))
    run("quarantine", name, "--why", "new fans", "--folder", folder)
    result = run("quarantine", name, "--why", "another", "--folder", folder)

    assert result.exit_code == 1
    assert "is in quarantine already, since " in result.output
    assert listed(folder)[name]["why"] == "new fans"
