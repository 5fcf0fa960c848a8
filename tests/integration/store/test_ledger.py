"""The ledger: facts, commits, events and concurrent writers."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading

import pytest
from ledger_facts import BOOT, COMPARISON, FACTS, FAILURE, KERNEL, NIGHT, SAMPLE, decide
from sqlalchemy import text
from waiting import wait_until

from netbisect.bisect.model.entities import Boot, Commit, Conditions, Failure, Sample
from netbisect.bisect.model.evidence import Prices
from netbisect.bisect.model.results import NightlyResult, NotConfirmed, Unfinished
from netbisect.store.db.database import StoreError, open_database
from netbisect.store.db.records import Outcome
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.jobs import StaleJobError

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("number", [0.0, 0.1 + 0.2, 1e11])
@pytest.mark.parametrize("text", ["", "na\u00efve \U0001f600 \x1b[0m '\\\";--\n"])
def test_facts_are_read_as_written(ledger: Ledger, text: str, number: float) -> None:
    texts = {"testbed": text, "scenario": text}
    numbers = {"at": number, "seconds": number}
    sample = dataclasses.replace(
        SAMPLE, **texts, **numbers, pps=number, offered=(number, 1 / 3), problems=(text, "x")
    )
    failure = dataclasses.replace(FAILURE, **texts, **numbers, why=text, log=text)
    decision = decide(ledger, ledger.jobs.add(NIGHT, key="night"))
    ledger.facts.record(BOOT)

    ledger.facts.record(sample, decision.id)
    ledger.facts.record(failure, decision.id)

    found = {type(fact): fact for fact in ledger.facts.of_job(decision.job)}
    assert found == {Sample: sample, Failure: failure}


@pytest.mark.parametrize("odd", ["nul \0", "lone \ud800"])
def test_invalid_characters_are_replaced(ledger: Ledger, odd: str) -> None:
    """Repeated facts are recorded once, separately and in batches."""
    conditions = Conditions.of("c2558", odd, {odd: odd})
    boot = dataclasses.replace(BOOT, id=odd)
    sample = dataclasses.replace(SAMPLE, id=odd, boot=odd, scenario=odd)
    facts = [conditions, boot, sample]

    assert ledger.facts.record_all([*facts, *facts], "here") == facts
    assert ledger.facts.record_all(facts, "here") == []
    for fact in facts:
        ledger.facts.record(fact)

    assert [event.kind for event in ledger.events.since(0)[0]] == ["import"]


def test_invalid_facts_are_rejected(ledger: Ledger) -> None:
    """No sample is recorded before its boot."""
    marker = ledger.events.last()
    with pytest.raises(StoreError, match="belongs to boot boot1, which was not recorded"):
        ledger.facts.record(SAMPLE)

    with pytest.raises(StoreError, match="there is no action 7"):
        ledger.facts.record(BOOT, 7)
    assert ledger.events.last() == marker
    ledger.facts.record(BOOT)
    for number in (float("nan"), float("inf")):
        wrong = dataclasses.replace(SAMPLE, received=(1.0, number))
        with pytest.raises(StoreError, match=r"received = .* every number must be finite"):
            ledger.facts.record(wrong)
    ledger.facts.record(SAMPLE)
    assert ledger.events.last() == marker + 2


def test_imported_facts_are_one_transaction(ledger: Ledger) -> None:
    unrelated = dataclasses.replace(SAMPLE, id="sample2", boot="unknown")
    with pytest.raises(StoreError, match="belongs to boot unknown"):
        ledger.facts.record_all([*FACTS, unrelated], "elsewhere")
    assert ledger.events.since(0) == ([], 0)

    assert ledger.facts.record_all([*FACTS, FAILURE], "elsewhere") == FACTS
    assert ledger.facts.record_all(FACTS, "elsewhere") == []
    [event], _ = ledger.events.since(0)
    assert (event.kind, event.data) == ("import", {"source": "elsewhere", "facts": len(FACTS)})


def test_commits_cause_one_event_per_change(ledger: Ledger) -> None:
    """Their names may have any characters."""
    ledger.commits.know([commit("r1", 1), commit("r2", 2), commit("r1", 1)])
    ledger.commits.know([commit("r1", 1), commit("r2", 2)])
    ledger.commits.know([commit("r1", 1, "in other words")])
    ledger.commits.learn([commit("r1", 1, "in other words")], "main")
    ledger.commits.learn([commit("r1", 1, "in other words")], "main")

    assert [one.kind for one in ledger.events.since(0)[0]] == ["known", "known", "learned"]
    ledger.commits.learn([commit("r2", 2)], "main")
    ledger.commits.follow("main", {"r2"})
    assert ledger.commits.oldest("main") == 1, "nothing else could be compared with r2"
    names = ["r1", "a'b", '"', "100%", "%s", "c\\d", ":p", "?"]
    ledger.commits.know([commit(name, number) for number, name in enumerate(names)])
    assert set(ledger.commits.find([*names, "nul \0", "lone \ud800"])) == set(names)
    assert ledger.commits.find([]) == {}


def commit(revision: str, number: int, subject: str = "a change") -> Commit:
    return Commit(revision, number, subject, "body", "A", "a@example.org", 5.0, ("sys/net/x.c",), 3)


def test_concurrent_writes_are_not_lost(ledger: Ledger, url: str) -> None:
    script = f"""
from netbisect.bisect.model.entities import Boot
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
ledger = Ledger(open_database({url!r}))
print(flush=True)
for i in range(15):
    ledger.facts.record(Boot(f"theirs{{i}}", "t", "key", "r1", float(i), 1.0))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"  # it has loaded the modules
        errors: list[Exception] = []

        def write(name: str) -> None:
            try:
                for i in range(15):
                    ledger.facts.record(Boot(f"{name}{i}", "t", "key", "r1", float(i), 1.0))
            except Exception as error:  # noqa: BLE001 - reported below
                errors.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("mine", "yours")]
        for thread in threads:
            thread.start()
        followed, marker = 0, 0
        while other.poll() is None or any(thread.is_alive() for thread in threads):
            events, marker = ledger.events.since(marker)
            followed += len(events)
        events, marker = ledger.events.since(marker)

    assert other.returncode == 0
    assert errors == []
    assert followed + len(events) == 45


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.xdist_group("postgresql")
def test_a_writer_waits_for_the_end_of_the_other(url: str) -> None:
    """Its event follows those of the other, although it began before they were written."""
    one, other = Ledger(open_database(url)), Ledger(open_database(url))
    writer = threading.Thread(target=lambda: other.jobs.add(NIGHT, key="night"))

    def waits() -> bool:
        with one.engine.connect() as connection:
            query = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return bool(connection.scalar(query))

    with one.writing() as writing:
        writer.start()
        wait_until(lambda: waits() or not writer.is_alive())
        writing.note("noted")
    writer.join()

    assert [event.kind for event in one.events.since(0)[0]] == ["noted", "asked"]
    for ledger in (one, other):
        ledger.engine.dispose()


def test_two_processes_close_a_job_once(ledger: Ledger, url: str) -> None:
    record = ledger.jobs.add(COMPARISON, key="comparison")
    engine = open_database(url)
    other = Ledger(engine)
    stale = other.jobs.get(record.id)

    with ledger.jobs.closing(record, NotConfirmed((), "no difference")):
        pass
    with pytest.raises(StaleJobError), other.jobs.closing(stale, Unfinished("cancelled")):
        pass

    assert other.jobs.get(record.id).result == NotConfirmed((), "no difference")
    engine.dispose()


def test_events_are_in_order_and_unique(ledger: Ledger) -> None:
    record = ledger.jobs.add(NIGHT, key="night")
    decision = decide(ledger, record)
    ledger.actions.submitted(decision.id, 17)
    first, marker = ledger.events.since(0)
    for fact in FACTS:
        ledger.facts.record(fact, decision.id)
    ledger.actions.finish(decision.id, Outcome.OK)
    with ledger.jobs.closing(record, NightlyResult(1)):
        pass
    second, end = ledger.events.since(marker)

    assert [event.kind for event in first] == ["asked", "decided", "submitted"]
    kinds = ["kernel", "boot", "conditions", "sample", "dud", "finished", "closed"]
    assert [event.kind for event in second] == kinds
    assert {event.job for event in (*first, *second)} == {record.id}
    assert second[3].data["pps"] == SAMPLE.pps
    assert second[3].data["revision"] == "r1"
    assert second[-1].data["finding"] == "nightdone"
    assert [event.id for event in (*first, *second)] == list(range(1, 11))
    assert ledger.events.since(end) == ([], end)
    assert ledger.events.since(marker, limit=2) == (second[:2], second[1].id)


def test_default_prices_are_replaced_by_measured_ones(ledger: Ledger) -> None:
    assert ledger.costs.prices("c2558") == Prices()

    for i, seconds in enumerate((100.0, 200.0, 900.0)):
        ledger.facts.record(dataclasses.replace(BOOT, id=f"b{i}", seconds=seconds))
    ledger.facts.record(dataclasses.replace(BOOT, id="other", testbed="apu2", seconds=5000.0))
    ledger.facts.record(dataclasses.replace(SAMPLE, boot="b0", seconds=45.0))
    ledger.facts.record(dataclasses.replace(KERNEL, seconds=1200.0))
    ledger.facts.record(dataclasses.replace(KERNEL, key="never booted here", seconds=9.0))
    assert ledger.costs.prices("c2558") == Prices(build=1200.0, boot=200.0, run=45.0)
    ledger.facts.record(dataclasses.replace(KERNEL, revision="r1#1", key="relinked", seconds=40.0))
    ledger.facts.record(dataclasses.replace(BOOT, id="b4", kernel="relinked", seconds=200.0))
    assert ledger.costs.prices("c2558") == Prices(build=1200.0, boot=200.0, run=45.0, relink=40.0)
    assert ledger.costs.prices("new") == Prices()
