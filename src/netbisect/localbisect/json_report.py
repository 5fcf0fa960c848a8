"""The result of a local search as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from netbisect.bisect.model import serialization
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.results import Culprit, Effect, NotConfirmed, Posterior, Suspects
from netbisect.localbisect.result import SearchResult, headline, user_effect
from netbisect.localbisect.text_report import (
    layout_counts,
    overlaid_revisions,
    skipped_revisions,
    total_cost,
    values_by_revision,
)


def as_data(result: SearchResult) -> dict[str, Any]:
    """The result as JSON; effects in percent of the good side."""
    spec, finding = result.spec, result.finding
    effects = finding.effects if isinstance(finding, NotConfirmed) else ()
    found: dict[str, Any] = {
        "result": serialization.tag_of(finding),
        "status": int(result.status),
        "sentence": headline(result),
        "good": spec.good,
        "bad": spec.bad,
        "effects": [effect_data(user_effect(effect, spec)) for effect in effects],
        "measured": values_by_revision(result.entries),
        "skipped": skipped_revisions(result.entries),
        "marks": [asdict(entry) for entry in result.entries if isinstance(entry, CommitMark)],
        "overlays": overlaid_revisions(result.entries),
        "cost": total_cost(result.entries),
        "log": str(result.log),
    }
    if spec.duts > 1:
        found["duts"] = {name: values_by_revision(result.entries, name) for name in spec.names}
    if spec.layouts:
        found["layouts"] = layout_counts(result.entries)
    if posterior := getattr(finding, "posterior", None):  # not after a mere comparison
        found["posterior"] = posterior_data(posterior)
    if result.culprits:
        found["culprits"] = [_culprit_data(result, one) for one in result.culprits]
    if isinstance(finding, Culprit):
        found |= found["culprits"][0]
    if isinstance(finding, Suspects):
        found["suspects"] = list(finding.revisions)
    return found


def _culprit_data(result: SearchResult, culprit: Culprit) -> dict[str, Any]:
    found: dict[str, Any] = {
        "culprit": culprit.revision,
        "parent": culprit.parent,
        "certainty": culprit.chance,
        "effects": [effect_data(user_effect(effect, result.spec)) for effect in culprit.effects],
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


def posterior_data(posterior: Posterior) -> dict[str, Any]:
    """A posterior as JSON."""
    return {
        "chances": posterior.chances,
        "none": posterior.none,
        "two": posterior.two,
        "drift": posterior.drift,
        "credible": posterior.credible(),
    }


def effect_data(effect: Effect) -> dict[str, Any]:
    """An effect as JSON."""
    return {
        "percent": effect.percent,
        "low": 100 * math.expm1(effect.low),
        "high": 100 * math.expm1(effect.high),
        "p": effect.p,
        "good_runs": effect.good_boots,
        "bad_runs": effect.bad_boots,
    }
