"""The result of a local search as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from netbisect.bisect.model import serialization
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.results import Culprit, Effect, NotConfirmed, Posterior, Suspects
from netbisect.localbisect.result import SearchResult, headline, user_effect
from netbisect.localbisect.search import SearchSpec
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
        "effects": [_effect_data(effect, spec) for effect in effects],
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
        "effects": [_effect_data(effect, result.spec) for effect in culprit.effects],
    }
    if commit := result.commits.get(culprit.revision):
        fields = ("subject", "author", "email", "at")
        found["commit"] = {name: getattr(commit, name) for name in fields}
    return found


def posterior_data(posterior: Posterior) -> dict[str, Any]:
    """A posterior as JSON."""
    return asdict(posterior) | {"credible": posterior.credible()}


def _effect_data(given: Effect, spec: SearchSpec) -> dict[str, Any]:
    effect = user_effect(given, spec)
    return {
        "percent": effect.percent,
        "low": 100 * math.expm1(effect.low),
        "high": 100 * math.expm1(effect.high),
        "p": effect.p,
        "good_runs": effect.good_boots,
        "bad_runs": effect.bad_boots,
    }
