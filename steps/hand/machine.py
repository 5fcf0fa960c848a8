"""Tells machines how a search by hand has ended."""

from __future__ import annotations

import math
from typing import Any

from netbisect.bisect.model import Belief, Culprit, Effect, NotConfirmed, Suspects
from netbisect.steps.hand.report import (
    cost_of,
    layouts_of,
    numbers_of,
    overlaid_of,
    skipped_of,
)
from netbisect.steps.hand.verdict import Result, belief_of, headline, users


def data(result: Result) -> dict[str, Any]:
    """The report as JSON has it; effects in percent of the good side."""
    asked, finding = result.search, result.finding
    effects = finding.effects if isinstance(finding, NotConfirmed) else ()
    found: dict[str, Any] = {
        "result": type(finding).__name__.lower(),
        "status": int(result.status),
        "sentence": headline(result),
        "good": asked.good,
        "bad": asked.bad,
        "effects": [effect_data(users(effect, asked)) for effect in effects],
        "measured": numbers_of(result.entries),
        "skipped": skipped_of(result.entries),
        "overlays": overlaid_of(result.entries),
        "cost": cost_of(result.entries),
        "log": str(result.log),
    }
    if asked.duts > 1:
        found["duts"] = {name: numbers_of(result.entries, name) for name in asked.names}
    if asked.layouts:
        found["layouts"] = layouts_of(result.entries)
    belief = belief_of(finding)
    if belief is not None:
        found["posterior"] = belief_data(belief)
    if result.culprits:
        found["culprits"] = [_culprit_data(result, one) for one in result.culprits]
    if isinstance(finding, Culprit):
        found |= found["culprits"][0]
    if isinstance(finding, Suspects):
        found["suspects"] = list(finding.revisions)
    return found


def _culprit_data(result: Result, culprit: Culprit) -> dict[str, Any]:
    found: dict[str, Any] = {
        "culprit": culprit.revision,
        "parent": culprit.parent,
        "certainty": culprit.chance,
        "effects": [effect_data(users(effect, result.search)) for effect in culprit.effects],
    }
    commit = result.commits.get(culprit.revision)
    if commit is not None:
        found["commit"] = {
            "subject": commit.subject,
            "author": commit.author,
            "email": commit.email,
            "at": commit.at,
        }
    return found


def belief_data(belief: Belief) -> dict[str, Any]:
    """A posterior as JSON has it."""
    return {
        "chances": belief.chances,
        "none": belief.none,
        "two": belief.two,
        "drift": belief.drift,
        "credible": belief.credible(0.9),
    }


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
