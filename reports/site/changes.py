"""The pages of alerts, comparisons and bisections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from netbisect.bisect.model.alert_state import AlertState
from netbisect.reports.model.changes import (
    BisectionDocument,
    CandidateDocument,
    ChangeDocument,
    ComparisonDocument,
    KernelFailure,
)
from netbisect.reports.model.profiles import ProfilePair
from netbisect.reports.model.types import AlertDocument, AlertSummary, SeenIn
from netbisect.reports.pages import profiles
from netbisect.reports.plots import chart
from netbisect.reports.render import summary, words
from netbisect.reports.site import plots
from netbisect.reports.site.files import JOB_KINDS, alert_page, job_page
from netbisect.reports.site.frame import FEEDS, File, Page, as_document, make_page

_PICTURED = 4
"""Scenarios of a comparison whose boots are drawn."""
_PICTURED_ALERT = 3
_FAILURES_MAX = 50
"""Maximum number of kernels with console logs on a page."""
_LOGS_BYTES = 40_000
"""Total characters of these logs."""
_LOG_LEAST = 400
_ATTEMPTS_MAX = 100
_COMMITS_MAX = 256
_BYTES = 450_000
"""Most bytes of a page; flame graphs get the remainder."""
_FLAMES_LEAST = 45_000


def alert(
    document: AlertDocument,
    change: ChangeDocument | None,
    *,
    title: Callable[[str], str],
    taken: tuple[ProfilePair, ...] = (),
    verbs: Sequence[tuple[str, str]] = (),
) -> Page:
    """The page of an alert.

    `change` has the measurements, None without a retest; `title` returns the display name of a
    scenario; `taken` are profiles of every culprit and its parent, if available; `verbs` names and
    help of the actions on the alert.
    """
    values = _drawn(change) if change else {"document": None}
    values |= {
        "alert": document,
        "settling": document.state.standing,
        "mood": _mood(document.state),
        "state_words": words.state(document),
        "seen": _latest_series(document),
        "title": title,
        "jobs": [(kind, job) for kind in JOB_KINDS if (job := getattr(document, kind))],
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
    if change is None or not taken:
        return plain
    rest = _BYTES - len(plain.html().encode("utf-8", "replace"))
    room = min(max(rest, _FLAMES_LEAST), profiles.BYTES)
    flames = profiles.sections(taken, change.label, room, stem=_stem(document.number))
    return page(**values | {"profiles": flames})


def _drawn(document: ChangeDocument) -> dict[str, Any]:
    """Values of the templates of a change, with its pictures but for flame graphs."""
    shown = _pictured(document, _PICTURED_ALERT)
    return _values(document) | {
        "trend": chart.trend(document),
        "pictures": [(document.title(name), chart.boxplot(document, name)) for name in shown],
        "undrawn": len(document.titles) - len(shown),
        "search": chart.path(document) if isinstance(document, BisectionDocument) else "",
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


def drawings(
    taken: tuple[ProfilePair, ...], change: ChangeDocument, alert: int
) -> Mapping[str, File]:
    """Full flame graphs of an alert, by file name."""
    return profiles.files(taken, change.label, _stem(alert))


def _stem(alert: int) -> str:
    return alert_page(alert).removesuffix(".html")


def _mood(state: AlertState) -> str:
    if state.active:
        return "sure" if state is AlertState.CULPRIT_FOUND else "range"
    return "open" if state.standing else "calm"


def comparison(
    document: ComparisonDocument,
    alert: AlertSummary | None = None,
    following: tuple[str, int] | None = None,
    request: int | None = None,
) -> Page:
    """The page of a comparison, with kind and number of the job that followed from it."""
    values = _values(document) | {
        "headline": document.sentence,
        "request": request,
        "withdrawn": alert is not None and alert.state is AlertState.WITHDRAWN,
    }
    return make_page(
        "comparison.html",
        f"Comparison {document.number}: {document.title(document.lead)} on {document.testbed}",
        current="searches.html",
        trail=_trail(alert),
        changing=document.outcome == "running",
        alternates=[as_document(job_page("comparison", document.number))],
        **values,
        next=following,
        pictures=[
            (document.title(name), chart.boxplot(document, name))
            for name in _pictured(document, _PICTURED)
        ],
    )


def bisection(
    document: BisectionDocument, alert: AlertSummary | None = None, request: int | None = None
) -> Page:
    """The page of a bisection."""
    return make_page(
        "bisection.html",
        f"Bisection {document.number}: {document.title(document.lead)} on {document.testbed}",
        current="searches.html",
        trail=_trail(alert),
        changing=document.outcome == "running",
        alternates=[as_document(job_page("bisection", document.number))],
        **_values(document) | {"request": request},
        line=plots.commit_line(document),
        search=chart.path(document),
    )


def _values(document: ChangeDocument) -> dict[str, Any]:
    """Values of the templates of a document, without flame graphs."""
    return {
        "document": document,
        "state": _STATES[document.outcome],
        "headline": summary.headline(document),
        "profiles": [],
        "attempts": document.steps[-_ATTEMPTS_MAX:],
        "candidates": _candidates(document),
        "failures": [_failure(document, one) for one in document.failures[:_FAILURES_MAX]],
        "settling": False,
    }


_STATES = {
    "running": ("open", "running"),
    "confirmed": ("range", "confirmed"),
    "not-confirmed": ("calm", "not confirmed"),
    "culprit": ("sure", "commit verified"),
    "several": ("sure", "several commits verified"),
    "drift": ("calm", "no single commit"),
    "suspects": ("range", "narrowed to a few commits"),
    "not-reproduced": ("calm", "not reproduced"),
    "unfinished": ("open", "no result"),
}
"""A CSS class and a text by outcome."""


def _pictured(document: ChangeDocument, most: int) -> list[str]:
    """The scenarios with plots: the leading one, and those with the largest drops."""
    change = {one.scenario: one.ln_ratio for one in document.differences}
    names = sorted(document.titles, key=lambda name: (name != document.lead, change.get(name, 0.0)))
    return names[:most]


def _failure(document: ChangeDocument, failure: KernelFailure) -> dict[str, str]:
    """Label, reason and end of the log."""
    most = max(_LOGS_BYTES // min(len(document.failures), _FAILURES_MAX), _LOG_LEAST)
    log = failure.log
    if len(log) > most:
        log = f"({len(log) - most:,} characters before)\n{log[-most:]}"
    return {"label": document.label(failure.revision), "why": failure.why, "log": log}


def _candidates(document: ChangeDocument) -> list[CandidateDocument]:
    """Oldest first; of very many, the likeliest."""
    likely = sorted(document.candidates, key=lambda one: -(one.chance or 0.0))[:_COMMITS_MAX]
    kept = {one.commit.revision for one in likely}
    return [one for one in document.candidates if one.commit.revision in kept]
