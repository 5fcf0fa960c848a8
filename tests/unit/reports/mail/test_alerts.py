"""Mails about alerts: contents, widths and encoding."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import report_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_facts import COMPARISON, NIGHT
from report_cases import make

from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.metric import SeriesMetric
from netbisect.bisect.model.results import Unfinished
from netbisect.reports.mail import alerts
from netbisect.reports.model.changes import KernelFailure
from netbisect.reports.render import plaintext, summary
from netbisect.reports.site import changes

HERE = Path(__file__).parents[3]
RESULTS = ("culprit_case", "suspects_case", "not_reproduced_case", "unfinished_case")
WIDTH = 76

hostile_text = st.text(st.characters(), min_size=1, max_size=300) | st.text(
    "wide " * 3 + "\u202e\u2028\x00\ud800{}%<&\t\r\n.", max_size=300
)


def too_wide(text: str) -> list[str]:
    """Lines that are too long, except those with an address only."""
    lines = [line.expandtabs() for line in text.splitlines()]
    return [
        line for line in lines if len(line) > WIDTH and not re.fullmatch(r" *https?://\S+", line)
    ]


def section(text: str, heading: str) -> str:
    return text.split(f"\n{heading}\n\n", 1)[1].split("\n\n", 1)[0]


@pytest.mark.parametrize(("name", "case"), [("alert", "alert_case"), ("outcome", "culprit_case")])
def test_mails_equal_the_golden_files(name: str, case: str) -> None:
    mail = alerts.mail(make(case))

    golden = (HERE / "fixtures" / "golden" / f"{name}.txt").read_text()
    assert f"Subject: {mail.subject}\n\n{mail.text}" == golden


def test_panic_under_load_has_its_own_section() -> None:
    """The section excludes kernels that did not boot."""
    case = make("culprit_case")
    name, why = case.candidates[5].commit.revision, "the router went down: panic: page fault"
    failures = (
        KernelFailure(name, case.lead, why, "#0"),
        KernelFailure(name, "", "panic: x", "#0"),
    )
    text = alerts.mail(replace(case, failures=failures)).text

    crashes = section(text, "Kernels that panicked under load (a separate problem)")
    assert "".join(crashes.split()).startswith("".join(case.label(name).split()))
    assert "panic: page" in crashes
    assert "panic: x" not in text
    assert too_wide(text) == []


@pytest.mark.parametrize(
    ("nights", "first"), [((8, 24, 40, 48, 72), 40), ((8, 24, 48, 72), 48), ((8, 24, 72), 72)]
)
def test_trend_has_a_line_at_the_culprit(nights: tuple[int, ...], first: int) -> None:
    """The line names the culprit, with or without a nightly level of its own."""
    case = make("culprit_case")
    levels = tuple(
        replace(case.levels[0], revision=report_cases.revision(one), label=report_cases.label(one))
        for one in nights
    )
    case = replace(case, levels=levels)
    lines = section(alerts.mail(case).text, "Latest revisions, slower to the left").splitlines()
    [rule] = [i for i, line in enumerate(lines) if line.startswith("  -----")]

    assert report_cases.label(40) in lines[rule]
    assert report_cases.label(first) in lines[rule + 1]
    assert report_cases.label(24) in lines[rule - 1]


def test_measured_revision_with_the_kernel_of_the_culprit_is_named() -> None:
    culprit, other = report_cases.revision(40), report_cases.revision(41)
    case = make("culprit_case")
    steps = tuple(
        replace(one, revision=other) if one.revision == culprit else one for one in case.steps
    )
    case = replace(case, steps=steps, stand_ins={culprit: other})
    stops = section(
        alerts.mail(case).text,
        "Revisions in the order of testing; changes relative to the good end",
    )
    rows = [" ".join(line.split()) for line in stops.splitlines()]
    [place] = [i for i, row in enumerate(rows) if row.startswith(case.label(other))]

    assert rows[place + 1].startswith(f"{case.label(culprit)} same kernel as")
    assert case.label(other) in " ".join(rows[place + 1 : place + 3])
    sentence = f"{case.label(culprit)} has the same kernel image as {case.label(other)}"
    assert sentence in changes.bisection(case).html()


def test_long_lists_are_cut_and_counted() -> None:
    """Of the series, the ten with the largest drops are listed."""
    case = make("alert_case")
    lead = case.retest[0]
    differences = tuple(
        replace(lead, scenario=f"s{i}", ln_ratio=-0.01 * i, ln_low=-0.5, ln_high=0.0)
        for i in range(1, 15)
    )
    text = alerts.mail(replace(case, lead="s1", differences=differences)).text
    shown = section(text, "Changes between the two ends").splitlines()

    assert [line.split()[0] for line in shown[1:11]] == [f"s{i}" for i in range(14, 4, -1)]
    assert shown[11] == "  and 4 more in the report"

    revisions = tuple(report_cases.revision(number) for number in range(9, 40))
    conditions = {f"sysctl.{number}": "1" for number in range(14)}
    text = alerts.mail(make("suspects_case", suspects=revisions, conditions=conditions)).text
    assert "\n  and 19 more in the report\n" in text
    assert "\n  and 2 more in the report\n" in text


def test_unknown_culprit_appears_as_its_hash() -> None:
    text = alerts.mail(make("culprit_case", candidates=(), labels={})).text

    assert text.splitlines()[0] == "  what          commit 84363a3ebf"
    assert "\nThe commit\n" not in text


@pytest.mark.parametrize("name", ["alert_case", *RESULTS])
def test_mails_have_single_blank_lines_and_no_words_of_blame(name: str) -> None:
    case = make(name)

    text = alerts.mail(case).text
    assert "\n\n\n" not in text
    assert text.endswith(".\n")
    assert not re.search(r"\b(broke|broken|blame)", text)
    assert too_wide(text) == []


@settings(deadline=None, max_examples=25)
@given(hostile_text, st.sampled_from(RESULTS))
def test_any_commit_subject_fits_and_is_encodable(subject: str, name: str) -> None:
    case = report_cases.hostile(make(name), subject)

    for mail in (alerts.mail(case), alerts.mail(replace(case, outcome="running"))):
        assert too_wide(mail.text) == []
        assert mail.subject.splitlines() == [mail.subject]
        mail.text.encode()
        assert set(re.findall(r"[\x00-\x1f\x7f-\x9f]", mail.text)) <= {"\n", "\t"}


def test_quoted_arguments_are_not_split() -> None:
    command = f"echo {'a' * 60} 'one two  three' | cat # not a comment"

    shown = plaintext.shell(command)
    assert "'one two  three'" in shown
    assert shown.endswith("# not a comment")
    assert plaintext.shell("echo 'open " + "a " * 50).count("\n") == 0


@pytest.mark.parametrize(("job", "word"), [(NIGHT, "night"), (COMPARISON, "confirmation")])
def test_failure_mail_has_its_reason(job: NightlyJob | CompareJob, word: str) -> None:
    mail = alerts.trouble(job, Unfinished("c2558 does not come back after a power cycle."))

    assert mail.subject.startswith("[netbisect] main c2558: the ")
    assert f"The {word} ended without" in mail.text
    assert "c2558 does not come back after a power cycle." in " ".join(mail.text.split())
    assert not too_wide(mail.text)


def test_mail_and_page_name_the_unit_of_the_metric() -> None:
    delay = SeriesMetric("delay", "us", lower=True).of("inet4-forwarding")
    case = replace(make("culprit_case"), lead=delay, titles={delay: "delay, inet4"})
    boots = dict.fromkeys(summary.sides(case), (20.0, 21.0, 22.0))
    case = replace(case, pps={delay: boots})

    assert "delay, inet4 in us, one value per boot\n\nx n39-" in alerts.mail(case).text
    page = changes.bisection(case).html()
    assert "<p>delay, inet4 in us, one value per boot:</p>" in page
    assert "packets per second" not in page
