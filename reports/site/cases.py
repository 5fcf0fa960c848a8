"""The pages of alerts, comparisons and bisections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from netbisect.bisect.model import Confirmed, Finding
from netbisect.bisect.states import AlertState
from netbisect.reports import chart, profiles, words
from netbisect.reports import page as case_page
from netbisect.reports.case import Case, Deed
from netbisect.reports.site import plots
from netbisect.reports.site.frame import FEEDS, as_document, render
from netbisect.reports.site.nouns import AlertLine, SeenIn, alert_page, question_page

_PICTURED = 4
"""Scenarios whose boots are drawn."""


@dataclass(frozen=True, slots=True)
class Link:
    """A question by its number."""

    kind: str
    """`comparison` or `bisection`."""
    number: int

    @property
    def page(self) -> str:
        """Its file."""
        return question_page(self.kind, self.number)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind} {self.number}"


def alert(
    line: AlertLine,
    case: Case | None,
    *,
    seen: Sequence[SeenIn],
    deeds: Sequence[Deed],
    questions: Sequence[Link],
) -> str:
    """The page of an alert.

    Args:
        line: What it is.
        case: All that was measured for it; None for what was seen and not measured in turns.
        seen: The series in which it was looked for.
        deeds: What was done to it, oldest first.
        questions: That were asked for it, oldest first.
    """
    told = case_page.told(case) if case else {"case": None}
    pictures: dict[str, object] = {}
    if case:
        pictures["profiles"] = profiles.sections(
            case.profiles, case.label, stem=_stem(line.number) if case.profiles else ""
        )
        pictures["trend"] = Markup(chart.trend(case, case.lead))  # noqa: S704 - our own drawing
        pictures["boxes"] = Markup(chart.boxplot(case, case.lead))  # noqa: S704 - our own drawing
    return render(
        "alert.html",
        f"Alert {line.number}: {words.kind(line.kind)}, {line.lead} on {line.testbed}",
        alternates=[as_document(line.page), *FEEDS],
        **(told | pictures),
        alert=line,
        mood=_mood(line),
        state_words=words.state(line.state, until=line.until, into=line.into),
        seen=seen,
        deeds=deeds,
        questions=questions,
    )


def drawings(case: Case) -> dict[str, str]:
    """The files beside the page of an alert: its flame graphs as a whole, by their names."""
    return profiles.files(case.profiles, case.label, _stem(case.number))


def _stem(alert: int) -> str:
    return alert_page(alert).removesuffix(".html")


def _mood(line: AlertLine) -> str:
    if line.wanting:
        return "sure" if line.state is AlertState.CULPRIT_FOUND else "range"
    return "open" if line.state.standing else "calm"


def comparison(
    number: int,
    case: Case,
    finding: Finding | None,
    *,
    alert: AlertLine | None = None,
    following: Link | None = None,
) -> str:
    """The page of a comparison.

    Args:
        number: Of the question.
        case: What was measured for it.
        finding: Its answer.
        alert: That it is for.
        following: The search that followed from it.
    """
    state, headline = ("open", "running"), "It is being measured in turns."
    if finding is not None:
        headline = words.sentence(finding, case.label, case.title)
        confirmed = isinstance(finding, Confirmed)
        state = ("range", "confirmed") if confirmed else ("calm", "not confirmed")
    told = case_page.told(case) | {"state": state, "headline": headline}
    if not isinstance(finding, Confirmed):
        told["remark"] = ""
    return render(
        "comparison.html",
        f"Comparison {number}: {case.title(case.lead)} on {case.testbed}",
        current="searches.html",
        alternates=[as_document(question_page("comparison", number))],
        **told,
        alert=alert,
        next=following,
        pictures=[
            (case.title(name), Markup(chart.boxplot(case, name)))  # noqa: S704 - our own drawing
            for name in case_page.pictured(case, _PICTURED)
        ],
    )


def bisection(number: int, case: Case, alert: AlertLine | None) -> str:
    """The page of a bisection: every visit, and how the chances narrowed.

    Args:
        number: Of the question.
        case: What was measured for it.
        alert: That it is for.
    """
    return render(
        "bisection.html",
        f"Bisection {number}: {case.title(case.lead)} on {case.testbed}",
        current="searches.html",
        alternates=[as_document(question_page("bisection", number))],
        **case_page.told(case),
        alert=alert,
        line=Markup(plots.commit_line(case)),  # noqa: S704 - our own drawing
        search=Markup(chart.path(case)),  # noqa: S704 - our own drawing
    )
