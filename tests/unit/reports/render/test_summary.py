"""A search on several testbeds of the same hardware."""

from __future__ import annotations

import math
from dataclasses import replace

import report_cases

from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import BisectJob, Candidate
from netbisect.reports.mail.alerts import mail
from netbisect.reports.model.changes import BisectionDocument
from netbisect.reports.render import summary
from netbisect.reports.site import changes
from netbisect.steps.queries.change_evidence import of_testbed, places

APART = 0.94


def shared_case() -> BisectionDocument:
    """Every second boot was made on another testbed, 6 % below."""
    case = report_cases.culprit_case(testbeds=("c2558", "c2558-2"), shown="c2558")
    steps = tuple(
        replace(one, testbed="c2558-2", pps=one.pps * APART)
        if one.pps is not None and one.place % 2
        else one
        for one in case.steps
    )
    return replace(case, steps=steps)


def test_mails_and_pages_list_the_measuring_testbeds() -> None:
    """And whose rates are shown; of one testbed there is nothing to say."""
    testbeds = "c2558 and c2558-2; rates and ministat are of c2558"
    text = mail(shared_case()).text
    assert testbeds in " ".join(text.split())
    assert max(len(line) for line in text.splitlines() if "://" not in line) <= 76
    written = changes.bisection(shared_case()).html()
    assert f'<tr><th scope="row">measured on</th><td>{testbeds}</td></tr>' in written
    assert ">boot and runs on c2558-2</td>" in written
    alone = report_cases.culprit_case()
    assert "measured on" not in mail(alone).text + changes.bisection(alone).html()
    assert "boot and runs on" not in changes.bisection(alone).html()


def test_a_testbed_without_the_good_end_has_no_rates() -> None:
    """Nobody knows how far it lies from the others."""
    case = report_cases.culprit_case(testbeds=("c2558", "c2558-2"), shown="c2558")
    lost = report_cases.step(99, case.bad.revision, pps=math.e, testbed="c2558-2")
    with_it = replace(case, steps=(*case.steps, lost))
    assert summary.path(with_it) == summary.path(case)


def reading(number: int, revision: str, testbed: str, *, fresh: bool = True) -> Observation:
    return Observation(f"b{number}", revision, f"id-{revision}", {"s": 14.0}, fresh, 1, testbed)


def search(*others: str) -> BisectJob:
    candidates = (Candidate("parent"), Candidate("culprit"))
    mates = {name: Noise() for name in others}
    return BisectJob("main", "one", "good", candidates, ("s",), "s", -0.1, Noise(), others=mates)


def test_displayed_rates_come_from_the_testbed_with_most_boots() -> None:
    """And of boots of this search, as the effects are."""
    kernel = Kernel("culprit", "G", "amd64", "id-page", "k", "v", 1, 0.0, 1.0)
    boots = [
        *(reading(i, "parent", "one") for i in range(3)),
        reading(3, "page", "one"),
        *(reading(i, "parent", "two") for i in range(4, 6)),
        *(reading(i, "page", "two") for i in range(6, 8)),
        reading(8, "culprit", "one", fresh=False),
        reading(9, "culprit", "one", fresh=False),
    ]
    evidence = Evidence(tuple(boots), {"culprit": kernel})
    used, shown = places(search("two", "three"), evidence, {"parent", "culprit"})

    assert (used, shown) == (("one", "two"), "two")
    assert [one.boot for one in of_testbed(evidence, shown).observations] == [
        "b4",
        "b5",
        "b6",
        "b7",
    ]
