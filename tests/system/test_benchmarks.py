"""The benchmark of the search: the same lab for all, honest scores, faithful peers."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from programs import captured

from benchmarks import ours, report, search
from benchmarks.cases import CASES, COMMITS
from benchmarks.engine import Outcome, Verdict, play
from benchmarks.lab import BootNoise, Lab, World
from benchmarks.peers import bayesect

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = [
    *("engine", "case", "trials", "accuracy", "blamed", "blamed_wrong", "builds_mean"),
    *("boots_mean", "runs_mean", "hours_mean", "hours_p95", "calibration"),
]
QUICK = "git bisect, 1 run"


def world(culprit: int = 20, *, commits: int = 32, drop: float = 0.05) -> World:
    """A range where every run tells the truth."""
    levels = np.where(np.arange(commits + 1) >= culprit, 1e6 * (1 - drop), 1e6)
    return World(
        levels=levels,
        run_sd=np.full(commits + 1, 1000.0),
        culprits=(culprit,) if culprit <= commits else (),
        suspected=math.log(1 - drop),
        image=np.arange(commits + 1),
        weights=np.ones(commits),
    )


def peer(name: str, truth: World) -> Outcome:
    if name == "git_bayesect" and bayesect.missing():
        pytest.skip(bayesect.missing())
    lab = Lab(truth, (1, 2, 3))
    return play(search.PEERS[name](search.task(truth, lab)), lab)


@pytest.mark.long
def test_the_json_is_a_list_with_one_row_per_engine() -> None:
    """Run as documented, it prints all columns, in their order, and nothing else on stdout."""
    done = captured(
        [
            *(sys.executable, "-m", "benchmarks.search", "--case", "ideal", "--trials", "2"),
            *("--seed", "3", "--json", "--engine", QUICK, "--engine", "psect (rule)"),
        ],
        cwd=ROOT,
        check=True,
    )
    rows = json.loads(done.stdout)

    assert [row["engine"] for row in rows] == ["psect (rule)", QUICK]
    assert all(list(row) == COLUMNS for row in rows)
    assert rows[1]["builds_mean"] == rows[1]["runs_mean"] == 8
    assert rows[1]["hours_mean"] == 1.8
    assert rows[1]["calibration"] is None
    assert "ideal" in done.stderr


def test_results_depend_on_the_seed_and_not_on_the_number_of_processes() -> None:
    """Twelve trials are spread over jobs, and still the same twelve."""

    def rows(seed: int, jobs: int) -> list[search.Row]:
        trials = dict.fromkeys(search.ENGINES, 12)
        return list(search.run(["psect (rule)"], ["ideal"], trials, seed, jobs))

    assert rows(5, 1) == rows(5, 2)
    assert rows(5, 1) != rows(6, 1)


def test_random_numbers_are_independent_of_the_engine() -> None:
    """A boot and a run of a revision are the same, whatever was run before."""
    noisy = replace(world(), boot=BootNoise(0.01, 0.3, 0.02, 0.1, 0.1), image_sd=0.01)
    one, other = Lab(noisy, (7,)), Lab(noisy, (7,))
    other.build(4)
    other.boot(4)
    other.run()
    for lab in (one, other):
        lab.build(9)
        lab.boot(9)

    assert [one.run() for _ in range(3)] == [other.run() for _ in range(3)]
    other.boot(9)
    one.boot(9)
    assert one.run() == other.run()


def test_costs_use_the_prices_of_the_lab() -> None:
    """The ends are built; a failed build costs as much, and is not tried again."""
    lab = Lab(replace(world(), broken=frozenset({5})), (1,))
    lab.boot(0)
    lab.run()
    assert lab.seconds == 180 + 30
    assert not lab.build(5)
    assert lab.build(6)
    assert lab.build(6)
    assert (lab.builds, lab.seconds) == (2, 1410)
    with pytest.raises(AssertionError, match="known not to build"):
        lab.build(5)


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].missing()])
def test_planted_culprits_match_the_description(name: str) -> None:
    """Culprits are where the level falls, and can be found."""
    for seed in range(20):
        truth = CASES[name].draw(np.random.default_rng(seed))
        falls = np.flatnonzero(np.diff(truth.levels) < 0) + 1

        assert truth.commits == (128 if name in {"wander", "cheap"} else COMMITS)
        assert name == "drift" or tuple(falls) == truth.culprits
        for culprit in truth.culprits:
            assert not {culprit, culprit - 1} & truth.broken
            assert truth.image[culprit] == culprit
        assert not {0, COMMITS} & truth.broken


@pytest.mark.parametrize(
    ("case", "verdict", "right", "wrong"),
    [
        ("ideal", Verdict((1,)), False, True),
        ("none", Verdict(none=True), True, False),
        ("none", Verdict(), False, False),
        ("none", Verdict((9,)), False, True),
        ("drift", Verdict(), True, False),
        ("drift", Verdict((9,)), False, True),
    ],
)
def test_a_verdict_is_compared_with_the_truth(
    case: str, verdict: Verdict, *, right: bool, wrong: bool
) -> None:
    """Nobody named is right where nobody did it; "nothing changed" has to be said."""
    truth = CASES[case].draw(np.random.default_rng(1))
    scored = search.score(truth, Outcome(verdict, 0, 0, 0, 0.0))

    assert (scored.right, scored.wrong) == (right, wrong)


@pytest.mark.parametrize("name", search.PEERS)
@pytest.mark.parametrize("culprit", [1, 20, 32])
def test_peers_solve_noiseless_cases(name: str, culprit: int) -> None:
    """Anywhere, without noise."""
    assert peer(name, world(culprit)).verdict.culprits == (culprit,)


def test_our_search_solves_noiseless_cases() -> None:
    """Through the same lab."""
    played = ours.play(world(), Lab(world(), (1,)))

    assert played.verdict.culprits == (20,)
    assert played.verdict.posterior is not None
    assert played.verdict.posterior >= 0.99


def test_repeated_rows_replace_the_old_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One case or engine can be played again; all other rows stay, in the order of the page."""
    page, results = tmp_path / "benchmarks.md", tmp_path / "rows.json"
    page.write_text(report.PAGE.read_text())
    monkeypatch.setattr(report, "PAGE", page)
    [row] = search.run([QUICK], ["ideal"], dict.fromkeys(search.ENGINES, 1), 1, 1)
    kept = [asdict(replace(row, engine=search.OURS)), asdict(row)]
    results.write_text(json.dumps({"seed": 1, "rows": kept}))
    options = ["--peer-trials", "2", "--jobs", "1", "--results", str(results)]
    one = ["--case", "ideal", "--engine", QUICK]
    done = CliRunner().invoke(report.main, [*options, *one], catch_exceptions=False)
    other = CliRunner().invoke(report.main, [*options, *one, "--seed", "2"])
    rows = json.loads(results.read_text())["rows"]

    assert done.exit_code == 0
    assert rows[:1] == kept[:1]
    assert [(row["engine"], row["trials"]) for row in rows[1:]] == [(QUICK, 2)]
    assert "1 trials of netbisect, 2 of each other" in page.read_text()
    assert other.exit_code == 2
    assert "is of seed 1, not 2" in other.output


def test_every_case_and_engine_is_documented() -> None:
    """What is printed can be looked up."""
    page = report.PAGE.read_text()

    assert all(f"- `{name}`: " in page for name in CASES)
    for name in search.ENGINES:
        assert f"**{name.split(', ')[0] if 'git bisect' in name else name}**" in page
