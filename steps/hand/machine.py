"""Tells machines how a search by hand has ended."""

from __future__ import annotations

import math
from typing import Any

from netbisect.bisect.model import Belief, Culprit, Effect, NotConfirmed, Suspects
from netbisect.steps.hand.report import (
    Result,
    belief_of,
    cost_of,
    headline,
    numbers_of,
    skipped_of,
    users,
)


def data(result: Result) -> dict[str, Any]:
    """The report as JSON has it; effects in percent of the good side."""
    asked, finding = result.search, result.finding
    effects = finding.effects if isinstance(finding, Culprit | NotConfirmed) else ()
    found: dict[str, Any] = {
        "result": type(finding).__name__.lower(),
        "status": int(result.status),
        "sentence": headline(result),
        "good": asked.good,
        "bad": asked.bad,
        "effects": [effect_data(users(effect, asked)) for effect in effects],
        "measured": numbers_of(result.entries),
        "skipped": skipped_of(result.entries),
        "cost": cost_of(result.entries),
        "log": str(result.log),
    }
    belief = finding.belief if isinstance(finding, Culprit) else belief_of(finding)
    if belief is not None:
        found["posterior"] = belief_data(belief)
    if isinstance(finding, Culprit):
        found |= {"culprit": finding.revision, "parent": finding.parent}
        found["certainty"] = finding.belief.chances[finding.revision]
    if isinstance(finding, Suspects):
        found["suspects"] = list(finding.revisions)
    if result.commit is not None:
        commit = result.commit
        found["commit"] = {
            "subject": commit.subject,
            "author": commit.author,
            "email": commit.email,
            "at": commit.at,
        }
    return found


def belief_data(belief: Belief) -> dict[str, Any]:
    """A posterior as JSON has it."""
    return {"chances": belief.chances, "none": belief.none, "credible": belief.credible(0.9)}


def effect_data(effect: Effect) -> dict[str, Any]:
    """An effect as JSON has it."""
    return {
        "percent": effect.percent,
        "low": 100 * math.expm1(effect.low),
        "high": 100 * math.expm1(effect.high),
        "p": effect.p,
        "good_runs": effect.good_boots,
        "bad_runs": effect.bad_boots,
    }
