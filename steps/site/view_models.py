"""Queries of the site: view models from the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netbisect.bisect.detection.level_difference import pooled
from netbisect.bisect.model.detection_results import LevelStep
from netbisect.bisect.model.entities import Commit, Noise
from netbisect.reports.model.types import AlertSummary
from netbisect.reports.site.view_models import RECENT, SeriesEpoch, SeriesView
from netbisect.steps.queries import progress
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.numeric import health, histories
from netbisect.steps.site.folder import SiteRevisionError
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import SeriesHistory

# -------------------------------------------------------------------------------------- series


def view_of(
    ledger: Ledger,
    trail: SeriesHistory,
    lab: LabContext,
    alerts: Sequence[AlertSummary],
    min_effect: float,
) -> SeriesView:
    """The view model of a series.

    Args:
        ledger: Where commits are looked up.
        trail: The series.
        lab: Names, hardware and links.
        alerts: That moved it.
        min_effect: Smallest step reported, as a positive ln ratio.
    """
    levels = trail.epochs[-1].levels
    noise = histories.estimate_noise(levels[:-1]) if levels[1:] else Noise()
    found = histories.analyze(levels, min_effect).steps
    standing = health.level_estimates(levels, noise)
    place = {id(level): i for i, level in enumerate(levels)}
    before = [level for level in trail.baseline if level is not levels[-1]]
    baseline = pooled([standing[place[id(level)]] for level in before], noise)
    named = {*(one.revision for one in levels[-RECENT:]), *_axis(trail), *_named(found)}
    named |= {one.culprit for one in alerts if one.culprit}
    named |= {before[0].revision} if before else set()
    judged = health.series_health(
        trail.baseline or levels[-1:], min_effect, noise if levels[1:] else None
    )
    named |= {judged.drift.best} if judged.drift else set()
    return SeriesView(
        testbed=trail.name.testbed,
        scenario=trail.name.scenario,
        branch=trail.name.branch,
        title=lab.title(trail.name.scenario),
        hardware=lab.hardware(trail.name.testbed),
        epochs=[SeriesEpoch(one.values, one.levels) for one in trail.epochs],
        standings=standing,
        baseline=baseline,
        baseline_from=before[0].revision if before else "",
        baselined=len(before),
        least=min_effect,
        numbers=trail.numbers,
        noise=noise,
        health=judged,
        steps=found,
        alerts=alerts,
        commits=ledger.commits.find(named),
        commit_link=lab.commit_link,
    )


def _axis(trail: SeriesHistory) -> Iterator[str]:
    """Those that an axis with few ticks names: counted from the end, as it does."""
    levels = [level for epoch in trail.epochs for level in epoch.levels]
    step = max(-(-len(levels) // 7), 1)
    return (levels[i].revision for i in range(len(levels) - 1, -1, -step))


def _named(found: Sequence[LevelStep]) -> set[str]:
    return {name for step in found for name in (step.before, step.at)}


# ----------------------------------------------------------------------------------- questions


def latest(ledger: Ledger) -> float:
    """When the newest thing was done that pages of alerts tell of, seconds since the epoch."""
    nights = ledger.nights.latest(progress.NIGHT_SECONDS)
    return max(
        *(at for _, at in ledger.alerts.change_counts().values()),
        *(one.closed_at or one.opened_at for one in nights),
        0.0,
        0.0,
    )


def resolve(ledger: Ledger, name: str) -> Commit:
    """The revision that a name means: a hash, the beginning of one, or n302145.

    Raises:
        SiteRevisionError: it means none that was measured, or several.
    """
    measured = ledger.commits.booted()
    like = [name] if name in measured else [one for one in measured if one.startswith(name)]
    if not like and name.lstrip("n").split("-")[0].isdigit():
        number = int(name.lstrip("n").split("-")[0])
        like = [
            one.revision for one in ledger.commits.find(measured).values() if one.number == number
        ]
    if len(like) != 1:
        known = f"{len(like)} of them begin so" if like else "no kernel of it was measured"
        raise SiteRevisionError(
            f"{name}: {known}; expected more of its hash, or a label such as n302145-0a1b2c3d4e5f"
        )
    return known_commit(ledger, like[0])


def known_commit(ledger: Ledger, revision: str) -> Commit:
    """The commit of a full revision, known or not."""
    commit = ledger.commits.get(revision)
    return commit or Commit(revision, 0, "", "", "", "", 0.0)
