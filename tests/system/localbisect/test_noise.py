"""Whole searches on a machine whose noise is larger than supposed, by their logs alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from netbisect.bisect import plan
from netbisect.bisect.model.entities import Boot, Kernel, Sample
from netbisect.bisect.model.results import Trial
from netbisect.localbisect import search
from netbisect.localbisect.result import ExitStatus, SearchResult
from netbisect.localbisect.search import METRIC, CandidateCommit, Entry, SearchSpec

COMMITS = 4


def searched(seed: int, drop: float, sd: float) -> tuple[SearchResult, int]:
    """A search among four commits to its end, and the true culprit."""
    random = np.random.default_rng(seed)
    line = tuple(CandidateCommit(f"{i:040x}", "", 1.0) for i in range(1, COMMITS + 1))
    spec = SearchSpec("0" * 40, line[-1].revision, ("true",), line, COMMITS)
    culprit = int(random.integers(1, COMMITS + 1))
    entries: list[Entry] = [spec, search.comparison_of_ends(spec)]
    while True:
        job = search.last_job(entries)
        assert job is not None
        known = search.evidence(spec, entries), search.prices(spec, entries)
        move = plan.next_move(job, *known)
        entries.append(move)
        if isinstance(move, Trial):
            number, revision = str(len(entries)), move.revision
            level = -drop * (int(revision, 16) >= culprit) + sd * random.normal()
            value = 1000 * math.exp(level)
            entries += [
                Kernel(revision, "", "", revision, revision, "", 0, 0.0, 0.0),
                Boot(number, "", revision, revision, 0.0, 0.0),
                Sample(number, number, "", METRIC, value, 0.0, (value,), (), (), "", 0.0, 1.0),
            ]
        elif (following := search.next_job(spec, move, entries)) is None:
            return SearchResult(entries, move, Path()), culprit
        else:
            entries.append(following)


def test_real_drop_is_never_called_nothing() -> None:
    """16 searches for a drop of 5 %, with 2 % noise: the culprit, or no answer."""
    found = [searched(seed, 0.05, 0.02) for seed in range(16)]

    assert not [one for one, _ in found if one.status is ExitStatus.NOTHING]
    named = [(one.culprits, culprit) for one, culprit in found if one.status is ExitStatus.FOUND]
    assert len(named) >= 11
    for culprits, culprit in named:
        assert [int(one.revision, 16) for one in culprits] == [culprit]
