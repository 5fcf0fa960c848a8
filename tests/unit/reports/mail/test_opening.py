"""Subject and first five lines of a mail about an alert."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_cases import make

from netbisect.reports.mail import alerts
from netbisect.reports.model.changes import BisectionDocument


def with_subject(case: BisectionDocument, subject: str) -> BisectionDocument:
    candidates = tuple(
        replace(one, commit=replace(one.commit, subject=subject)) for one in case.candidates
    )
    return replace(case, candidates=candidates)


def test_subject_names_a_verified_commit_and_truncates_long_names() -> None:
    case = with_subject(make("culprit_case"), "e1000: Migrate igb(4) to iflib")
    several = replace(case, outcome="several", culprits=case.culprits * 3)
    start = "[netbisect] main: 84363a3ebf e1000: Migrate igb(4) to iflib"

    assert alerts.mail(case).subject == f"{start}: forwarding, inet4 -10.9 % on c2558"
    assert alerts.mail(several).subject.startswith(f"{start} (and 2 more): forwarding")
    assert "Migrate igb(4) to iflib (A Committer)" in alerts.mail(several).text

    case = with_subject(case, "e1000: " + "x" * 300)
    assert f"{'x' * 50}...: forwarding, inet4 -10.9 % on c2558" in alerts.mail(case).subject
    case = replace(case, titles={"fwd4": "forwarding " * 90})
    assert 150 < len(alerts.mail(case).subject) <= 160


def test_gain_besides_the_drop_is_in_the_first_lines() -> None:
    case = make("culprit_case")
    drop, *others = case.differences
    gain = replace(others[0], ln_ratio=0.07, ln_low=0.05, ln_high=0.09)
    case = replace(case, differences=(drop, gain, *others[1:]))

    assert "  but           +7.3 % (+5.1 to +9.4), forwarding, inet6\n" in alerts.mail(case).text
    assert "  but  " not in alerts.mail(make("culprit_case")).text


def test_only_commit_of_a_range_is_not_named_before_verification() -> None:
    case = make("alert_case")
    text = alerts.mail(replace(case, candidates=case.candidates[-1:])).text

    assert "committed by  not known; the only commit is not verified" in text


@pytest.mark.parametrize(
    ("name", "certainty", "committer", "action"),
    [
        ("suspects_case", "97.0 % that it is one of", "one of 3 commits", "look at these commits"),
        (
            "not_reproduced_case",
            "97.0 % that nothing",
            "not applicable",
            "nothing; the alert is withdrawn",
        ),
        ("unfinished_case", "by chance", "one of 64 commits", "look at the lab"),
    ],
)
def test_first_five_lines_summarize_the_alert(
    name: str, certainty: str, committer: str, action: str
) -> None:
    """The mail is a reply; the golden files show the first lines of the other results."""
    case = make(name)
    text = alerts.mail(case).text
    lines = text.splitlines()[:6]
    first = alerts.mail(replace(case, outcome="running"))

    assert [line[2:14].rstrip() for line in lines] == [
        "what", "how much", "how sure", "committed by", "to do", "",
    ]  # fmt: skip
    assert "-10.9 % (-12.1 to -9.7), forwarding, inet4 on c2558" in lines[1]
    for line, words in zip(lines[2:], (certainty, committer, action), strict=False):
        assert words in line
    assert alerts.mail(case).subject == f"Re: {first.subject}"
    for words in ("A Committer", "The commit\n", "Probability that it is this commit"):
        assert words not in text


def test_result_without_an_alert_is_not_a_reply() -> None:
    mail = alerts.mail(make("culprit_case", retest=()))

    assert mail.subject == (
        "[netbisect] main: 84363a3ebf net: tidy up the route lookup, part 40: "
        "forwarding, inet4 -10.9 % on c2558"
    )
    unknown = alerts.mail(make("unfinished_case", retest=(), differences=()))
    assert unknown.subject == "[netbisect] main: forwarding, inet4 on c2558 between n8 and n72"
