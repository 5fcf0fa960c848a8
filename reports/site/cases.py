"""The pages of alerts, comparisons and bisections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.results import Confirmed, Result
from netbisect.reports.model.case import Case
from netbisect.reports.model.types import AlertDocument, AlertSummary, SeenIn
from netbisect.reports.pages import page as case_page
from netbisect.reports.pages import profiles
from netbisect.reports.plots import chart
from netbisect.reports.render import words
from netbisect.reports.site import plots
from netbisect.reports.site.frame import FEEDS, Page, as_document, make_page
from netbisect.reports.site.view_models import alert_page, question_page

_PICTURED = 4
"""Scenarios of a comparison whose boots are drawn."""
_BYTES = 450_000
"""Most bytes of a page; flame graphs get the remainder."""
_FLAMES_LEAST = 45_000


@dataclass(frozen=True, slots=True)
class JobLink:
    """A job by its number."""

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
    document: AlertDocument,
    case: Case | None,
    *,
    title: Callable[[str], str],
    jobs: Sequence[JobLink],
    verbs: Sequence[tuple[str, str]] = (),
) -> Page:
    """The page of an alert.

    Args:
        document: The alert.
        case: Its measurements; None without a retest.
        title: Returns the name of a scenario for people.
        jobs: Its comparison and its search.
        verbs: Names and texts of what people can do with it.
    """
    values = _drawn(case) if case else {"case": None}
    values |= {
        "alert": document,
        "mood": _mood(document.state),
        "state_words": words.state(document),
        "seen": _latest_series(document),
        "title": title,
        "history": document.history,
        "jobs": jobs,
        "verbs": verbs,
    }
    page = partial(
        make_page,
        "alert.html",
        f"Alert {document.number}: {words.kind(document.kind)}, {title(document.lead)} on "
        f"{document.testbed}",
        alternates=[as_document(alert_page(document.number)), *FEEDS],
        trail=[("alerts.html", "Alerts")],
    )
    plain = page(**values)
    if case is None or not case.profiles:
        return plain
    rest = _BYTES - len(plain.html().encode("utf-8", "replace"))
    room = min(max(rest, _FLAMES_LEAST), profiles.BYTES)
    flames = profiles.sections(case.profiles, case.label, room, stem=_stem(document.number))
    return page(**values | {"profiles": flames})


def _drawn(case: Case) -> dict[str, Any]:
    """Values of the templates of a case, with its pictures but for flame graphs."""
    shown = case_page.pictured(case, case_page.PICTURED)
    return case_page.template_values(case) | {
        "pictures": [
            {
                "title": case.title(name),
                "trend": Markup(chart.trend(case, name)),  # noqa: S704 - our own drawing
                "boxes": Markup(chart.boxplot(case, name)),  # noqa: S704 - our own drawing
            }
            for name in shown
        ],
        "undrawn": len(case_page.scenarios(case)) - len(shown),
        "search": Markup(chart.path(case)),  # noqa: S704 - our own drawing
    }


def _latest_series(document: AlertDocument) -> list[SeenIn]:
    """Each series as announced last; those that moved first, the largest drop first."""
    latest = {(one.testbed, one.scenario, one.branch): one for one in document.series}
    return sorted(
        latest.values(),
        key=lambda one: (not one.moved, one.difference.ln_ratio if one.difference else 0.0),
    )


def _trail(alert: AlertSummary | None) -> list[tuple[str, str]]:
    if alert is None:
        return [("searches.html", "Searches")]
    return [("alerts.html", "Alerts"), (alert_page(alert.id), f"Alert {alert.id}")]


def drawings(case: Case) -> dict[str, str]:
    """Full flame graphs of an alert, by file name."""
    return profiles.files(case.profiles, case.label, _stem(case.number))


def _stem(alert: int) -> str:
    return alert_page(alert).removesuffix(".html")


def _mood(state: AlertState) -> str:
    if state.active:
        return "sure" if state is AlertState.CULPRIT_FOUND else "range"
    return "open" if state.standing else "calm"


def comparison(
    number: int,
    case: Case,
    finding: Result | None,
    *,
    alert: AlertSummary | None = None,
    following: JobLink | None = None,
) -> Page:
    """The page of a comparison.

    Args:
        number: Of the question.
        case: Its measurements.
        finding: Its answer.
        alert: That it is for.
        following: The search that followed from it.
    """
    state, headline = ("open", "running"), "The comparison is running."
    if finding is not None:
        headline = words.sentence(finding, case.label, case.title)
        confirmed = isinstance(finding, Confirmed)
        state = ("range", "confirmed") if confirmed else ("calm", "not confirmed")
    values = case_page.template_values(case) | {"state": state, "headline": headline}
    if not isinstance(finding, Confirmed):
        values["remark"] = ""
    return make_page(
        "comparison.html",
        f"Comparison {number}: {case.title(case.lead)} on {case.testbed}",
        current="searches.html",
        trail=_trail(alert),
        changing=finding is None,
        alternates=[as_document(question_page("comparison", number))],
        **values,
        alert=alert,
        next=following,
        pictures=[
            (case.title(name), Markup(chart.boxplot(case, name)))  # noqa: S704 - our own drawing
            for name in case_page.pictured(case, _PICTURED)
        ],
    )


def bisection(number: int, case: Case, alert: AlertSummary | None) -> Page:
    """The page of a bisection.

    Args:
        number: Of the question.
        case: Its measurements.
        alert: That it is for.
    """
    return make_page(
        "bisection.html",
        f"Bisection {number}: {case.title(case.lead)} on {case.testbed}",
        current="searches.html",
        trail=_trail(alert),
        changing=case.finding is None,
        alternates=[as_document(question_page("bisection", number))],
        **case_page.template_values(case),
        alert=alert,
        line=Markup(plots.commit_line(case)),  # noqa: S704 - our own drawing
        search=Markup(chart.path(case)),  # noqa: S704 - our own drawing
    )
