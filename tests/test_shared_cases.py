"""What is told of a search that several testbeds of one make have measured for."""

from __future__ import annotations

import math
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from netbisect.bisect.model import Bisection, Candidate, Evidence, Kernel, Noise, Reading
from netbisect.reports import gist
from netbisect.reports.case import Attempt, Case
from netbisect.reports.mail import outcome
from netbisect.reports.page import page
from netbisect.steps.casefile import _of, _places

made = runpy.run_path(str(Path(__file__).with_name("report_cases.py")))
APART = math.log(0.94)


def shared_case() -> Case:
    """Every second boot was made on another testbed, 6 % below."""
    case: Case = made["culprit_case"](testbeds=("c2558", "c2558-2"), shown="c2558")
    attempts = [
        replace(one, testbed="c2558-2", ln_pps=one.ln_pps + APART)
        if one.ln_pps is not None and one.seq % 2
        else one
        for one in case.attempts
    ]
    return replace(case, attempts=tuple(attempts))


def test_mails_and_pages_say_on_which_testbeds_it_was_measured() -> None:
    """And whose rates are shown; of one testbed there is nothing to say."""
    told = "c2558 and c2558-2; rates and ministat are of c2558"
    text = outcome(shared_case()).text
    assert told in " ".join(text.split())
    assert max(len(line) for line in text.splitlines() if "://" not in line) <= 76
    written = page(shared_case())
    assert f'<tr><th scope="row">measured on</th><td>{told}</td></tr>' in written
    assert ">boot and runs on c2558-2</td>" in written
    alone: Case = made["culprit_case"]()
    assert "measured on" not in outcome(alone).text + page(alone)
    assert "boot and runs on" not in page(alone)


def test_a_search_that_another_testbed_made_alone_names_it() -> None:
    case = replace(shared_case(), testbeds=("c2558-2",), shown="c2558-2")
    assert gist.measured_on(case) == "c2558-2"


def test_the_steps_of_a_search_are_told_on_the_level_of_its_own_testbed() -> None:
    """A boot elsewhere is held against the good end there; the same percentages come out."""
    alone, shared = (
        {stop.label: change_of(stop) for stop in gist.path(case)}
        for case in (made["culprit_case"](), shared_case())
    )
    assert alone.keys() == shared.keys()
    assert sum(change is not None for change in alone.values()) > 5
    for label, change in alone.items():
        assert shared[label] == (change if change is None else pytest.approx(change, abs=1.5))


def change_of(stop: gist.Stop) -> float | None:
    """In percent of the good end; None where none is told."""
    found = re.search(r"[+-]?[0-9.]+(?= %)", stop.change)
    return float(found[0]) if found else None


def test_a_testbed_that_never_measured_the_good_end_tells_no_rates() -> None:
    """Nobody knows how far it lies from the others."""
    case: Case = made["culprit_case"](testbeds=("c2558", "c2558-2"), shown="c2558")
    lost = Attempt(
        seq=99,
        stage="trial",
        revision=case.bad.revision,
        why="",
        outcome="measured",
        belief=None,
        ln_pps=1.0,
        at=0.0,
        seconds=1.0,
        testbed="c2558-2",
    )
    with_it = replace(case, attempts=(*case.attempts, lost))
    assert gist.path(with_it) == gist.path(case)


def reading(number: int, revision: str, testbed: str, *, fresh: bool = True) -> Reading:
    return Reading(f"b{number}", revision, f"id-{revision}", {"s": 14.0}, fresh, 1, testbed)


def search(*others: str) -> Bisection:
    candidates = (Candidate("parent"), Candidate("culprit"))
    mates = {name: Noise() for name in others}
    return Bisection("main", "one", "good", candidates, ("s",), "s", -0.1, Noise(), others=mates)


def test_the_rates_shown_are_those_of_the_testbed_that_has_most_of_both_sides() -> None:
    """And of boots of this search, as the effects are."""
    twin = Kernel("culprit", "G", "amd64", "id-page", "k", "v", 1, 0.0, 1.0)
    boots = [
        *(reading(i, "parent", "one") for i in range(3)),
        reading(3, "page", "one"),
        *(reading(i, "parent", "two") for i in range(4, 6)),
        *(reading(i, "page", "two") for i in range(6, 8)),
        reading(8, "culprit", "one", fresh=False),
        reading(9, "culprit", "one", fresh=False),
    ]
    evidence = Evidence(tuple(boots), {"culprit": twin})
    used, shown = _places(search("two", "three"), evidence, {"parent", "culprit"})

    assert (used, shown) == (("one", "two"), "two")
    assert [one.boot for one in _of(evidence, shown).readings] == ["b4", "b5", "b6", "b7"]


def test_of_one_testbed_all_boots_are_shown() -> None:
    evidence = Evidence((reading(1, "good", "one", fresh=False), reading(2, "good", "one")))
    for question in (search(), search("two")):
        assert _places(question, evidence, {"good"}) == ((), "")
    assert _of(evidence, "") is evidence
