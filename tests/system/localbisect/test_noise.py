"""Complete searches with more noise than expected, simulated by entries of the log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netbisect.bisect import plan
from netbisect.bisect.model.entities import Boot, Failure, Kernel, Reaction, Sample, Stage
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Effect,
    NotConfirmed,
    Posterior,
    Suspects,
    Trial,
    Unfinished,
)
from netbisect.localbisect import explain, search
from netbisect.localbisect.result import ExitStatus, SearchResult
from netbisect.localbisect.search import METRIC, CandidateCommit, Entry, SearchSpec
from netbisect.localbisect.text_report import as_text
from netbisect.reports.render.ministat import ASSUMES_NORMAL
from netbisect.reports.render.plaintext import wrap

COMMITS = 4


def spec_of(commits: int, **more: Any) -> SearchSpec:
    """A search among commits; the subject of the first is Change 1."""
    line = tuple(CandidateCommit(f"{i:0<40x}", f"Change {i}", 1.0) for i in range(1, commits + 1))
    return SearchSpec("0" * 40, line[-1].revision, ("true",), line, commits, **more)


def searched(
    seed: int, drop: float, sd: float, slow_share: float = 0.0, last_drop: float = 0.0
) -> tuple[SearchResult, int]:
    """Result and culprit among four commits; a slow run takes 1.5 times as long."""
    random = np.random.default_rng(seed)
    spec = spec_of(COMMITS)
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
            level = -drop * (int(revision[0]) >= culprit) + sd * random.normal()
            level -= last_drop * (revision == spec.bad)
            level -= math.log(1.5) * (random.random() < slow_share)
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


def test_most_likely_commits_and_reasons_of_skipped_ones_are_listed() -> None:
    """Suspects have 95 % together; all commits may have less if no change is likely too."""
    spec = spec_of(COMMITS, setup="make")
    chances = dict(zip(spec.subjects, (0.0, 0.005, 0.03, 0.96, 0.005), strict=True))
    less, more = spec.line[1].revision, spec.line[2].revision
    suspects = Suspects((less, more), Posterior(chances, none=0.0), "builds differ in speed")
    text = as_text(SearchResult([spec], suspects, Path()))

    assert "begin it with `git clean -dfqx` and use --reset." in " ".join(text.split())
    assert "Most likely commits, 99.0 % together:" in text
    assert f"  96.0 %  {more[:12]} Change 3\n  3.0 %   {less[:12]} Change 2\n" in text

    chances = dict(zip(spec.subjects, (0.0, 0.4, 0.1, 0.1, 0.05), strict=True))
    unfinished = Unfinished("120 boots did not settle it", Posterior(chances, none=0.35))
    why = "the command ended with exit status 1: ModuleNotFoundError: No module named 'program'"
    failed = [
        Failure(f"dud-{i}", one.revision, Stage.BENCH, Reaction.SKIP, why, 0.0, 1.0)
        for i, one in enumerate(spec.line[1:3])
    ]
    text = as_text(SearchResult([spec, *failed], unfinished, Path()))

    assert text.startswith("There is no result: 120 runs did not settle it. Print the mean of")
    assert "Most likely commits, 65.0 % together:" in text
    for one in spec.line[1:3]:
        assert f"  {one.revision[:12]} {one.subject}  skipped\n" in text
    wide = Posterior(dict.fromkeys(chances, 0.0002), none=0.999)
    assert "Most likely" not in as_text(SearchResult([spec], Unfinished("no time", wide), Path()))
    assert f"Skipped:\n\n{wrap(f'2 revisions: {why}', indent=2)}\n" in text


def test_noise_of_a_search_is_that_of_single_runs() -> None:
    """The trials of both ends have equal means, their runs scatter by 2 %."""
    spec = spec_of(1, setup="make")
    entries: list[Entry] = [spec, search.comparison_of_ends(spec)]
    for revision in (spec.good, spec.bad, spec.bad, spec.good):
        boot = f"{revision} {len(entries)}"
        entries.append(Kernel(revision, "", "", revision, revision, "", 0, 0.0, 60.0))
        entries.append(Boot(boot, "", revision, revision, 0.0, 0.0))
        entries += [
            Sample(f"{boot} {rate}", boot, "", METRIC, rate, 0.0, (rate,), (), (), "", 0.0, 1.0)
            for rate in (97.4, 99.0, 100.0, 101.0, 102.6)
        ]

    noise = search.bisection_for(spec, -0.05, entries).noise

    assert math.sqrt(noise.variance_of_boot(runs=1)) == pytest.approx(0.02, rel=0.3)
    assert noise.run > 2 * noise.boot


@pytest.mark.parametrize(("given", "searched_for"), [(5.5, math.log(0.945)), (50.0, -0.05)])
def test_expected_effect_counts_unless_excluded(given: float, searched_for: float) -> None:
    spec = spec_of(1, effect=given)
    ends = Confirmed((Effect(METRIC, -0.05, -0.06, -0.04, 0.001, 4, 4),))

    job = search.next_job(spec, ends, [spec, search.comparison_of_ends(spec), ends])

    assert job is not None
    assert job.effect == pytest.approx(searched_for)


def test_verified_commit_is_the_result_of_a_spent_budget() -> None:
    """The budget ends while the search looks for a second commit."""
    result, culprit = searched(seed=1, drop=0.06, sd=0.005, last_drop=0.03)
    assert len(result.culprits) == 2
    last = max(i for i, entry in enumerate(result.entries) if isinstance(entry, Trial))
    ends = next(i for i, entry in enumerate(result.entries) if isinstance(entry, Confirmed))

    found = explain.result_without_budget(result.entries[:last], "the budget is spent")

    assert isinstance(found, Culprit)
    assert int(found.revision[0]) in (culprit, COMMITS)
    earlier = explain.result_without_budget(result.entries[:ends], "the budget is spent")
    assert "is spent. The difference of the ends so far: -" in str(earlier)


def test_large_noise_is_inconclusive() -> None:
    spec = spec_of(1)
    wide = NotConfirmed((Effect(METRIC, -0.01, -0.06, 0.04, 0.6, 200, 200),), "too few boots")
    result = SearchResult([spec, search.comparison_of_ends(spec), wide], wide, Path())

    assert result.status is ExitStatus.NO_ANSWER
    assert as_text(result).startswith("The noise is too large to distinguish the two ends")


@pytest.mark.long
def test_real_drop_is_never_reported_as_no_change() -> None:
    """8 searches for a drop of 5 % with 2 % noise name the culprit or are inconclusive."""
    found = [searched(seed, 0.05, 0.02) for seed in range(8)]

    assert not [one for one, _ in found if one.status is ExitStatus.NOTHING]
    named = [(one.culprits, culprit) for one, culprit in found if one.status is ExitStatus.FOUND]
    assert len(named) >= 6
    for culprits, culprit in named:
        assert [int(one.revision[0]) for one in culprits] == [culprit]


@pytest.mark.long
def test_a_third_of_slow_runs_does_not_hide_a_drop() -> None:
    """With so many slow runs, ministat shows no difference."""
    found = [searched(seed, 0.06, 0.007, slow_share=0.33) for seed in (1, 2)]

    for one, culprit in found:
        assert [int(named.revision[0]) for named in one.culprits] == [culprit]
        effect = one.culprits[0].effects[0]
        assert effect.low < effect.ln_ratio < effect.high < 0
        assert sum(isinstance(entry, Trial) for entry in one.entries) < 150
    assert any(wrap(ASSUMES_NORMAL) in as_text(one) for one, _ in found)
