"""The ledger: facts, questions, decisions, and what happens when it is cut short."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from netbisect.bisect.model.entities import (
    Boot,
    Commit,
    Conditions,
    Fact,
    Failure,
    Kernel,
    Reaction,
    Sample,
    Stage,
)
from netbisect.bisect.model.evidence import Prices
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import (
    NightlyResult,
    NotConfirmed,
    Posterior,
    Unfinished,
)
from netbisect.store.db.database import StoreError, open_database
from netbisect.store.db.records import Action, ActionStage, JobState, Outcome
from netbisect.store.db.tables import EventRow
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.jobs import AlreadyClosedError

pytestmark = pytest.mark.both_databases


class Clock:
    """A second passes whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine, Clock())
    engine.dispose()


NIGHT = NightlyJob("main", "c2558", "r1", ("inet4-forwarding", "inet4-pf-stateful"), 3)
COMPARISON = CompareJob("main", "c2558", "r1", "r9", ("inet4-forwarding",), "inet4-forwarding", 0.1)
KERNEL = Kernel("r1", "GENERIC", "amd64", "identity", "key", "n1-r1", 1 << 33, 10.0, 600.0)
BOOT = Boot("boot1", "c2558", "key", "r1", 20.0, 180.0)
CONDITIONS = Conditions("digest", "c2558", "inet4-forwarding", {"cpu": "Atom C2558"})
SAMPLE = Sample(
    id="sample1",
    boot="boot1",
    testbed="c2558",
    scenario="inet4-forwarding",
    pps=612_345.5,
    offered_pps=1_488_000.0,
    received=(612_345.0, 612_346.0),
    offered=(1_488_000.0,),
    problems=(),
    conditions="digest",
    at=21.0,
    seconds=30.0,
)
DUD = Failure("dud1", "r2", Stage.BUILD, Reaction.SKIP, "syntax error", 30.0, 60.0, log="cc: error")
BELIEF = Posterior({"r1": 0.25, "r2": 0.5}, none=0.125, two=0.0625, drift=0.0625)
FACTS: list[Fact] = [KERNEL, BOOT, CONDITIONS, SAMPLE, DUD]


def decide(ledger: Ledger, question: int, revision: str = "r1", testbed: str = "c2558") -> Action:
    return ledger.intend(
        question,
        ActionStage.TRIAL,
        revision,
        testbed,
        testbed=testbed,
        config="GENERIC",
        arch="amd64",
        why="the least is known about it",
        belief=BELIEF,
    )


# ---------------------------------------------------------------------------------------- facts


def test_every_fact_is_given_back_as_it_was_told(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)

    for fact in FACTS:
        ledger.record(fact, decision.id)
    later = dataclasses.replace(SAMPLE, id="sample2", at=99.0)
    ledger.record(later, decision.id)

    assert ledger.facts_of(asked.id) == [*FACTS, later]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
TIMES = st.floats(0, 4e9)
RATES = st.lists(st.floats(0, 1e11), max_size=4).map(tuple)


@given(
    sample=st.builds(
        Sample,
        id=st.just(""),
        boot=st.just("boot1"),
        testbed=TEXT,
        scenario=TEXT,
        pps=st.floats(0, 1e11),
        offered_pps=st.floats(0, 1e11),
        received=RATES,
        offered=RATES,
        problems=st.lists(TEXT, max_size=2).map(tuple),
        conditions=TEXT,
        at=TIMES,
        seconds=TIMES,
    ),
    dud=st.builds(
        Failure,
        id=st.just(""),
        revision=TEXT,
        stage=st.sampled_from(Stage),
        reaction=st.sampled_from(Reaction),
        why=TEXT,
        at=TIMES,
        seconds=TIMES,
        testbed=TEXT,
        scenario=TEXT,
        log=TEXT,
    ),
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_fact_says_it_says_afterwards(
    ledger: Ledger, sample: Sample, dud: Failure
) -> None:
    name = f"example {ledger.last_event()}"
    sample, dud = dataclasses.replace(sample, id=name), dataclasses.replace(dud, id=name)
    decision = decide(ledger, ledger.ask(NIGHT, key=name).id)
    ledger.record(BOOT)

    ledger.record(sample, decision.id)
    ledger.record(dud, decision.id)

    found = {type(fact): fact for fact in ledger.facts_of(decision.question)}
    assert found == {Sample: sample, Failure: dud}


@pytest.mark.parametrize("odd", ["nul \0", "lone \ud800"])
def test_what_no_database_takes_is_kept_once_under_another_letter(ledger: Ledger, odd: str) -> None:
    """Also when it is told again, alone or among others, or twice at once."""
    conditions = Conditions.of("c2558", odd, {odd: odd})
    boot = dataclasses.replace(BOOT, id=odd)
    sample = dataclasses.replace(SAMPLE, id=odd, boot=odd, scenario=odd)
    facts = [conditions, boot, sample]

    assert ledger.record_all([*facts, *facts], "here") == facts
    assert ledger.record_all(facts, "here") == []
    for fact in facts:
        ledger.record(fact)

    assert [event.kind for event in ledger.events_since(0)[0]] == ["import"]


def test_bounds_that_are_infinite_are_kept(ledger: Ledger) -> None:
    """And so are words that look like it."""
    told = {"high": math.inf, "low": -math.inf, "why": 'Infinity, "-Infinity"\\', "of": ["\\"]}
    with ledger.writing() as writing:
        writing.note("odd", **told)

    assert ledger.events_since(0)[0][0].data == told


def test_who_reads_sees_one_moment(ledger: Ledger, url: str) -> None:
    """Whatever is written meanwhile, and by whom."""
    engine = open_database(url)
    with ledger.reading() as session:
        before = session.scalars(select(EventRow.id)).all()
        Ledger(engine).ask(NIGHT, key="meanwhile")
        assert session.scalars(select(EventRow.id)).all() == before
    engine.dispose()
    assert ledger.last_event() > 0


def test_a_fact_told_twice_is_kept_once_and_as_it_was_told_first(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)
    for fact in FACTS:
        ledger.record(fact, decision.id)
    marker = ledger.last_event()

    for fact in FACTS:
        ledger.record(fact)
    ledger.record(dataclasses.replace(SAMPLE, pps=1.0), decision.id)

    assert ledger.facts_of(asked.id) == FACTS
    assert ledger.last_event() == marker


def test_a_sample_of_an_unknown_boot_is_refused_and_nothing_of_it_is_kept(ledger: Ledger) -> None:
    marker = ledger.last_event()
    with pytest.raises(StoreError, match="belongs to boot boot1, which was not recorded"):
        ledger.record(SAMPLE)

    assert ledger.last_event() == marker
    ledger.record(BOOT)
    ledger.record(SAMPLE)
    assert ledger.last_event() == marker + 2


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(ledger: Ledger, number: float) -> None:
    ledger.record(BOOT)

    with pytest.raises(
        StoreError, match=r"a Sample with received = .* every number must be finite"
    ):
        ledger.record(dataclasses.replace(SAMPLE, received=(1.0, number)))


def test_a_fact_of_an_unknown_decision_is_refused(ledger: Ledger) -> None:
    with pytest.raises(StoreError, match="there is no decision 7"):
        ledger.record(BOOT, 7)


def test_a_console_may_say_anything(ledger: Ledger) -> None:
    decision = decide(ledger, ledger.ask(NIGHT, key="night").id)

    ledger.record(dataclasses.replace(DUD, log="panic:\0 \udcff\nKDB"), decision.id)

    [kept] = ledger.facts_of(decision.question)
    assert isinstance(kept, Failure)
    assert kept.log == "panic:\ufffd ?\nKDB"


def test_a_dud_without_a_log_is_given_the_machines_last_words(ledger: Ledger) -> None:
    decision = decide(ledger, ledger.ask(NIGHT, key="night").id)

    ledger.record(dataclasses.replace(DUD, log=""), decision.id, log="last words")
    ledger.record(dataclasses.replace(DUD, id="dud2"), decision.id, log="last words")

    logs = [fact.log for fact in ledger.facts_of(decision.question) if isinstance(fact, Failure)]
    assert logs == ["last words", "cc: error"]


def test_facts_from_elsewhere_come_all_or_not_at_all(ledger: Ledger) -> None:
    stray = dataclasses.replace(SAMPLE, id="sample2", boot="unknown")
    with pytest.raises(StoreError, match="belongs to boot unknown"):
        ledger.record_all([*FACTS, stray], "elsewhere")
    assert ledger.events_since(0) == ([], 0)

    assert ledger.record_all([*FACTS, DUD], "elsewhere") == FACTS
    assert ledger.record_all(FACTS, "elsewhere") == []
    [event], _ = ledger.events_since(0)
    told = {
        "source": "elsewhere",
        "facts": len(FACTS),
        "revisions": None,
        "testbeds": [SAMPLE.testbed],
    }
    assert (event.kind, event.data) == ("import", told)


# -------------------------------------------------------------------------------------- commits


def test_an_import_names_its_revisions_if_they_are_few(ledger: Ledger) -> None:
    """And not those of a sample whose boot was there before: whoever reads it looks everywhere."""
    ledger.record_all([KERNEL, BOOT, DUD], "elsewhere")
    ledger.record_all([SAMPLE], "elsewhere")
    many = [dataclasses.replace(BOOT, id=f"b{i}", revision=f"m{i}") for i in range(101)]
    ledger.record_all(many, "elsewhere")
    told = [event.data["revisions"] for event in ledger.events_since(0)[0]]

    assert told == [sorted({KERNEL.revision, BOOT.revision, DUD.revision}), None, None]


def test_what_is_learned_is_told_once_and_again_when_it_is_another(ledger: Ledger) -> None:
    """With the numbers of the commits, also those that they had before."""
    ledger.learn([commit("r1", 1), commit("r2", 2)], "main")
    ledger.learn([commit("r1", 1), commit("r2", 2)], "main")
    ledger.learn([commit("r1", 1), commit("r2", 2, "in other words")], "main")
    ledger.learn([commit("r2", 7, "in other words")], "main")
    ledger.learn([commit("r1", 1)], "stable/15")
    found = [(one.kind, one.data) for one in ledger.events_since(0)[0]]

    assert found == [
        ("learned", {"branch": "main", "first": 1, "last": 2}),
        ("learned", {"branch": "main", "first": 2, "last": 2}),
        ("learned", {"branch": "main", "first": 2, "last": 7}),
        ("learned", {"branch": "stable/15", "first": 1, "last": 1}),
    ]


def test_what_is_known_of_no_branch_is_told_once_and_again_when_it_is_another(
    ledger: Ledger,
) -> None:
    """By names, if they are few."""
    ledger.know([commit("r1", 1), commit("r2", 2), commit("r1", 1)])
    ledger.know([commit("r1", 1), commit("r2", 2)])
    ledger.know([commit("r1", 1, "in other words")])
    ledger.know([commit(f"m{number}", number) for number in range(101)])
    found = [(one.kind, one.data["revisions"]) for one in ledger.events_since(0)[0]]

    assert found == [("known", ["r1", "r2"]), ("known", ["r1"]), ("known", None)]


def commit(revision: str, number: int, subject: str = "a change") -> Commit:
    return Commit(revision, number, subject, "body", "A", "a@example.org", 5.0, ("sys/net/x.c",), 3)


def test_a_revision_is_called_by_its_number_and_the_start_of_its_hash(ledger: Ledger) -> None:
    full = "0a1b2c3d4e5f" + 28 * "0"
    ledger.learn([commit(full, 302145), commit("r311849", 7)], "main")

    assert ledger.label(full) == "n302145-0a1b2c3d4e5f"
    assert ledger.label("r311849") == "r311849"
    assert ledger.label(40 * "f") == 12 * "f"
    assert ledger.label("") == ""


def test_a_commit_learned_twice_is_as_it_was_said_last(ledger: Ledger) -> None:
    ledger.learn([commit("r1", 1), commit("r2", 2)], "main")
    ledger.learn([commit("r2", 2, "the same, said better")], "main")

    assert ledger.commit("r1") == commit("r1", 1)
    assert ledger.commit("r2") == commit("r2", 2, "the same, said better")
    assert ledger.commit("r3") is None


def test_a_commit_that_a_rewritten_branch_lost_is_not_of_its_series(ledger: Ledger) -> None:
    ledger.learn([commit("r1", 1), commit("r2", 2)], "main")
    for fact in (KERNEL, BOOT, SAMPLE):
        ledger.record(fact)
    assert [level.revision for level in ledger.series("c2558", SAMPLE.scenario, "main")] == ["r1"]

    ledger.learn([commit("other", 1)], "main")

    assert ledger.series("c2558", SAMPLE.scenario, "main") == []
    assert ledger.commit("r1") == commit("r1", 1)


# ------------------------------------------------------------------------------------ questions


def test_a_key_asked_twice_is_one_question(ledger: Ledger) -> None:
    first = ledger.ask(NIGHT, key="night", requested_by="me")
    again = ledger.ask(dataclasses.replace(NIGHT, boots=9), key="night", priority=99)

    assert again == first
    assert (first.question, first.requested_by, first.state) == (NIGHT, "me", JobState.OPEN)
    assert ledger.open_questions() == [first]
    assert ledger.question(first.id) == first


def test_the_most_urgent_question_comes_first_then_the_oldest(ledger: Ledger) -> None:
    keys = {"night": 10, "second night": 10, "on demand": 100, "comparison": 50}
    for key, priority in keys.items():
        ledger.ask(NIGHT, key=key, priority=priority)

    urgent_first = ["on demand", "comparison", "night", "second night"]
    assert [asked.key for asked in ledger.open_questions()] == urgent_first


def test_questions_know_what_follows_from_them(ledger: Ledger) -> None:
    night = ledger.ask(NIGHT, key="night")
    follow = ledger.ask(COMPARISON, key="comparison", parent=night.id)

    assert follow.parent == night.id
    assert ledger.children(night.id) == [follow]
    with pytest.raises(StoreError, match="there is no question 99"):
        ledger.ask(COMPARISON, key="orphan", parent=99)
    assert len(ledger.open_questions()) == 2


# ------------------------------------------------------------------------------------ decisions


def test_a_decision_is_written_down_before_it_is_submitted(ledger: Ledger, url: str) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)

    # The process ends here; another one opens the database.
    engine = open_database(url)
    found = Ledger(engine).open_decisions(asked.id)
    engine.dispose()

    assert found == [decision]
    assert (decision.buildset, decision.outcome) == (None, None)
    assert decision.external_id == f"nb:{asked.id}:1:1"


def test_a_decision_is_for_the_testbed_of_its_question_unless_another_is_named(
    ledger: Ledger,
) -> None:
    asked = ledger.ask(NIGHT, key="night")
    build = {"config": "GENERIC", "arch": "amd64", "why": "to boot it"}
    own = ledger.intend(asked.id, ActionStage.KERNEL, "r1", "kernel-amd64", **build)
    other = ledger.intend(
        asked.id, ActionStage.KERNEL, "r2", "kernel-amd64", testbed="c2558-2", **build
    )

    assert (own.testbed, own.target) == ("c2558", "kernel-amd64")
    assert (other.testbed, other.target) == ("c2558-2", "kernel-amd64")
    assert ledger.retry(other.id).testbed == "c2558-2"


def test_a_question_waits_for_one_decision_on_each_testbed(ledger: Ledger) -> None:
    asked, another = ledger.ask(NIGHT, key="night"), ledger.ask(NIGHT, key="another night")
    first, second = decide(ledger, asked.id), decide(ledger, asked.id, "r2", "c2558-2")
    elsewhere = decide(ledger, another.id)

    assert [first.external_id, second.external_id] == [f"nb:{asked.id}:1:1", f"nb:{asked.id}:2:1"]
    assert ledger.open_decisions(asked.id) == [first, second]
    assert ledger.open_decisions() == [first, second, elsewhere]
    with pytest.raises(StoreError, match=f"still waits for nb:{asked.id}:2:1; .* for c2558-2$"):
        decide(ledger, asked.id, "r3", "c2558-2")
    ledger.finish(second.id, Outcome.OK)
    assert ledger.open_decisions(asked.id) == [first]
    third = decide(ledger, asked.id, "r3", "c2558-2")
    with pytest.raises(StoreError, match=f"gone on to {third.external_id}"):
        ledger.retry(second.id)
    assert ledger.retry(first.id).external_id == f"nb:{asked.id}:1:2"


def test_a_question_waits_for_one_decision_at_a_time(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)

    with pytest.raises(StoreError, match=f"still waits for nb:{asked.id}:1:1"):
        decide(ledger, asked.id)

    ledger.finish(decision.id, Outcome.OK)
    assert decide(ledger, asked.id).external_id == f"nb:{asked.id}:2:1"


def test_a_decision_goes_from_intended_to_submitted_to_finished(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)

    ledger.submitted(decision.id, 17)
    ledger.submitted(decision.id, 18)
    ledger.finish(decision.id, Outcome.DUD, "no boot")
    done = ledger.finish(decision.id, Outcome.OK, "told again")

    assert (done.buildset, done.outcome, done.note) == (17, Outcome.DUD, "no boot")
    assert done.submitted_at is not None
    assert done.finished_at is not None
    assert decision.intended_at < done.submitted_at < done.finished_at
    assert ledger.open_decisions(asked.id) == []
    assert ledger.decisions(asked.id) == [done]
    assert ledger.decision(decision.id) == done


def test_what_the_open_questions_wait_for_is_told_at_once(ledger: Ledger) -> None:
    first, second = ledger.ask(NIGHT, key="first"), ledger.ask(NIGHT, key="second")
    done, waiting = decide(ledger, first.id), decide(ledger, second.id)
    ledger.finish(done.id, Outcome.OK)
    another = decide(ledger, first.id, "r2")

    assert [one.id for one in ledger.open_decisions()] == [waiting.id, another.id]
    with ledger.closing(second, Unfinished("nobody wants to know any more")):
        pass
    assert [one.id for one in ledger.open_decisions()] == [another.id]


def test_an_attempt_is_followed_by_one_further_attempt_however_often_it_is_asked_for(
    ledger: Ledger,
) -> None:
    asked = ledger.ask(NIGHT, key="night")
    first = decide(ledger, asked.id)
    ledger.submitted(first.id, 17)

    second = ledger.retry(first.id, "the master was shut down")
    assert ledger.retry(first.id) == second
    third = ledger.retry(second.id)
    assert ledger.retry(first.id) == third

    assert [(d.seq, d.attempt, d.external_id) for d in ledger.decisions(asked.id)] == [
        (1, 1, f"nb:{asked.id}:1:1"),
        (1, 2, f"nb:{asked.id}:1:2"),
        (1, 3, f"nb:{asked.id}:1:3"),
    ]
    assert [d.outcome for d in ledger.decisions(asked.id)] == [Outcome.RETRY, Outcome.RETRY, None]
    assert (third.buildset, third.belief, third.why) == (None, BELIEF, first.why)


def test_a_lost_attempt_stays_lost_when_it_is_tried_again(ledger: Ledger) -> None:
    first = decide(ledger, ledger.ask(NIGHT, key="night").id)
    ledger.finish(first.id, Outcome.LOST)

    ledger.retry(first.id)

    assert [d.outcome for d in ledger.decisions(first.question)] == [Outcome.LOST, None]


def test_a_question_that_has_gone_on_is_not_taken_back(ledger: Ledger) -> None:
    first = decide(ledger, ledger.ask(NIGHT, key="night").id)
    ledger.finish(first.id, Outcome.DUD)
    decide(ledger, first.question, "r2")

    with pytest.raises(StoreError, match="its question has gone on to nb:1:2:1"):
        ledger.retry(first.id)


def test_nothing_is_decided_for_a_closed_question(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    with ledger.closing(asked, NightlyResult(3)):
        pass

    with pytest.raises(StoreError, match="is closed: nothing more is done for it"):
        decide(ledger, asked.id)


# -------------------------------------------------------------------------------------- closing


def test_an_answer_and_what_follows_from_it_are_there_together(ledger: Ledger) -> None:
    night = ledger.ask(NIGHT, key="night")

    with ledger.closing(night, NightlyResult(3)) as closing:
        follow = closing.ask(COMPARISON, key="comparison", priority=50)

    closed = ledger.question(night.id)
    assert (closed.state, closed.finding) == (JobState.CLOSED, NightlyResult(3))
    assert closed.closed_at is not None
    assert follow.parent == night.id
    assert ledger.open_questions() == [follow]


def test_after_an_exception_everything_is_as_before(ledger: Ledger) -> None:
    night = ledger.ask(NIGHT, key="night")
    marker = ledger.last_event()

    with pytest.raises(ZeroDivisionError), ledger.closing(night, NightlyResult(3)) as closing:  # noqa: PT012 - all of it is undone
        closing.ask(COMPARISON, key="comparison")
        closing.post("mail", subject="s", recipients=["a@example.org"], body="b")
        raise ZeroDivisionError

    assert ledger.open_questions() == [night]
    assert ledger.due_mails(4e9) == []
    assert ledger.last_event() == marker
    with ledger.closing(night, NightlyResult(3)):
        pass
    assert ledger.open_questions() == []


def test_a_question_is_closed_once(ledger: Ledger) -> None:
    night = ledger.ask(NIGHT, key="night")
    with ledger.closing(night, NightlyResult(3)):
        pass

    entered = False
    again = ledger.closing(night, Unfinished("changed my mind"))
    with pytest.raises(AlreadyClosedError, match="is closed already"), again:
        entered = True

    assert not entered
    assert ledger.question(night.id).finding == NightlyResult(3)


def test_other_writing_within_a_closing_is_an_error_and_not_a_deadlock(ledger: Ledger) -> None:
    night = ledger.ask(NIGHT, key="night")

    closing = ledger.closing(night, NightlyResult(3))
    with pytest.raises(StoreError, match="cannot be written from within `closing`"), closing:
        ledger.ask(COMPARISON, key="comparison")

    assert ledger.open_questions() == [night]
    ledger.ask(COMPARISON, key="comparison")


def test_a_closing_that_is_killed_leaves_the_question_open(ledger: Ledger, url: str) -> None:
    night = ledger.ask(NIGHT, key="night")
    script = f"""
import os, signal
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
ledger = Ledger(open_database({url!r}))
with ledger.closing(ledger.question({night.id}), NightlyResult(3)) as closing:
    closing.ask(NightlyJob("main", "x", "r", ("s",), 1), key="follow")
    closing.post("mail", subject="s", recipients=["a@example.org"], body="b")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False)

    assert ended.returncode == -9
    assert ledger.open_questions() == [night]
    assert ledger.due_mails(4e9) == []


# --------------------------------------------------------------------------------- many at once


def test_two_processes_and_two_threads_write_at_once_and_nothing_is_lost(
    ledger: Ledger, url: str
) -> None:
    script = f"""
from netbisect.bisect.model.entities import Boot
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
ledger = Ledger(open_database({url!r}))
for i in range(40):
    ledger.record(Boot(f"theirs{{i}}", "t", "key", "r1", float(i), 1.0))
"""
    with subprocess.Popen([sys.executable, "-c", script]) as other:
        errors: list[Exception] = []

        def write(name: str) -> None:
            try:
                for i in range(40):
                    ledger.record(Boot(f"{name}{i}", "t", "key", "r1", float(i), 1.0))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
                errors.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("mine", "yours")]
        for thread in threads:
            thread.start()
        followed, marker = 0, 0
        while other.poll() is None or any(thread.is_alive() for thread in threads):
            events, marker = ledger.events_since(marker)
            followed += len(events)
        events, marker = ledger.events_since(marker)

    assert other.returncode == 0
    assert errors == []
    assert followed + len(events) == 120


def test_two_processes_that_close_one_question_agree_on_one_answer(
    ledger: Ledger, url: str
) -> None:
    asked = ledger.ask(COMPARISON, key="comparison")
    engine = open_database(url)
    other = Ledger(engine)
    stale = other.question(asked.id)

    with ledger.closing(asked, NotConfirmed((), "no difference")):
        pass
    with pytest.raises(AlreadyClosedError), other.closing(stale, Unfinished("cancelled")):
        pass

    assert other.question(asked.id).finding == NotConfirmed((), "no difference")
    engine.dispose()


# --------------------------------------------------------------------------------------- events


def test_events_tell_in_order_what_happened_and_never_twice(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)
    ledger.submitted(decision.id, 17)
    first, marker = ledger.events_since(0)
    for fact in FACTS:
        ledger.record(fact, decision.id)
    ledger.finish(decision.id, Outcome.OK)
    with ledger.closing(asked, NightlyResult(1)):
        pass
    second, end = ledger.events_since(marker)

    assert [event.kind for event in first] == ["asked", "decided", "submitted"]
    kinds = ["kernel", "boot", "conditions", "sample", "dud", "finished", "closed"]
    assert [event.kind for event in second] == kinds
    assert {event.question for event in (*first, *second)} == {asked.id}
    assert second[3].data["pps"] == SAMPLE.pps
    assert second[3].data["revision"] == "r1"
    assert second[-1].data["finding"] == "nightdone"
    assert [event.id for event in (*first, *second)] == list(range(1, 11))
    assert ledger.events_since(end) == ([], end)
    assert ledger.events_since(marker, limit=2) == (second[:2], second[1].id)


# ---------------------------------------------------------------------------------------- costs


def test_prices_are_those_of_the_defaults_until_there_is_experience(ledger: Ledger) -> None:
    assert ledger.prices("c2558") == Prices()

    for i, seconds in enumerate((100.0, 200.0, 900.0)):
        ledger.record(dataclasses.replace(BOOT, id=f"b{i}", seconds=seconds))
    ledger.record(dataclasses.replace(BOOT, id="other", testbed="apu2", seconds=5000.0))
    ledger.record(dataclasses.replace(SAMPLE, boot="b0", seconds=45.0))
    ledger.record(dataclasses.replace(KERNEL, seconds=1200.0))
    ledger.record(dataclasses.replace(KERNEL, key="never booted here", seconds=9.0))

    assert ledger.prices("c2558") == Prices(build=1200.0, boot=200.0, run=45.0)
    assert ledger.prices("new") == Prices()


def test_prices_follow_the_lab_when_it_changes(ledger: Ledger) -> None:
    for i in range(120):
        boot = dataclasses.replace(BOOT, id=f"b{i}", at=float(i), seconds=100.0 if i < 60 else 20.0)
        ledger.record_all([boot], "the past")

    assert ledger.prices("c2558").boot == 20.0


def test_what_failed_has_its_cost_too(ledger: Ledger) -> None:
    asked = ledger.ask(NIGHT, key="night")
    decision = decide(ledger, asked.id)
    hung = Failure("dud2", "r1", Stage.BOOT, Reaction.SKIP, "no boot", 50.0, 400.0, "c2558")
    crashed = Failure(
        "dud3", "r1", Stage.BOOT, Reaction.SKIP, "went down", 60.0, 7.0, "c2558", SAMPLE.scenario
    )
    for fact in (*FACTS, hung, crashed):
        ledger.record(fact, decision.id)
    ledger.record(dataclasses.replace(BOOT, id="somebody else's"))

    cost = ledger.cost([asked.id])

    assert (cost.builds, cost.boots, cost.runs) == (2, 2, 2)
    assert cost.seconds == 600.0 + 60.0 + 180.0 + 400.0 + 30.0 + 7.0
    assert ledger.cost([]).seconds == 0
