"""Retest: interleaving, looks and verdicts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netbisect.bisect.detection.retest import next_move
from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import (
    Confirmed,
    NotConfirmed,
    Trial,
    Unfinished,
)
from netbisect.bisect.simulate import JobSimulation, LabSimulation, simulate_job

LEAD = "inet4"
QUESTION = CompareJob("main", "apu", "good", "bad", (LEAD, "pf"), LEAD, suspected=-0.08)


def kernel(revision: str, identity: str) -> Kernel:
    return Kernel(revision, "ROUTER", "amd64", identity, revision, revision, 1, 0.0, 60.0)


def built(good: str = "one", bad: str = "other") -> dict[str, Kernel]:
    return {"good": kernel("good", good), "bad": kernel("bad", bad)}


def boots(revision: str, *ln_pps: float, fresh: bool = True, lead: str = LEAD) -> list[Observation]:
    return [
        Observation(f"{revision} {i} {fresh}", revision, "", {lead: x}, fresh)
        for i, x in enumerate(ln_pps)
    ]


def retest(seed: int, drop: float, boot: float = 0.009, outliers: float = 0.02) -> JobSimulation:
    levels = {"good": 14.0, "bad": 14.0 + math.log(1 - drop)}
    lab = LabSimulation(levels, Noise(boot), np.random.default_rng(seed), outliers)
    return simulate_job(QUESTION, lab)


def test_boots_are_interleaved() -> None:
    """ABBA: a drift of the laboratory hits both alike."""
    order = [trial.revision for trial in retest(1, 0.0, boot=0.05).trials]

    assert order[:8] == ["good", "bad", "bad", "good", "good", "bad", "bad", "good"]


def test_large_drop_is_confirmed_at_the_first_look() -> None:
    ended = retest(2, 0.11, outliers=0)

    assert isinstance(ended.result, Confirmed)
    assert ended.boots == 6
    lead, other = ended.result.effects
    assert (lead.scenario, other.scenario) == (LEAD, "pf")
    assert lead.low < math.log(0.89) < lead.high


def test_unchanged_pair_is_not_confirmed() -> None:
    """Never in 150 seeded retests, of which all but a few end after six boots of each."""
    played = [retest(seed, 0.0) for seed in range(150)]

    assert all(isinstance(one.result, NotConfirmed) for one in played)
    assert np.mean([one.boots / 2 for one in played]) < 6


def test_identical_kernels_need_no_boot() -> None:
    move = next_move(QUESTION, Evidence(kernels=built("same", "same")))

    assert move == NotConfirmed((), "both revisions build the same kernel")


@pytest.mark.parametrize("revision", ["good", "bad"])
def test_unmeasurable_side_is_unfinished(revision: str) -> None:
    move = next_move(QUESTION, Evidence(skipped={revision: "it does not build"}))

    assert move == Unfinished(f"{revision} cannot be measured: it does not build")


def test_boots_without_samples_are_unfinished() -> None:
    """After three in vain; before that it tries again."""
    observations = boots("good", 14.0) + boots("bad", 13.9, 13.9, 13.9, lead="pf")

    assert isinstance(next_move(QUESTION, Evidence(tuple(observations[:3]))), Trial)
    move = next_move(QUESTION, Evidence(tuple(observations)))
    assert isinstance(move, Unfinished)
    assert LEAD in move.why


@pytest.mark.parametrize(
    ("scatter", "drop", "why"),
    [(0.05, 0.03, "do not tell the two kernels apart"), (0.01, 0.0195, "do not show a drop of")],
)
def test_last_look_ends_the_retest(scatter: float, drop: float, why: str) -> None:
    values = [14 + scatter * x for x in (-1.5, -1, -0.6, -0.3, 0, 0.3, 0.6, 1, 1.5)]
    observations = boots("good", *values) + boots("bad", *(x - drop for x in values))

    move = next_move(QUESTION, Evidence(tuple(observations)))

    assert isinstance(move, NotConfirmed)
    assert why in move.why
