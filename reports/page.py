"""The page of a case: one file that explains itself, without script, on screen and on paper."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any, assert_never

from markupsafe import Markup

from netbisect.bisect.model import (
    Culprit,
    Drift,
    NotReproduced,
    Several,
    Suspects,
    Unfinished,
)
from netbisect.reports import chart, gist, profiles, words
from netbisect.reports.case import Attempt, Case, Failure
from netbisect.reports.templating import environment

_FAILURES_MAX = 50
"""Kernels whose last words are on a page."""
_LOGS_BYTES = 40_000
"""Of all last words together."""
_LOG_LEAST = 400
_ATTEMPTS_MAX = 100
_COMMITS_MAX = 256
PICTURED = 3
"""Scenarios whose nights and boots are drawn, the leading one first."""
_BYTES = 290_000
"""Of a page; flame graphs have what the rest of it leaves."""
_FLAMES_LEAST = 45_000


def page(case: Case) -> str:
    """All that is known about a case, as HTML; less than 300 kB, however much that is."""
    template = environment.get_template("page.html")
    shown = pictured(case, PICTURED)
    view = {
        **told(case),
        "pictures": [_pictures(case, scenario) for scenario in shown],
        "undrawn": len(scenarios(case)) - len(shown),
        "search": Markup(chart.path(case)),  # noqa: S704 - our own drawing, its texts escaped
    }
    if case.profiles:
        rest = len(template.render(view).encode("utf-8", "replace"))
        room = min(max(_BYTES - rest, _FLAMES_LEAST), profiles.BYTES)
        view["profiles"] = profiles.sections(case.profiles, case.label, room)
    return template.render(view)


def told(case: Case) -> dict[str, Any]:
    """What the templates of a case tell in words and numbers, by the names they use.

    Flame graphs are left to those who know how much room they have.
    """
    return {
        "case": case,
        "state": _state(case),
        "headline": gist.headline(case),
        "reasons": gist.why(case),
        "culprit": case.commit(case.finding.revision)
        if isinstance(case.finding, Culprit)
        else None,
        "suspects": case.finding.revisions if isinstance(case.finding, Suspects) else (),
        "heading": gist.heading(case),
        "rows": gist.rows(case),
        "unmoved": words.listing(list(case.unmoved)),
        "profiles": [],
        "attempts": [_attempt(case, attempt) for attempt in case.attempts[-_ATTEMPTS_MAX:]],
        "attempts_left": max(len(case.attempts) - _ATTEMPTS_MAX, 0),
        "stops": [astuple(stop) for stop in gist.path(case)],
        "block": gist.block(case),
        "remark": gist.remark(case),
        "candidates": _candidates(case),
        "candidates_left": max(len(case.commits) - _COMMITS_MAX, 0),
        "crashes": gist.crashes(case),
        "failures": [_failure(case, one) for one in case.failures[:_FAILURES_MAX]],
        "failures_left": max(len(case.failures) - _FAILURES_MAX, 0),
        "none": _none(case),
        "cost": gist.cost(case),
        "measured_on": gist.measured_on(case),
        "trailers": gist.trailers,
        "reviews": gist.reviews,
        "settling": bool(case.number) and _stands(case),
    }


def _stands(case: Case) -> bool:
    """Whether there is an alert to be settled, as far as anybody wrote it down."""
    states = [deed.state for deed in case.deeds if deed.state is not None]
    return not states or states[-1].standing


def _state(case: Case) -> tuple[str, str]:  # noqa: PLR0911 - one for every ending
    """A word for the style sheet and one for people."""
    match case.finding:
        case None:
            return "open", "search running"
        case Culprit():
            return "sure", "commit verified"
        case Several():
            return "sure", "several commits verified"
        case Drift():
            return "calm", "no single commit"
        case Suspects():
            return "range", "narrowed to a few commits"
        case NotReproduced():
            return "calm", "not reproduced"
        case Unfinished():
            return "open", "no answer"
        case _:
            assert_never(case.finding)


def scenarios(case: Case) -> list[str]:
    """The leading scenario first."""
    others = [scenario for scenario in case.titles if scenario != case.lead]
    return [case.lead, *others]


def pictured(case: Case, most: int) -> list[str]:
    """The scenarios that are drawn: the leading one, and those that lost most."""
    change = {effect.scenario: effect.ln_ratio for effect in gist.effects(case)}
    names = sorted(scenarios(case)[1:], key=lambda name: change.get(name, 0.0))
    return [case.lead, *names][:most]


def _pictures(case: Case, scenario: str) -> dict[str, Any]:
    return {
        "title": case.title(scenario),
        "trend": Markup(chart.trend(case, scenario)),  # noqa: S704 - as above
        "boxes": Markup(chart.boxplot(case, scenario)),  # noqa: S704 - as above
    }


def _attempt(case: Case, attempt: Attempt) -> dict[str, Any]:
    measured = attempt.ln_pps is not None
    return {
        "measured": measured,
        "seq": attempt.seq,
        "at": words.moment(attempt.at),
        "what": _what(case, attempt),
        "revision": case.label(attempt.revision),
        "result": words.pps(math.exp(attempt.ln_pps or 0.0)) if measured else attempt.outcome,
        "leader": gist.leader(case, attempt.belief),
        "why": attempt.why,
        "took": words.duration(attempt.seconds),
    }


def _failure(case: Case, failure: Failure) -> dict[str, str]:
    """Its last words, of which the last ones count."""
    most = max(_LOGS_BYTES // min(len(case.failures), _FAILURES_MAX), _LOG_LEAST)
    log = failure.log
    if len(log) > most:
        log = f"({len(log) - most:,} characters before)\n{log[-most:]}"
    return {"label": case.label(failure.revision), "why": failure.why, "log": log}


def _what(case: Case, attempt: Attempt) -> str:
    if attempt.stage == "kernel":
        return "build"
    where = f" on {attempt.testbed or case.testbed}" if case.testbeds else ""
    return f"boot and runs{where}"


def _candidates(case: Case) -> list[dict[str, Any]]:
    """Oldest first; of very many, the likeliest."""
    belief = gist.belief(case)
    chances = belief.chances if belief else {}
    listed = sorted(case.commits, key=lambda one: -chances.get(one.revision, 0.0))[:_COMMITS_MAX]
    kept = {commit.revision for commit in listed}
    return [
        {
            "commit": commit,
            "label": case.label(commit.revision),
            "link": case.links.to_commit(commit.revision),
            "chance": words.certainty(chances[commit.revision])
            if commit.revision in chances
            else "",
            "share": min(round(100 * chances.get(commit.revision, 0.0)), 100),
            "skipped": case.skipped.get(commit.revision, ""),
        }
        for commit in case.commits
        if commit.revision in kept
    ]


def _none(case: Case) -> str:
    belief = gist.belief(case)
    return words.certainty(belief.none) if belief else ""
