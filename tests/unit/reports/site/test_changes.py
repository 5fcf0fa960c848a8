"""Pages of alerts, comparisons and bisections."""

from __future__ import annotations

from dataclasses import replace

import pytest
import report_cases
from report_cases import make
from site_fixtures import HOSTILE, SHOWN, Page, check_escaped

from netbisect.bisect.model.alert_state import AlertState, HistoryEntry
from netbisect.reports.model.changes import ChangeDocument, KernelFailure
from netbisect.reports.site import changes, frame

pytestmark = pytest.mark.xdist_group("changes")  # each page is made once


def page(case: ChangeDocument) -> str:
    return changes.alert(report_cases.alert_document(), case, title=case.title).html()


@pytest.fixture(scope="module")
def culprit() -> str:
    return page(make("culprit_case"))


def test_page_of_a_culprit_has_all_sections_author_trailers_and_links(culprit: str) -> None:
    outline = Page(culprit)

    assert outline.headings == [
        "Alert 3: a drop, forwarding, inet4 on c2558",
        "Measurements",
        "forwarding, inet4",
        "Series",
        "Changes by this commit",
        "Measurements of other scenarios",
        "forwarding, inet6",
        "pf, inet4",
        "Evidence",
        "The commit",
        "ministat",
        "The search",
        "Revisions without measurements",
        "Candidates",
        "History",
        "Conditions",
        "To reproduce",
        "Acknowledge or mute",
    ]
    for words in (
        "Commit n40-84363a3ebf40 made forwarding, inet4 slower: -10.9 %",
        "net: tidy up the route lookup, part 40",
        "A Committer",
        "MFC after: 2 weeks, not before 2026-03-16",
        "n36-4f27976e51e1: does not build: route.c:12: unknown type name",
        "9 kernels built, 60 boots, 180 runs, 8 h 37 min",
        "GENERIC-NODEBUG",
        "Difference at 95.0% confidence",
    ):
        assert words in outline.text
    links = outline.values("href")
    assert f"https://cgit.freebsd.org/src/commit/?id={report_cases.revision(40)}" in links
    assert "https://reviews.freebsd.org/D51234" in links


def test_long_lists_on_a_page_are_truncated_and_counted(culprit: str) -> None:
    """The page shows the likeliest commits, the latest trials and the number of omitted ones.

    Panics under load have a section of their own; console logs are escaped.
    """
    log = "panic: page fault\n#0 0xff at <b>ip_tryforward</b>+0x2c4\n\x1b[31m\u202e"
    why = "the router went down under the load of this scenario: panic: page fault"
    case = make("culprit_case")
    name, lead = next(iter(case.labels)), case.lead
    failures = (
        KernelFailure(name, lead, why, "x" * 1_000_000 + log),
        *[KernelFailure(name, "", "panic: x", log)] * 60,
    )
    more = tuple(
        replace(
            one, chance=None, commit=replace(one.commit, revision=f"{i:03}{one.commit.revision}")
        )
        for i in range(16)
        for one in case.candidates
    )
    candidates, steps = (*more, *case.candidates), case.steps * 12
    text = page(replace(case, candidates=candidates, steps=steps, failures=failures))
    outline = Page(text)

    assert "The 256 most probable; 832 more commits are in the range." in text
    assert report_cases.label(report_cases.CULPRIT) in text.split('id="candidates"')[1]
    assert f"The latest 100 attempts; {len(steps) - 100} came before." in text
    assert len(text.encode()) < 500_000
    assert {"Kernels that panicked under load", "Console logs"} <= set(outline.headings)
    assert outline.text.count("#0 0xff at <b>ip_tryforward</b>+0x2c4") == 50
    assert "And 11 more." in outline.text
    assert "characters before)" in outline.text
    assert "b" not in outline.tags
    assert "\x1b" not in outline.text
    assert "Kernels that went down" not in culprit


def test_running_search_has_no_verdict_and_unconfirmed_drop_no_search() -> None:
    text = Page(page(make("alert_case"))).text

    assert "main is slower on c2558" in text
    assert "the results below are preliminary" in text

    sentence = "The comparison does not confirm a difference: both are equally fast."
    case = replace(report_cases.compared(make("alert_case")), outcome="not-confirmed")
    text = Page(page(replace(case, sentence=sentence))).text

    assert sentence in text
    assert "preliminary" not in text
    assert "request-7.html" in changes.comparison(case, request=7).html(frame.Serving("", ""))
    line = replace(report_cases.alert_summary(), state=AlertState.WITHDRAWN)
    text = changes.comparison(replace(case, outcome="confirmed"), line).html()
    assert "The alert was withdrawn;" in text


def test_each_step_has_the_most_probable_answer(culprit: str) -> None:
    """No change can be the most probable answer."""
    text = Page(culprit).text

    assert "64 commits, 1.5 % each" in text
    assert f"{report_cases.label(40)}, 97.0 %" in text
    assert "that none of them changed anything" not in text

    case = make("not_reproduced_case")
    steps = tuple(replace(one, posterior=case.posterior) for one in case.steps)
    text = Page(page(replace(case, steps=steps))).text

    assert "no change, 97.0 %" in text
    assert "A Committer" not in text
    two = replace(case.posterior, none=0.01, two=0.96)
    text = Page(page(replace(case, steps=(replace(case.steps[0], posterior=two),)))).text
    assert "several commits, 96.0 %" in text


def test_empty_case_has_a_page() -> None:
    without = dict.fromkeys(("retest", "differences", "levels", "unaffected"), ())
    blank = dict.fromkeys(("address", "command", "hardware"), "")
    case = make("alert_case", **without, **blank, pps={}, conditions={})
    text = Page(page(case)).text
    assert "A search runs on c2558 between" in text
    assert "Too few boots for ministat" in text


def test_only_the_largest_changes_have_plots() -> None:
    case = make("culprit_case")
    names = [f"s{i}" for i in range(12)]
    lead, rates = case.differences[0], case.pps[case.lead]
    differences = tuple(replace(lead, scenario=name) for name in names)
    titles, pps = dict(zip(names, names, strict=True)), dict.fromkeys(names, rates)
    changed = {"titles": titles, "pps": pps, "differences": differences, "retest": differences}
    text = page(replace(case, lead="s0", **changed))
    assert text.count("<figure") == 5
    assert "Without plots: 9 scenarios with smaller changes" in Page(text).text


@pytest.mark.parametrize("name", ["alert_case", "culprit_case"])
def test_external_text_is_escaped(name: str) -> None:
    case = report_cases.hostile(make(name), HOSTILE)
    failure = KernelFailure(case.bad.revision, case.lead, HOSTILE, HOSTILE)
    steps = tuple(replace(one, why=HOSTILE, result=HOSTILE) for one in case.steps[-3:])
    names = dict.fromkeys(case.labels, HOSTILE)
    case = replace(
        case, failures=(failure,), steps=steps, labels=names, branch=HOSTILE, command=HOSTILE
    )
    line = replace(
        report_cases.alert_summary(), title=HOSTILE, branch=HOSTILE, good=HOSTILE, bad=HOSTILE
    )
    history = (HistoryEntry(0.0, HOSTILE, HOSTILE, None),)
    document = replace(
        report_cases.alert_document(), history=history, testbed=HOSTILE, lead=HOSTILE
    )
    pages = [
        changes.alert(document, case, title=str),
        changes.comparison(report_cases.compared(case), line),
        changes.bisection(case, line),
    ]
    for one in pages:
        assert SHOWN in check_escaped(one.html()).text
