"""The benchmark of the search: lab, scores and peers."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from programs import captured

from benchmarks import ours, page, search
from benchmarks.cases import CASES, COMMITS
from benchmarks.engine import Outcome, Verdict, play
from benchmarks.lab import Lab, World
from benchmarks.peers import bayesect

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = [
    *("engine", "case", "trials", "accuracy", "blamed", "blamed_wrong", "builds_mean"),
    *("boots_mean", "runs_mean", "hours_mean", "hours_p95", "calibration"),
]
QUICK = "git bisect, 1 run"


def world(culprit: int = 20, *, commits: int = 32, drop: float = 0.05) -> World:
    """A range with little noise."""
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
def test_json_is_a_list_with_one_row_per_engine() -> None:
    """The documented command prints all columns in order, and nothing else on stdout."""
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


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].missing()])
def test_planted_culprits_match_the_description(name: str) -> None:
    """The level falls at the culprits; culprits and their parents build."""
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
def test_verdict_is_compared_with_the_truth(
    case: str, verdict: Verdict, *, right: bool, wrong: bool
) -> None:
    """Without a culprit, `none` must be set, except for a drift."""
    truth = CASES[case].draw(np.random.default_rng(1))
    scored = search.score(truth, Outcome(verdict, 0, 0, 0, 0.0))

    assert (scored.right, scored.wrong) == (right, wrong)


@pytest.mark.parametrize("name", search.PEERS)
@pytest.mark.parametrize("culprit", [1, 20, 32])
def test_peers_solve_noiseless_cases(name: str, culprit: int) -> None:
    assert peer(name, world(culprit)).verdict.culprits == (culprit,)


def test_our_search_solves_noiseless_cases() -> None:
    played = ours.play(world(), Lab(world(), (1,)))

    assert played.verdict.culprits == (20,)
    assert played.verdict.posterior is not None
    assert played.verdict.posterior >= 0.99


def test_every_case_and_engine_is_documented() -> None:
    text = page.PAGE.read_text()

    heads = [line.partition(": ")[0] for line in text.splitlines() if line.startswith("- `")]
    documented = {name for head in heads for name in re.findall("`([a-z0-9-]+)`", head)}
    assert set(CASES) <= documented
    for name in search.ENGINES:
        assert f"**{name.split(', ')[0] if 'git bisect' in name else name}**" in text
