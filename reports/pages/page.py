"""Values of the templates of a document."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from netbisect.reports.model.changes import ChangeDocument, KernelFailure, StepDocument
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


def template_values(document: ChangeDocument) -> dict[str, Any]:
    """Values of the templates of a document, by name.

    Flame graphs are left to those who know how much room they have.
    """
    return {
        "document": document,
        "state": _STATES[document.outcome],
        "headline": summary.headline(document),
        "reasons": summary.why(document),
        "culprit": summary.culprit(document),
        "heading": summary.heading(document),
        "rows": summary.rows(document),
        "unmoved": words.listing(list(document.unaffected)),
        "profiles": [],
        "attempts": [_attempt(document, step) for step in document.steps[-_ATTEMPTS_MAX:]],
        "attempts_left": max(len(document.steps) - _ATTEMPTS_MAX, 0),
        "stops": [astuple(stop) for stop in summary.path(document)],
        "block": summary.block(document),
        "remark": summary.remark(document),
        "candidates": _candidates(document),
        "candidates_left": max(len(document.candidates) - _COMMITS_MAX, 0),
        "crashes": summary.crashes(document),
        "failures": [_failure(document, one) for one in document.failures[:_FAILURES_MAX]],
        "failures_left": max(len(document.failures) - _FAILURES_MAX, 0),
        "none": _none(document),
        "cost": summary.cost(document),
        "measured_on": summary.measured_on(document),
        "reviews": summary.reviews,
        "marks": summary.marks(document),
        "unknown": "(not in the tree that is watched)",
        "settling": False,
    }


_STATES = {
    "running": ("open", "search running"),
    "confirmed": ("range", "confirmed"),
    "not-confirmed": ("calm", "not confirmed"),
    "culprit": ("sure", "commit verified"),
    "several": ("sure", "several commits verified"),
    "drift": ("calm", "no single commit"),
    "suspects": ("range", "narrowed to a few commits"),
    "not-reproduced": ("calm", "not reproduced"),
    "unfinished": ("open", "no answer"),
}
"""A CSS class and a text by outcome."""


def scenarios(document: ChangeDocument) -> list[str]:
    """The leading scenario first."""
    others = [scenario for scenario in document.titles if scenario != document.lead]
    return [document.lead, *others]


def pictured(document: ChangeDocument, most: int) -> list[str]:
    """The scenarios with plots: the leading one, and those with the largest drops."""
    change = {effect.scenario: effect.ln_ratio for effect in document.differences}
    names = sorted(scenarios(document)[1:], key=lambda name: change.get(name, 0.0))
    return [document.lead, *names][:most]


def _attempt(document: ChangeDocument, step: StepDocument) -> dict[str, Any]:
    measured = step.pps is not None
    return {
        "measured": measured,
        "seq": step.place,
        "at": words.moment(step.at),
        "what": _what(document, step),
        "revision": document.label(step.revision),
        "result": words.number(step.pps, document.lead) if step.pps is not None else step.result,
        "leader": summary.leader(document, step.belief),
        "why": step.why,
        "took": words.duration(step.seconds),
    }


def _failure(document: ChangeDocument, failure: KernelFailure) -> dict[str, str]:
    """Label, reason and end of the log."""
    most = max(_LOGS_BYTES // min(len(document.failures), _FAILURES_MAX), _LOG_LEAST)
    log = failure.log
    if len(log) > most:
        log = f"({len(log) - most:,} characters before)\n{log[-most:]}"
    return {"label": document.label(failure.revision), "why": failure.why, "log": log}


def _what(document: ChangeDocument, step: StepDocument) -> str:
    if step.stage == "kernel":
        return "build"
    return f"boot and runs{f' on {step.testbed}' if document.testbeds else ''}"


def _candidates(document: ChangeDocument) -> list[dict[str, Any]]:
    """Oldest first; of very many, the likeliest."""
    found = document.candidates
    listed = sorted(found, key=lambda one: -(one.chance or 0.0))[:_COMMITS_MAX]
    kept = {one.commit.revision for one in listed}
    return [
        {
            "commit": one.commit,
            "label": document.label(one.commit.revision),
            "chance": "" if one.chance is None else words.certainty(one.chance),
            "share": min(round(100 * (one.chance or 0.0)), 100),
            "skipped": document.skipped.get(one.commit.revision, ""),
        }
        for one in found
        if one.commit.revision in kept
    ]


def _none(document: ChangeDocument) -> str:
    return words.certainty(document.chances.none) if document.chances else ""
