"""Requested searches, with both ends or with the bad end only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from played_lab import PlayedService, build

from netbisect.bisect.model.jobs import BisectJob, CompareJob, NightlyJob
from netbisect.store.db.records import RequestState

FORWARDING = "inet4-forwarding"
COMMITS = tuple(range(300001, 300006))
CULPRIT = 300003


@pytest.fixture
def service(tmp_path: Path, reviews: str) -> PlayedService:
    """Five commits; the third makes the router 10 % slower."""
    service = build(tmp_path, reviews, {"main": COMMITS, "stable/11": (320896, 320897)})
    rng = np.random.default_rng(5)

    def rates(level: float) -> Iterator[float]:
        while True:
            yield float(level * np.exp(rng.normal(0, 0.002)))

    for number in COMMITS:
        level = 900_000 if number >= CULPRIT else 1_000_000
        service.play("c2558", FORWARDING, str(number), rates(level))
    return service


@pytest.mark.long
def test_range_is_searched(service: PlayedService) -> None:
    """The ends are compared, the commit is verified and mailed, and no alert is opened."""
    service.request("bisect", "r300001..r300005", "--testbed", "c2558", "--mail", "ann@lab.invalid")
    service.run()
    shown = service.show(1)

    assert (shown["verdict"], shown["status"]) == ("regression", 1)
    assert [part["kind"] for part in shown["parts"]] == ["Comparison", "Bisection"]
    assert "Verified against its parent" in shown["sentence"]
    culprit = service.followups.history.between(*shown["subjects"])[CULPRIT - 300002]
    assert culprit.subject == str(CULPRIT)
    assert culprit.label in shown["sentence"]
    assert service.ledger.alerts.all(candidates=True) == []
    first, last = service.ledger.mails.waiting()
    assert "ends differ, about 25 more for the search" in " ".join(first.body.split())
    assert last.in_reply_to == first.message_id
    assert culprit.label in last.body
    page = service.page(1)
    for job in service.ledger.requests.jobs(1):
        kind = "bisection" if isinstance(job.job, BisectJob) else "comparison"
        assert f'<a href="{kind}-{job.id}.html">{kind} {job.id}</a>' in page
        if isinstance(job.job, CompareJob):
            assert job.job.commits == 4
    assert "The search among 4 commits, step by step" in page


@pytest.mark.long
def test_improvement_is_reported_with_its_size(service: PlayedService) -> None:
    """A range without a drop is not searched."""
    service.request("compare", "r300003", "r300002", "--testbed", "c2558")
    service.run()
    shown = service.show(1)

    assert shown["verdict"] == "no regression"
    gain = r"There is a gain: .* against .*, [+]1[01][.]\d % .* on c2558"
    assert re.search(gain, shown["sentence"])
    page = service.page(1)
    assert "the interval as it narrows" in page
    assert "Difference at 95.0% confidence" in page

    service.request("bisect", "r300001..r300002", "--testbed", "c2558")
    service.run()
    shown = service.show(2)
    assert (shown["verdict"], shown["status"]) == ("no regression", 0)
    assert [part["kind"] for part in shown["parts"]] == ["Comparison"]


@pytest.mark.long
def test_good_end_is_found_in_earlier_measurements(service: PlayedService) -> None:
    """The good end is the last night before the latest drop."""
    service.followups.history.update()
    for number in (300001, 300002, 300004, 300005):
        commit = service.followups.history.commit(f"main~{300005 - number}")
        service.ledger.commits.learn([commit], "main")
        night = NightlyJob("main", "c2558", commit.revision, (FORWARDING,), 5)
        service.measure(service.ledger.jobs.add(night, key=f"night:main:c2558:{number}"))
    service.request("bisect", "main", "--testbed", "c2558")
    [record, *_] = service.ledger.requests.jobs(1)

    assert isinstance(record.job, CompareJob)
    assert service.followups.history.commit(record.job.good).subject == "300002"
    service.run()
    shown = service.show(1)
    assert (shown["verdict"], shown["subjects"][0]) == ("regression", record.job.good)


@pytest.mark.long
def test_search_without_remaining_hours_is_extended(service: PlayedService) -> None:
    """The extended search keeps its measurements."""
    service.request("bisect", "r300001..r300005", "--testbed", "c2558", "--hours", "0.1")
    service.run()
    shown = service.show(1)
    assert (shown["verdict"], shown["status"]) == ("regression", 1)
    assert "Verified" not in shown["sentence"]
    boots = shown["spent"]["boots"]

    service.request("extend", "1", "--hours", "40")
    service.run()
    shown = service.show(1)
    assert "Verified against its parent" in shown["sentence"]
    assert shown["spent"]["boots"] > boots
    assert isinstance(service.ledger.requests.jobs(1)[-1].job, BisectJob)
    assert service.ledger.requests.get(1).state is RequestState.ANSWERED


def test_range_belongs_to_the_branch_of_its_commits(service: PlayedService) -> None:
    """Too many subjects are rejected before their resolution, which would fetch each review."""
    service.request("bisect", "r320896..r320897", "--testbed", "c2558")
    [record] = service.ledger.requests.jobs(1)
    error = service.refused("bisect", "r320896..r320897", "--branch", "main", "--testbed", "c2558")

    assert record.job.branch == "stable/11"
    assert "is on stable/11, not on main" in error

    many = [f"D{number}" for number in range(1, 100)]

    assert "expected 2 to 7 revisions" in service.refused("series", *many, "--testbed", "c2558")
    assert not list(service.settings.patches.glob("*"))
