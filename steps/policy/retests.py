"""Retests of a suspected change: what to compare after a night, and which are running."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.bisect.model.detection_results import NightScreening
from netbisect.bisect.model.entities import Level
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.steps.service.numeric import histories, screening
from netbisect.store.ledger import Ledger


def tonight(ledger: Ledger, night: NightlyJob, min_effect: float) -> NightScreening:
    """Screens the series of a nightly job: what to compare, and which modes shift."""
    series, noises = {}, {}
    for scenario in night.scenarios:
        levels = ledger.series.with_baseline(night.testbed, scenario, night.branch)
        baseline, whole = (_until(night.revision, one) for one in (levels.baseline, levels.whole))
        if baseline:
            series[scenario] = baseline
            # The machine has this noise, whatever the level.
            noises[scenario] = histories.estimate_noise(whole[:-1])
    numbers = ledger.commits.numbers().get(night.branch, {})
    return screening.screen_night(night, series, numbers, min_effect, noises)


def _until(revision: str, levels: Sequence[Level]) -> Sequence[Level]:
    """The levels up to the last one of a revision; empty if there is none of it.

    The others are of commits that were measured for a request or removed from the branch.
    """
    places = [place for place, level in enumerate(levels, 1) if level.revision == revision]
    return levels[: places[-1]] if places else ()


def is_comparing(ledger: Ledger, testbed: str, branch: str) -> bool:
    """Whether the comparison of a suspected change runs."""
    return any(
        isinstance(one.job, CompareJob)
        and one.request is None
        and (one.job.testbed, one.job.branch) == (testbed, branch)
        for one in ledger.jobs.all_open()
    )
