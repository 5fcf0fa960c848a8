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

from netbisect.bisect.model import Comparison, Confirmed, Effect, Night, Suspects, Unfinished
from netbisect.reports import mail, plaintext
from netbisect.reports.case import Case, Failure, Links

HERE = Path(__file__).parent
made = runpy.run_path(str(HERE / "report_cases.py"))
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


@pytest.mark.parametrize(("name", "write"), [("alert", mail.alert), ("outcome", mail.outcome)])
def test_letters_are_as_they_were_approved(name: str, write: Callable[[Case], mail.Letter]) -> None:
    """tests/golden holds them; after a change of words, look at the new text and replace it."""
    letter = write(make({"alert": "alert_case", "outcome": "culprit_case"}[name]))

    golden = (HERE / "golden" / f"{name}.txt").read_text()
    assert f"Subject: {letter.subject}\n\n{letter.text}" == golden


def test_a_panic_under_load_is_told_as_a_matter_of_its_own() -> None:
    """In its own words; those that did not come up stand where they were skipped."""
    case = make("culprit_case")
    name, why = case.commits[5].revision, "the router went down: panic: page fault"
    failures = (Failure(name, case.lead, why, "#0"), Failure(name, "", "panic: x", "#0"))
    text = mail.outcome(replace(case, failures=failures)).text

    told = section(text, "Kernels that went down under load, which is a matter of its own")
    assert "".join(told.split()).startswith("".join(case.label(name).split()))
    assert "panic: page" in told
    assert "panic: x" not in text
    assert too_wide(text) == []


@pytest.mark.parametrize("name", ENDINGS)
def test_an_outcome_is_a_reply_to_its_alert(name: str) -> None:
    case = make(name)

    assert mail.outcome(case).subject == f"Re: {mail.alert(case).subject}"


def test_without_an_alert_there_is_nothing_to_reply_to() -> None:
    letter = mail.outcome(make("culprit_case", confirmed=None))

    assert letter.subject == "[netbisect] main c2558: forwarding, inet4 between n8 and n72"


def test_old_histories_are_named_by_their_revision_numbers() -> None:
    case = make("alert_case")
    good, bad = replace(case.good, revision="r311848"), replace(case.bad, revision="r311849")

    subject = mail.alert(replace(case, good=good, bad=bad)).subject
    assert subject.endswith("between r311848 and r311849")


def test_there_is_no_alert_without_a_confirmed_drop() -> None:
    with pytest.raises(ValueError, match="case 17: no drop was confirmed"):
        mail.alert(make("alert_case", confirmed=None))


def test_there_is_no_outcome_before_the_end() -> None:
    with pytest.raises(ValueError, match="case 17: the search has not ended"):
        mail.outcome(make("alert_case"))


@pytest.mark.parametrize("name", ["suspects_case", "not_reproduced_case", "unfinished_case"])
def test_only_a_verified_commit_is_named_with_its_author(name: str) -> None:
    text = mail.outcome(make(name)).text

    assert "A Committer" not in text
    assert "The commit\n" not in text
    assert "Certainty that it is this commit" not in text


def test_an_alert_names_no_commit_but_the_ends() -> None:
    case = make("alert_case")

    text = mail.alert(case).text
    nights = section(text, "The last revisions, slower to the left")
    text = text.replace(nights, "")  # which revisions were measured is no guess
    hashes = set(re.findall(r"n\d+-[0-9a-f]{12}", text))
    assert hashes == {case.label(case.good.revision), case.label(case.bad.revision)}
    assert case.good.author not in text


def test_the_trend_has_a_rule_where_the_level_changed() -> None:
    """Between the last good and the first bad revision, with what the two differ by."""
    case = make("alert_case")
    lines = section(mail.alert(case).text, "The last revisions, slower to the left").splitlines()
    [rule] = [i for i, line in enumerate(lines) if line.startswith("  -----")]

    assert case.label(case.good.revision) in lines[rule - 1]
    assert case.label(case.bad.revision) in lines[rule + 1]
    assert "-10.9 %" in lines[rule]
    assert len(lines) == 13
    before, after = lines[rule - 1].index("*"), lines[rule + 1].index("*")
    assert before > after + 10, "slower is to the left"


def test_a_series_that_is_too_short_has_no_trend() -> None:
    case = make("alert_case")
    short = {name: levels[-2:] for name, levels in case.series.items()}

    assert "The last revisions" not in mail.alert(replace(case, series=short)).text


def test_of_many_series_the_ten_worst_are_shown() -> None:
    case = make("alert_case")
    assert case.confirmed is not None
    lead = case.confirmed.effects[0]
    effects = tuple(
        replace(lead, scenario=f"s{i}", ln_ratio=-0.01 * i, low=-0.5, high=0.0)
        for i in range(1, 15)
    )
    text = mail.alert(replace(case, lead="s1", confirmed=Confirmed(effects))).text
    shown = section(text, "What changed between the two ends").splitlines()

    assert [line.split()[0] for line in shown[1:11]] == [f"s{i}" for i in range(14, 4, -1)]
    assert shown[11] == "  and 4 more on the page"


def test_how_to_accept_and_to_mute_can_be_pasted() -> None:
    assert "  netbisect alerts ack 17 --why" in mail.alert(make("alert_case")).text
    assert "  netbisect alerts mute 17 --until" in mail.alert(make("alert_case")).text


@pytest.mark.parametrize("name", ENDINGS)
def test_every_letter_says_what_happens_next(name: str) -> None:
    assert section(mail.outcome(make(name)).text, "What happens next")


def test_suspects_are_listed_with_their_subjects() -> None:
    text = mail.outcome(make("suspects_case")).text

    assert section(text, "The commits that remain").splitlines() == [
        f"  {made['label'](number)}  net: tidy up the route lookup, part {number}"
        for number in (38, 39, 40)
    ]


def test_long_lists_are_cut_and_counted() -> None:
    revisions = tuple(made["revision"](number) for number in range(9, 40))
    finding = make("suspects_case").finding
    assert isinstance(finding, Suspects)
    finding = replace(finding, revisions=revisions)
    conditions = {f"sysctl.{number}": "1" for number in range(14)}

    text = mail.outcome(make("suspects_case", finding=finding, conditions=conditions)).text
    assert "\n  and 19 more on the page\n" in text
    assert "\n  and 2 more on the page\n" in text


def test_effects_are_told_worst_first_with_what_they_rest_on() -> None:
    text = mail.outcome(make("culprit_case")).text

    rows = section(text, "What this commit changed").splitlines()
    assert [row.split("  ")[1] for row in rows[1:]] == [
        "forwarding, inet4",
        "forwarding, inet6",
        "pf, inet4",
    ]


def test_before_and_after_are_the_latest_boots_that_the_effect_counts() -> None:
    case = make("alert_case")
    effect = Effect("fwd4", math.log(0.5), math.log(0.4), math.log(0.6), 0.001, 2, 3)
    pps = {
        "fwd4": {
            case.good.revision: (9e9, 1_000_000.0, 4_000_000.0),
            case.bad.revision: (1.0, 1_000_000.0, 1_000_000.0, 1_000_000.0),
        }
    }

    text = mail.alert(replace(case, confirmed=Confirmed((effect,)), pps=pps)).text
    row = section(text, "What changed between the two ends").splitlines()[1]
    assert row.split()[2:6] == ["2.000", "Mpps", "1.000", "Mpps"]
    assert "Too few boots for ministat" in text


def test_a_scenario_without_boots_leaves_its_rates_open() -> None:
    text = mail.alert(make("alert_case", pps={})).text

    assert "forwarding, inet4  -       -      -10.9 % (-12.1 to -9.7)" in text


def test_disagreement_with_ministat_is_explained() -> None:
    case = make("alert_case")
    noisy = {
        revision: [rate * (1 + 0.4 * (-1) ** i) for i, rate in enumerate(boots)]
        for revision, boots in case.pps["fwd4"].items()
    }

    text = mail.alert(replace(case, pps={"fwd4": noisy})).text
    assert "No difference proven at 95.0% confidence\n\nministat does not prove" in text
    assert "ministat sees these two" in mail.outcome(make("not_reproduced_case")).text


def test_the_way_of_the_culprit_to_other_branches_is_told() -> None:
    text = mail.outcome(make("culprit_case")).text

    assert "  MFC after: 2 weeks, not before 2026-03-16\n" in text
    assert "  Reviewed by: a reviewer\n" in text
    assert "  Differential Revision: https://reviews.freebsd.org/D51234\n" in text


def test_what_becomes_of_the_culprit_on_stable_branches_is_told() -> None:
    """Beside the commit, wrapped as everything else."""
    sentence = "It is due on stable/14 on 2026-12-05 (MFC after: 2 weeks)."
    text = mail.outcome(make("culprit_case", stable=(sentence, sentence))).text

    assert " ".join(section(text, "The commit").split()).count(sentence) == 2
    assert sentence not in mail.outcome(make("suspects_case", stable=(sentence,))).text


def test_a_culprit_of_which_only_the_hash_is_known_is_told_by_it() -> None:
    text = mail.outcome(make("culprit_case", commits=(), labels={})).text

    assert text.startswith("Commit 84363a3ebf40 made forwarding, inet4 slower")
    assert "\nThe commit\n" not in text


def test_what_is_not_known_is_left_out() -> None:
    case = make(
        "alert_case", links=Links(), command="", conditions={}, unmoved=(), hardware="", pps={}
    )

    text = mail.alert(case).text
    for absent in ("Everything about it", "To measure it again", "Conditions", "()", "Did not"):
        assert absent not in text
    assert "\n\n\n" not in text


@pytest.mark.parametrize("name", ["alert_case", *ENDINGS])
def test_no_gap_is_wider_than_a_line_and_no_word_accuses(name: str) -> None:
    case = make(name)

    text = (mail.alert if case.finding is None else mail.outcome)(case).text
    assert "\n\n\n" not in text
    assert text.endswith("that.\n")
    assert not re.search(r"\b(broke|broken|blame)", text)
    assert too_wide(text) == []


@settings(deadline=None, max_examples=60)
@given(text_of_people, st.sampled_from(ENDINGS))
def test_whatever_a_commit_says_the_lines_fit_and_can_be_sent(subject: str, name: str) -> None:
    case = hostile(make(name), subject)

    for letter in (mail.outcome(case), mail.alert(replace(case, finding=None))):
        assert too_wide(letter.text) == []
        assert letter.subject.splitlines() == [letter.subject]
        letter.text.encode()
        assert set(re.findall(r"[\x00-\x1f\x7f-\x9f]", letter.text)) <= {"\n", "\t"}


@settings(deadline=None)
@given(st.lists(st.text("ab-/=.", min_size=1, max_size=90), min_size=1, max_size=30))
def test_a_command_can_be_pasted_from_its_lines(words: list[str]) -> None:
    command = " ".join(words)

    shown = plaintext.shell(command)
    assert shlex.split(shown.replace("\\\n", "")) == words
    assert all(len(line) <= WIDTH or len(line.split()) <= 2 for line in shown.splitlines())


def test_quoted_words_of_a_command_stay_whole() -> None:
    command = f"echo {'a' * 60} 'one two  three' | cat # not a comment"

    shown = plaintext.shell(command)
    assert "'one two  three'" in shown
    assert shown.endswith("# not a comment")
    assert plaintext.shell("echo 'open " + "a " * 50).count("\n") == 0


@settings(deadline=None)
@given(st.lists(st.lists(st.text("ab ", max_size=60), min_size=3, max_size=3), min_size=1))
def test_tables_fit_whatever_their_cells(rows: list[list[str]]) -> None:
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
    ("question", "said"),
    [
        (Night("main", "c2558", "a" * 40, ("inet4-forwarding",), 5), "The night ended without"),
        (
            Comparison("main", "c2558", "a" * 40, "b" * 40, (), "inet4-forwarding", -0.1),
            "The confirmation ended without",
        ),
    ],
)
def test_trouble_says_what_has_no_result_and_why(question: Night | Comparison, said: str) -> None:
    """People learn that a night is missing, and what the lab said."""
    letter = mail.trouble(question, Unfinished("c2558 does not come back after a power cycle."))

    assert letter.subject.startswith("[netbisect] main c2558: the ")
    assert said in letter.text
    assert "c2558 does not come back after a power cycle." in " ".join(letter.text.split())
    assert not too_wide(letter.text)


def test_what_became_of_an_alert_is_told_with_its_reason() -> None:
    """In a few lines that fit, whatever the reason says."""
    effect = Effect("fwd4", math.log(0.9), math.log(0.88), math.log(0.92), 1e-6, 5, 6)
    why = "the level is back\x07 " + "since " * 40
    text = mail.change(7, "over; the level is back", "fwd4 on c2558", effect, who="olga", why=why)

    assert text.startswith("Alert 7 is over; the level is back.\n\n  where   fwd4 on c2558\n")
    assert "-10.0 % (-12.0 to -8.0)" in text
    assert "`netbisect alerts show 7` has its history." in text
    assert "\x07" not in text
    assert not too_wide(text)
