"""Values of the templates of a case."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, assert_never

from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    NotReproduced,
    SeveralCulprits,
    Suspects,
    Unfinished,
)
from netbisect.reports.model.case import Attempt, Case, KernelFailure
from netbisect.reports.render import summary, words

_FAILURES_MAX = 50
"""Maximum number of kernels with console logs on a page."""
_LOGS_BYTES = 40_000
"""Total characters of these logs."""
_LOG_LEAST = 400
_ATTEMPTS_MAX = 100
_COMMITS_MAX = 256
PICTURED = 3
"""Maximum number of scenarios with plots, the leading one first."""


def template_values(case: Case) -> dict[str, Any]:
    """Values of the templates of a case, by name.

    Flame graphs are left to those who know how much room they have.
    """
    return {
        "case": case,
        "state": _state(case),
        "headline": summary.headline(case),
        "reasons": summary.why(case),
        "culprit": case.commit(case.finding.revision)
        if isinstance(case.finding, Culprit)
        else None,
        "suspects": case.finding.revisions if isinstance(case.finding, Suspects) else (),
        "heading": summary.heading(case),
        "rows": summary.rows(case),
        "unmoved": words.listing(list(case.unmoved)),
        "profiles": [],
        "attempts": [_attempt(case, attempt) for attempt in case.attempts[-_ATTEMPTS_MAX:]],
        "attempts_left": max(len(case.attempts) - _ATTEMPTS_MAX, 0),
        "stops": [astuple(stop) for stop in summary.path(case)],
        "block": summary.block(case),
        "remark": summary.remark(case),
        "candidates": _candidates(case),
        "candidates_left": max(len(case.commits) - _COMMITS_MAX, 0),
        "crashes": summary.crashes(case),
        "failures": [_failure(case, one) for one in case.failures[:_FAILURES_MAX]],
        "failures_left": max(len(case.failures) - _FAILURES_MAX, 0),
        "none": _none(case),
        "cost": summary.cost(case),
        "measured_on": summary.measured_on(case),
        "trailers": summary.trailers,
        "reviews": summary.reviews,
        "settling": bool(case.number) and _stands(case),
    }


def _stands(case: Case) -> bool:
    """Whether the alert is open, as far as recorded."""
    states = [one.state for one in case.history if one.state is not None]
    return not states or states[-1].standing


def _state(case: Case) -> tuple[str, str]:  # noqa: PLR0911 - one for every ending
    """A CSS class and a text."""
    match case.finding:
        case None:
            return "open", "search running"
        case Culprit():
            return "sure", "commit verified"
        case SeveralCulprits():
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
    """The scenarios with plots: the leading one, and those with the largest drops."""
    change = {effect.scenario: effect.ln_ratio for effect in summary.effects(case)}
    names = sorted(scenarios(case)[1:], key=lambda name: change.get(name, 0.0))
    return [case.lead, *names][:most]


def _attempt(case: Case, attempt: Attempt) -> dict[str, Any]:
    measured = attempt.ln_pps is not None
    return {
        "measured": measured,
        "seq": attempt.seq,
        "at": words.moment(attempt.at),
        "what": _what(case, attempt),
        "revision": case.label(attempt.revision),
        "result": words.level(attempt.ln_pps or 0.0, case.lead) if measured else attempt.outcome,
        "leader": summary.leader(case, attempt.belief),
        "why": attempt.why,
        "took": words.duration(attempt.seconds),
    }


def _failure(case: Case, failure: KernelFailure) -> dict[str, str]:
    """Label, reason and end of the log."""
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
    belief = summary.belief(case)
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
    belief = summary.belief(case)
    return words.certainty(belief.none) if belief else ""
