"""Bisection jobs: candidates, noise and peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from netbisect.bisect.model.entities import Commit, Level, Noise
from netbisect.bisect.model.jobs import BisectJob, CompareJob
from netbisect.bisect.model.results import Confirmed
from netbisect.bisect.search import prior
from netbisect.steps.service.numeric import histories
from netbisect.store.db.records import JobRecord
from netbisect.store.git.history import History
from netbisect.store.git.mirror import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.testbed import Testbed

_HOUR = 3600.0
_LEAST_BOOT_SHARE = 0.25
"""Least share of the boot-to-boot deviation in that of boots with one run."""


def commits_between(
    ledger: Ledger, history: History, job: CompareJob, seconds: float
) -> tuple[list[Commit], str]:
    """The commits between the ends of a comparison, or the reason why there is no search.

    A fetch, which they may need, ends after `seconds`.
    """
    try:
        try:
            commits = history.between(job.good, job.bad)
        except HistoryError:  # the clone is newer than their measurements
            history.update(seconds)
            commits = history.between(job.good, job.bad)
        ledger.commits.learn([history.commit(job.good), *commits], job.branch)
    except HistoryError as error:
        return [], f"No search for the commit: {error}"
    return commits, ""


def bisect_job(
    ledger: Ledger,
    testbed: Testbed,
    job: CompareJob,
    confirmed: Confirmed,
    commits: Sequence[Commit],
    hours: float,
    peers: Sequence[Testbed] = (),
) -> BisectJob | None:
    """The job that bisects a confirmed change, also on the peers; None without commits.

    It ends after `hours` of the lab.
    """
    if not commits:
        return None
    lead = confirmed.effects[0]
    noise = _noise_before(ledger, testbed, job, lead.scenario) or noise_of((), testbed)
    return BisectJob(
        branch=job.branch,
        testbed=job.testbed,
        good=job.good,
        candidates=prior.candidates(commits, testbed.drivers),
        scenarios=job.scenarios,
        lead=lead.scenario,
        effect=lead.ln_ratio,
        noise=noise,
        budget_seconds=hours * _HOUR,
        layouts=testbed.layouts,
        others={
            one.name: _noise_before(ledger, one, job, lead.scenario)
            or replace(noise, boot_weight=0)
            for one in peers
        },
    )


def search_of_peer(ledger: Ledger, wanted: BisectJob, confirmed: Confirmed) -> JobRecord | None:
    """The open search of a peer for the same commit, or None.

    It has the same ends as `wanted`, and its effect was confirmed here too.
    """
    for record in ledger.jobs.all_open():
        other = record.job
        if not isinstance(other, BisectJob) or wanted.testbed not in other.others:
            continue
        ends = (other.branch, other.good, other.bad)
        seen_here = any(
            effect.scenario == other.lead
            and effect.low * effect.high > 0
            and effect.ln_ratio * other.effect > 0
            for effect in confirmed.effects
        )
        same = ends == (wanted.branch, wanted.good, wanted.bad)
        if same and seen_here:
            return record
    return None


def _noise_before(ledger: Ledger, testbed: Testbed, job: CompareJob, scenario: str) -> Noise | None:
    """Noise of a testbed up to the good end; None without measurements."""
    levels = ledger.series.levels(testbed.name, scenario, job.branch)
    places = {level.revision: i for i, level in enumerate(levels)}
    end = places.get(job.good, len(levels) - 1) + 1
    return noise_of(levels[:end], testbed) if levels else None


def noise_of(levels: Sequence[Level], testbed: Testbed) -> Noise:
    """Noise of the levels, split into boots and runs by `run_noise_percent` of the lab file."""
    noise, run = histories.estimate_noise(levels), testbed.run_noise_percent / 100
    boot = math.sqrt(max(noise.boot**2 - run**2, (_LEAST_BOOT_SHARE * noise.boot) ** 2))
    return replace(noise, boot=boot, run=run)
