"""The daily digest mail."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import report_cases
from ledger_facts import comparison, intend, sample

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Boot, Commit, Fact, Failure, Kernel, Reaction, Stage
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import Confirmed, Effect, NightlyResult, Unfinished
from netbisect.reports.mail import digest
from netbisect.reports.model.types import Difference, DigestDocument, MissingScenarios
from netbisect.steps.queries.digest import last_due, post_digest
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.store.db.records import JobRecord, OutboxMail
from netbisect.store.ledger import Ledger

TESTBED = "c2558"
MORNING = datetime(2026, 11, 21, 8).astimezone().timestamp()
HOUR = 3600.0


class DigestCase:
    """The ledger of a service, with a clock that the test sets."""

    def __init__(self, place: Path, ledger: Ledger, commits: list[Commit]) -> None:
        settings, self.lab = load(place / control.SETTINGS)
        self.settings = replace(settings, mail=replace(settings.mail, digest=True))
        self.ledger = ledger
        self.line = [commit.revision for commit in commits]
        ledger.commits.learn(commits, "main")
        ledger.clock = lambda: self.now
        self.now = MORNING - 7 * HOUR

    def night(self, number: int = 0) -> JobRecord:
        night = NightlyJob("main", TESTBED, self.line[number], self.scenarios, 1)
        return self.ledger.jobs.add(night, key=f"night {number}")

    @property
    def scenarios(self) -> tuple[str, ...]:
        return self.lab.testbed(TESTBED).scenarios

    def measure(self, record: JobRecord, *, without: str = "", problem: str = "") -> None:
        """Records a boot; the sample of `without` is missing, or has this problem."""
        revision = record.job.revision if isinstance(record.job, NightlyJob) else ""
        decision = intend(self.ledger, record, revision)
        key = f"k{record.id}"
        facts: list[Fact] = [
            Kernel(revision, "G", "amd64", f"i{key}", key, "v", 1, self.now, 60.0),
            Boot(key, TESTBED, key, revision, self.now, 60.0),
        ]
        for scenario in self.scenarios:
            if scenario == without and not problem:
                why = "pfctl: no such module"
                how = Stage.BENCH, Reaction.SKIP, why, self.now, 1.0
                facts.append(Failure(f"d{key}", revision, *how, TESTBED, scenario))
                continue
            problems = (problem,) if scenario == without else ()
            facts.append(sample(key, TESTBED, scenario, 1e6, self.now, problems=problems))
        for fact in facts:
            self.ledger.facts.record(fact, decision.id)

    def digests(self) -> list[OutboxMail]:
        post_digest(self.ledger, self.settings, self.lab)
        return [mail for mail in self.ledger.mails.waiting() if mail.key.startswith("digest:")]

    def digest(self) -> OutboxMail:
        return self.digests()[-1]


@pytest.fixture
def case(
    service_folder: Path, service_commits: list[Commit], empty_ledger: Ledger
) -> Iterator[DigestCase]:
    case = DigestCase(service_folder, empty_ledger, service_commits[-4:])
    yield case
    shutil.rmtree(case.settings.reports, ignore_errors=True)


def test_digest_is_due_at_its_hour_in_local_time() -> None:
    assert last_due(MORNING, 8) == MORNING
    assert last_due(MORNING - 1, 8) == MORNING - 24 * HOUR
    assert last_due(MORNING + 15 * HOUR, 8) == MORNING


def test_digest_is_sent_once_a_day_even_without_news(
    case: DigestCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No digest is gathered at other ticks; a later hour takes effect on the next day."""
    night = case.night()
    case.measure(night)
    with case.ledger.jobs.closing(night, NightlyResult(1)):
        pass
    assert case.digests() == [], "the digest is not due yet"

    case.now = MORNING + 60
    [first] = case.digests()
    assert case.digests() == [first], "a second call sends no second mail"
    count = len(case.scenarios)
    assert first.subject == f"[netbisect] 2026-11-21: {count} of {count} series, nothing new"
    assert f"measured {count} of {count} series" in first.body
    assert "No changes. No open drops." in " ".join(first.body.split())

    case.settings = replace(case.settings, mail=replace(case.settings.mail, digest_hour=18))
    case.now = MORNING + 11 * HOUR
    with monkeypatch.context() as patch:
        patch.delattr("netbisect.steps.queries.digest.gather")
        assert case.digests() == [first]
    case.now = MORNING + 35 * HOUR
    second = case.digest()
    assert second.key != first.key
    assert second.subject.endswith("nothing to measure, nothing new")
    assert f"No new commits were fetched for main on {TESTBED}" in " ".join(second.body.split())


def test_a_digest_of_a_clock_that_was_ahead_delays_none(
    case: DigestCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its day, no other one is gathered."""
    case.night()
    case.now = MORNING + 300 * 24 * HOUR
    assert len(case.digests()) == 1
    case.now = MORNING
    [_, digest] = case.digests()
    assert f"of {len(case.scenarios)} series" in digest.body
    case.now = MORNING + 300 * 24 * HOUR + 60
    monkeypatch.delattr("netbisect.steps.queries.digest.gather")
    assert len(case.digests()) == 2


def test_repeated_nights_count_once(case: DigestCase) -> None:
    """A repetition measures no further series."""
    night = case.night()
    again = case.ledger.jobs.add(night.job, key="again", parent=night.id)
    for record in (night, again):
        case.measure(record)
        with case.ledger.jobs.closing(record, NightlyResult(1)):
            pass
    case.now = MORNING
    count = len(case.scenarios)
    assert f"measured {count} of {count} series" in case.digest().body


def test_missing_measurements_have_reasons(case: DigestCase) -> None:
    """A reason is of a scenario or of the job; invalid samples count as missing."""
    first, second = case.scenarios[:2]
    case.measure(case.night(0), without=first)
    case.measure(case.night(1), without=second, problem="the link of igb0 went down")
    failed = case.night(2)
    with case.ledger.jobs.closing(failed, Unfinished("the worker was lost")):
        pass
    case.night(3)
    case.now = MORNING
    mail = case.settings.mail
    case.settings = replace(case.settings, mail=replace(mail, digest=False))
    assert case.digests() == []
    case.settings = replace(case.settings, mail=mail)
    body = " ".join(case.digest().body.split())

    count = len(case.scenarios)
    assert f"measured {2 * count - 2} of {4 * count} series" in body
    assert "bench: pfctl: no such module" in body
    assert "the link of igb0 went down" in body
    assert "the worker was lost" in body
    assert "still running" in body


def test_a_drop_is_new_in_one_digest_and_open_in_later_ones(case: DigestCase) -> None:
    """An improvement is in one digest only."""
    case.night()
    for number, ln_ratio in enumerate((-0.1, 0.2), 1):
        scenario = case.scenarios[number]
        job = comparison(case.line[0], case.line[2], scenario, ln_ratio)
        record = case.ledger.jobs.add(job, key=f"compare {number}")
        effect = Effect(scenario, ln_ratio, ln_ratio - 0.01, ln_ratio + 0.01, 1e-6, 5, 6)
        with case.ledger.jobs.closing(record, Confirmed((effect,))) as closing:
            closing.open_alert((effect,), what="confirmed")
    case.now = MORNING
    first = case.digest()
    case.now = MORNING + 24 * HOUR
    second = case.digest()

    assert first.subject.endswith("1 new drop, 1 improvement")
    new, gains = first.body.split("New drops\n\n")[1].split("Improvements\n\n")
    assert "-9.5 %" in new
    assert "+22.1 %" in gains
    assert "Still open" not in first.body
    assert second.subject.endswith("nothing new")
    assert "-9.5 %" in second.body.split("Still open\n\n")[1]
    assert "1 open drop." in " ".join(second.body.split())
    assert "22.1" not in second.body, "an improvement is not open"


def test_an_acknowledged_drop_is_not_open() -> None:
    known = replace(report_cases.alert_summary(), state=AlertState.ACKNOWLEDGED)
    day = DigestDocument(since=0.0, until=MORNING, planned=1, measured=1, drops=(known,))
    mail = digest.mail(day)
    assert "No open drops." in mail.text
    assert "acknowledged" in mail.text


def test_a_long_digest_has_lines_of_at_most_76_characters() -> None:
    """Long lists are truncated, and control characters removed."""
    item = replace(
        report_cases.alert_summary(),
        title="forwarding, inet6 with a rather long name",
        testbed="some-testbed",
        branch="stable/15",
        difference=Difference.of(Effect("fwd6", -0.1, -0.11, -0.09, 0.0, 5, 5)),
        state=AlertState.BISECTING,
    )
    day = DigestDocument(
        since=0.0,
        until=MORNING,
        planned=300,
        measured=10,
        missing=(
            MissingScenarios(
                "apu2, main", tuple(f"scenario {i}" for i in range(40)), "no\nlink\x1b"
            ),
        )
        * 30,
        unchanged=("main on x",),
        drops=(item,) * 30,
        over=(item,),
        searches=("alert 7 on c2558: 64 commits, 9 orders so far",),
        drifts=("forwarding: -3.1 %",),
        warnings=("c2558 has no measurements for 9 days.",),
        page="https://netbisect.example.org/",
    )
    mail = digest.mail(day)

    assert max(map(len, mail.text.splitlines())) <= 76
    assert "\x1b" not in mail.text
    assert mail.text.count("and 10 more") == 2
