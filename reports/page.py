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
from netbisect.reports.case import Attempt, Case
from netbisect.reports.templating import environment

_FAILURES_MAX = 50
"""Kernels whose last words are on a page."""


def page(case: Case) -> str:
    """All that is known about a case, as HTML."""
    return environment.get_template("page.html").render(
        pictures=[_pictures(case, scenario) for scenario in scenarios(case)],
        search=Markup(chart.path(case)),  # noqa: S704 - our own drawing, its texts escaped
        **told(case),
    )


def told(case: Case) -> dict[str, Any]:
    """What the templates of a case tell in words and numbers, by the names they use."""
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
        "profiles": profiles.sections(case.profiles, case.label),
        "attempts": [_attempt(case, attempt) for attempt in case.attempts],
        "stops": [astuple(stop) for stop in gist.path(case)],
        "block": gist.block(case),
        "remark": gist.remark(case),
        "candidates": _candidates(case),
        "crashes": gist.crashes(case),
        "failures": case.failures[:_FAILURES_MAX],
        "failures_left": max(len(case.failures) - _FAILURES_MAX, 0),
        "none": _none(case),
        "cost": gist.cost(case),
        "trailers": gist.trailers,
        "reviews": gist.reviews,
    }


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


def _pictures(case: Case, scenario: str) -> dict[str, Any]:
    return {
        "title": case.title(scenario),
        "trend": Markup(chart.trend(case, scenario)),  # noqa: S704 - as above
        "boxes": Markup(chart.boxplot(case, scenario)),  # noqa: S704 - as above
    }


def _attempt(case: Case, attempt: Attempt) -> dict[str, Any]:
    measured = attempt.ln_pps is not None
    return {
        "seq": attempt.seq,
        "at": words.moment(attempt.at),
        "what": "build" if attempt.stage == "kernel" else "boot and runs",
        "revision": case.label(attempt.revision),
        "result": words.pps(math.exp(attempt.ln_pps or 0.0)) if measured else attempt.outcome,
        "leader": gist.leader(case, attempt.belief),
        "why": attempt.why,
        "took": words.duration(attempt.seconds),
    }


def _candidates(case: Case) -> list[dict[str, Any]]:
    belief = gist.belief(case)
    chances = belief.chances if belief else {}
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
    ]


def _none(case: Case) -> str:
    belief = gist.belief(case)
    return words.certainty(belief.none) if belief else ""
