"""The two messages: what they say, and that every mail program can show them."""

from __future__ import annotations

import math
import re
import runpy
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import (
    Confirmed,
    Effect,
    Suspects,
    Unfinished,
)
from netbisect.reports.mail import alerts
from netbisect.reports.model.case import Case, KernelFailure, Links
from netbisect.reports.pages.page import page
from netbisect.reports.render import plaintext

HERE = Path(__file__).parents[3]
made = runpy.run_path(str(HERE / "fixtures" / "report_cases.py"))
ENDINGS = ("culprit_case", "suspects_case", "not_reproduced_case", "unfinished_case")
WIDTH = 76

text_of_people = st.text(st.characters(), min_size=1, max_size=300) | st.text(
    "wide " * 3 + "\u202e\u2028\x00\ud800{}%<&\t\r\n.", max_size=300
)


def make(name: str, **changes: object) -> Case:
    case: Case = made[name](**changes)
    return case


def too_wide(text: str) -> list[str]:
    """Lines that do not fit, but for addresses on a line of their own."""
    lines = [line.expandtabs() for line in text.splitlines()]
    return [
        line for line in lines if len(line) > WIDTH and not re.fullmatch(r" *https?://\S+", line)
    ]


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    return text.split(f"\n{heading}\n\n", 1)[1].split("\n\n", 1)[0]


def hostile(case: Case, subject: str) -> Case:
    commits = tuple(
        replace(commit, subject=subject, author=subject, body=f"Reviewed by: {subject}")
        for commit in case.commits
    )
    return replace(
        case,
        commits=commits,
        bad=commits[-1],
        skipped=dict.fromkeys(case.skipped, subject),
        unmoved=(subject,),
        conditions={subject: subject, "b": "2"},
        hardware=subject,
    )


@pytest.mark.parametrize(("name", "write"), [("alert", alerts.alert), ("outcome", alerts.outcome)])
def test_mails_equal_the_golden_files(name: str, write: Callable[[Case], alerts.Mail]) -> None:
    """Mails equal those in tests/fixtures/golden."""
    mail = write(make({"alert": "alert_case", "outcome": "culprit_case"}[name]))

    golden = (HERE / "fixtures" / "golden" / f"{name}.txt").read_text()
    assert f"Subject: {mail.subject}\n\n{mail.text}" == golden


def test_a_panic_under_load_has_its_own_section() -> None:
    """In its own words; those that did not come up stand where they were skipped."""
    case = make("culprit_case")
    name, why = case.commits[5].revision, "the router went down: panic: page fault"
    failures = (
        KernelFailure(name, case.lead, why, "#0"),
        KernelFailure(name, "", "panic: x", "#0"),
    )
    text = alerts.outcome(replace(case, failures=failures)).text

    told = section(text, "Kernels that panicked under load (a separate problem)")
    assert "".join(told.split()).startswith("".join(case.label(name).split()))
    assert "panic: page" in told
    assert "panic: x" not in text
    assert too_wide(text) == []


def test_an_alert_requires_a_confirmed_drop() -> None:
    with pytest.raises(ValueError, match="case 17: no drop was confirmed"):
        alerts.alert(make("alert_case", confirmed=None))


def test_a_result_requires_a_finished_search() -> None:
    with pytest.raises(ValueError, match="case 17: the search has not ended"):
        alerts.outcome(make("alert_case"))


@pytest.mark.parametrize("name", ["suspects_case", "not_reproduced_case", "unfinished_case"])
def test_only_a_verified_commit_has_an_author(name: str) -> None:
    text = alerts.outcome(make(name)).text

    assert "A Committer" not in text
    assert "The commit\n" not in text
    assert "Probability that it is this commit" not in text


def test_an_alert_names_only_the_ends() -> None:
    case = make("alert_case")

    text = alerts.alert(case).text
    nights = section(text, "Latest revisions, slower to the left")
    text = text.replace(nights, "")  # which revisions were measured is no guess
    hashes = set(re.findall(r"n\d+-[0-9a-f]{12}", text))
    assert hashes == {case.label(case.good.revision), case.label(case.bad.revision)}
    assert case.good.author not in text


def test_the_trend_marks_the_change() -> None:
    """Between the last good and the first bad revision, with what the two differ by."""
    case = make("alert_case")
    lines = section(alerts.alert(case).text, "Latest revisions, slower to the left").splitlines()
    [rule] = [i for i, line in enumerate(lines) if line.startswith("  -----")]

    assert case.label(case.good.revision) in lines[rule - 1]
    assert case.label(case.bad.revision) in lines[rule + 1]
    assert "-10.9 %" in lines[rule]
    assert len(lines) == 13
    before, after = lines[rule - 1].index("*"), lines[rule + 1].index("*")
    assert before > after + 10, "slower is to the left"


def with_nights(case: Case, *numbers: int) -> Case:
    """The case with nightly levels of these commits only."""
    level = case.series["fwd4"][0]
    levels = tuple(replace(level, revision=made["revision"](one)) for one in numbers)
    return replace(case, series={"fwd4": levels})


@pytest.mark.parametrize(
    ("nights", "first"), [((8, 24, 40, 48, 72), 40), ((8, 24, 48, 72), 48), ((8, 24, 72), 72)]
)
def test_the_trend_falls_at_a_known_culprit(nights: tuple[int, ...], first: int) -> None:
    """Which is named, and need not have been measured in a night."""
    case = with_nights(make("culprit_case"), *nights)
    lines = section(alerts.outcome(case).text, "Latest revisions, slower to the left").splitlines()
    [rule] = [i for i, line in enumerate(lines) if line.startswith("  -----")]

    assert made["label"](40) in lines[rule]
    assert made["label"](first) in lines[rule + 1]
    assert made["label"](24) in lines[rule - 1]


def test_a_commit_that_stands_in_for_the_culprit_is_named() -> None:
    culprit, twin = made["revision"](40), made["revision"](41)
    case = make("culprit_case")
    attempts = tuple(
        replace(one, revision=twin) if one.revision == culprit else one for one in case.attempts
    )
    case = replace(case, attempts=attempts, stand_ins={culprit: twin})
    stops = section(
        alerts.outcome(case).text,
        "Revisions in the order of testing; changes relative to the good end",
    )
    rows = [" ".join(line.split()) for line in stops.splitlines()]
    [place] = [i for i, row in enumerate(rows) if row.startswith(case.label(twin))]

    assert rows[place + 1].startswith(f"{case.label(culprit)} same kernel as")
    assert case.label(twin) in " ".join(rows[place + 1 : place + 3])
    told = f"{case.label(culprit)} has the same kernel image as {case.label(twin)}"
    assert told in page(case)


def test_a_short_series_has_no_trend() -> None:
    case = make("alert_case")
    short = {name: levels[-2:] for name, levels in case.series.items()}

    assert "Latest revisions" not in alerts.alert(replace(case, series=short)).text


def test_the_ten_worst_series_are_listed() -> None:
    case = make("alert_case")
    assert case.confirmed is not None
    lead = case.confirmed.effects[0]
    effects = tuple(
        replace(lead, scenario=f"s{i}", ln_ratio=-0.01 * i, low=-0.5, high=0.0)
        for i in range(1, 15)
    )
    text = alerts.alert(replace(case, lead="s1", confirmed=Confirmed(effects))).text
    shown = section(text, "Changes between the two ends").splitlines()

    assert [line.split()[0] for line in shown[1:11]] == [f"s{i}" for i in range(14, 4, -1)]
    assert shown[11] == "  and 4 more in the report"


def test_an_alert_has_the_commands_to_acknowledge_and_mute_it() -> None:
    assert "  netbisect alerts ack 17 --why" in alerts.alert(make("alert_case")).text
    assert "  netbisect alerts mute 17 --until" in alerts.alert(make("alert_case")).text


@pytest.mark.parametrize("name", ENDINGS)
def test_every_mail_has_a_next_action(name: str) -> None:
    assert section(alerts.outcome(make(name)).text, "Next")


def test_suspects_have_subjects() -> None:
    text = alerts.outcome(make("suspects_case")).text

    assert section(text, "Remaining candidates").splitlines() == [
        f"  {made['label'](number)}  net: tidy up the route lookup, part {number}"
        for number in (38, 39, 40)
    ]


def test_long_lists_are_cut_and_counted() -> None:
    revisions = tuple(made["revision"](number) for number in range(9, 40))
    finding = make("suspects_case").finding
    assert isinstance(finding, Suspects)
    finding = replace(finding, revisions=revisions)
    conditions = {f"sysctl.{number}": "1" for number in range(14)}

    text = alerts.outcome(make("suspects_case", finding=finding, conditions=conditions)).text
    assert "\n  and 19 more in the report\n" in text
    assert "\n  and 2 more in the report\n" in text


def test_effects_are_sorted_worst_first() -> None:
    text = alerts.outcome(make("culprit_case")).text

    rows = section(text, "Changes by this commit").splitlines()
    assert [row.split("  ")[1] for row in rows[1:]] == [
        "forwarding, inet4",
        "forwarding, inet6",
        "pf, inet4",
    ]


def test_rates_use_the_boots_of_the_effect() -> None:
    case = make("alert_case")
    effect = Effect("fwd4", math.log(0.5), math.log(0.4), math.log(0.6), 0.001, 2, 3)
    pps = {
        "fwd4": {
            case.good.revision: (9e9, 1_000_000.0, 4_000_000.0),
            case.bad.revision: (1.0, 1_000_000.0, 1_000_000.0, 1_000_000.0),
        }
    }

    text = alerts.alert(replace(case, confirmed=Confirmed((effect,)), pps=pps)).text
    row = section(text, "Changes between the two ends").splitlines()[1]
    assert row.split()[2:6] == ["2.000", "Mpps", "1.000", "Mpps"]
    assert "Too few boots for ministat" in text


def test_a_scenario_without_boots_has_no_rates() -> None:
    text = alerts.alert(make("alert_case", pps={})).text

    assert "forwarding, inet4  -       -      -10.9 % (-12.1 to -9.7)" in text


def test_disagreement_with_ministat_is_explained() -> None:
    case = make("alert_case")
    noisy = {
        revision: [rate * (1 + 0.4 * (-1) ** i) for i, rate in enumerate(boots)]
        for revision, boots in case.pps["fwd4"].items()
    }

    text = alerts.alert(replace(case, pps={"fwd4": noisy})).text
    assert "No difference proven at 95.0% confidence\n\nministat does not prove" in text
    assert "ministat reports a difference" in alerts.outcome(make("not_reproduced_case")).text


def test_a_culprit_has_its_mfc_date() -> None:
    text = alerts.outcome(make("culprit_case")).text

    assert "  MFC after: 2 weeks, not before 2026-03-16\n" in text
    assert "  Reviewed by: a reviewer\n" in text
    assert "  Differential Revision: https://reviews.freebsd.org/D51234\n" in text


def test_a_culprit_has_its_state_on_stable_branches() -> None:
    """Beside the commit, wrapped as everything else."""
    sentence = "It is due on stable/14 on 2026-12-05 (MFC after: 2 weeks)."
    text = alerts.outcome(make("culprit_case", stable=(sentence, sentence))).text

    assert " ".join(section(text, "The commit").split()).count(sentence) == 2
    assert sentence not in alerts.outcome(make("suspects_case", stable=(sentence,))).text


def test_an_unknown_culprit_appears_as_its_hash() -> None:
    text = alerts.outcome(make("culprit_case", commits=(), labels={})).text

    assert text.splitlines()[0] == "  what          commit 84363a3ebf"
    assert "\nThe commit\n" not in text


def test_unknown_values_are_left_out() -> None:
    case = make(
        "alert_case", links=Links(), command="", conditions={}, unmoved=(), hardware="", pps={}
    )

    text = alerts.alert(case).text
    for absent in ("Full report", "To reproduce", "Conditions", "()", "Did not"):
        assert absent not in text
    assert "\n\n\n" not in text


@pytest.mark.parametrize("name", ["alert_case", *ENDINGS])
def test_mails_have_single_blank_lines_and_no_blame(name: str) -> None:
    case = make(name)

    text = (alerts.alert if case.finding is None else alerts.outcome)(case).text
    assert "\n\n\n" not in text
    assert text.endswith(".\n")
    assert not re.search(r"\b(broke|broken|blame)", text)
    assert too_wide(text) == []


@settings(deadline=None, max_examples=60)
@given(text_of_people, st.sampled_from(ENDINGS))
def test_any_commit_subject_fits_and_is_encodable(subject: str, name: str) -> None:
    case = hostile(make(name), subject)

    for mail in (alerts.outcome(case), alerts.alert(replace(case, finding=None))):
        assert too_wide(mail.text) == []
        assert mail.subject.splitlines() == [mail.subject]
        mail.text.encode()
        assert set(re.findall(r"[\x00-\x1f\x7f-\x9f]", mail.text)) <= {"\n", "\t"}


@settings(deadline=None)
@given(st.lists(st.text("ab-/=.", min_size=1, max_size=90), min_size=1, max_size=30))
def test_a_command_can_be_pasted_from_its_lines(words: list[str]) -> None:
    command = " ".join(words)

    shown = plaintext.shell(command)
    assert shlex.split(shown.replace("\\\n", "")) == words
    assert all(len(line) <= WIDTH or len(line.split()) <= 2 for line in shown.splitlines())


def test_quoted_arguments_are_not_split() -> None:
    command = f"echo {'a' * 60} 'one two  three' | cat # not a comment"

    shown = plaintext.shell(command)
    assert "'one two  three'" in shown
    assert shown.endswith("# not a comment")
    assert plaintext.shell("echo 'open " + "a " * 50).count("\n") == 0


@settings(deadline=None)
@given(st.lists(st.lists(st.text("ab ", max_size=60), min_size=3, max_size=3), min_size=1))
def test_tables_fit_for_any_cells(rows: list[list[str]]) -> None:
    shown = plaintext.table(rows)

    assert too_wide(shown) == []
    assert "".join("".join(map("".join, rows)).split()).count("a") == shown.count("a")


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    text = "x" * 70 + " 10.9 % and " + "y" * 62 + " 1.488 Mpps"

    assert plaintext.wrap(text).splitlines() == [
        "x" * 70,
        "10.9 % and " + "y" * 62,
        "1.488 Mpps",
    ]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (
            NightlyJob("main", "c2558", "a" * 40, ("inet4-forwarding",), 5),
            "The night ended without",
        ),
        (
            CompareJob("main", "c2558", "a" * 40, "b" * 40, (), "inet4-forwarding", -0.1),
            "The confirmation ended without",
        ),
    ],
)
def test_a_failure_mail_has_its_reason(job: NightlyJob | CompareJob, said: str) -> None:
    """People learn that a night is missing, and what the lab said."""
    mail = alerts.trouble(job, Unfinished("c2558 does not come back after a power cycle."))

    assert mail.subject.startswith("[netbisect] main c2558: the ")
    assert said in mail.text
    assert "c2558 does not come back after a power cycle." in " ".join(mail.text.split())
    assert not too_wide(mail.text)


def test_a_change_of_state_has_its_reason() -> None:
    """In a few lines that fit, whatever the reason says."""
    effect = Effect("fwd4", math.log(0.9), math.log(0.88), math.log(0.92), 1e-6, 5, 6)
    why = "the level is back\x07 " + "since " * 40
    text = alerts.change(7, "over; the level is back", "fwd4 on c2558", effect, who="olga", why=why)

    assert text.startswith("Alert 7 is over; the level is back.\n\n  where   fwd4 on c2558\n")
    assert "-10.0 % (-12.0 to -8.0)" in text
    assert "`netbisect alerts show 7` shows its history." in text
    assert "\x07" not in text
    assert not too_wide(text)
