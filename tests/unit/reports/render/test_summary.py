"""A search on several testbeds of the same hardware."""

from __future__ import annotations

import math
from dataclasses import replace

import report_cases
from ledger_facts import SCENARIO, bisect_job
from search_fixtures import kernel

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.reports.mail.alerts import mail
from netbisect.reports.model.changes import BisectionDocument
from netbisect.reports.render import summary
from netbisect.reports.site import changes
from netbisect.steps.queries.change_evidence import of_testbed, places


def shared_case() -> BisectionDocument:
    """Every second boot was measured on another testbed, which is 6 % slower."""
    case = report_cases.culprit_case(testbeds=("c2558", "c2558-2"), shown="c2558")
    steps = tuple(
        replace(one, testbed="c2558-2", pps=one.pps * 0.94)
        if one.pps is not None and one.place % 2
        else one
        for one in case.steps
    )
    return replace(case, steps=steps)


def test_mails_and_pages_list_the_measuring_testbeds() -> None:
    """A search on a single testbed does not mention testbeds."""
    testbeds = "c2558 and c2558-2; rates and ministat are of c2558"
    text = mail(shared_case()).text
    assert testbeds in " ".join(text.split())
    assert max(len(line) for line in text.splitlines() if "://" not in line) <= 76
    page = changes.bisection(shared_case()).html()
    assert f'<tr><th scope="row">measured on</th><td>{testbeds}</td></tr>' in page
    assert ">boot and runs on c2558-2</td>" in page
    single = report_cases.culprit_case()
    assert "measured on" not in mail(single).text + changes.bisection(single).html()
    assert "boot and runs on" not in changes.bisection(single).html()


def test_testbed_without_boots_of_the_good_end_has_no_rates() -> None:
    """Its offset from the other testbeds is unknown."""
    case = report_cases.culprit_case(testbeds=("c2558", "c2558-2"), shown="c2558")
    unrelated = report_cases.step(99, case.bad.revision, pps=math.e, testbed="c2558-2")
    extended = replace(case, steps=(*case.steps, unrelated))
    assert summary.path(extended) == summary.path(case)


def observation(number: int, revision: str, testbed: str, *, fresh: bool = True) -> Observation:
    return Observation(
        f"b{number}", revision, f"id-{revision}", {SCENARIO: 14.0}, fresh, 1, testbed
    )


def test_displayed_rates_come_from_the_testbed_with_most_boots() -> None:
    """Only fresh boots of this search count, as in the effects."""
    others = {"two": Noise(), "three": Noise()}
    job = bisect_job(["good", "parent", "culprit"], -0.1, Noise(), others=others)
    boots = [
        *(observation(i, "parent", "c2558") for i in range(3)),
        observation(3, "page", "c2558"),
        *(observation(i, "parent", "two") for i in range(4, 6)),
        *(observation(i, "page", "two") for i in range(6, 8)),
        observation(8, "culprit", "c2558", fresh=False),
        observation(9, "culprit", "c2558", fresh=False),
    ]
    evidence = Evidence(tuple(boots), {"culprit": kernel("culprit", "id-page")})
    used, shown = places(job, evidence, {"parent", "culprit"})

    assert (used, shown) == (("c2558", "two"), "two")
    boots_shown = [one.boot for one in of_testbed(evidence, shown).observations]
    assert boots_shown == ["b4", "b5", "b6", "b7"]
