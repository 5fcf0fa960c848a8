"""Segmentation of histories."""

from __future__ import annotations

import numpy as np
import pytest
from histories import history

from netbisect.bisect.model.entities import Level
from netbisect.bisect.stats import partition
from netbisect.bisect.stats.changepoints import boot_matrix, boot_sd, merge_levels, segment


def test_merged_level_is_saturated_by_majority() -> None:
    assert merge_levels([Level("r", "a", 1.0, (14.0,), saturated=True)]).saturated
    assert merge_levels([Level("r", "a", 1.0, (14.0, 14.0), saturated=True)] * 2).saturated


def test_boot_sd_is_robust() -> None:
    boots = boot_matrix(history(2, (30, 0.0), stray=0))
    spoiled = boots.copy()
    spoiled[3, 0] -= 1

    assert boot_sd(spoiled) == pytest.approx(boot_sd(boots), rel=0.1)


def cuts_without_preselection(
    monkeypatch: pytest.MonkeyPatch, levels: list[Level]
) -> tuple[int, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(partition, "_PLAUSIBLE", -1.0)
        return segment(levels).cuts


def test_candidate_cuts_find_clear_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ((100, 0.0), (249, -0.08), (1, 0.05), (50, -0.1), (40, 0.0), (9, 0.3))
    levels = history(0, *shape)
    found = segment(levels).cuts

    assert found == cuts_without_preselection(monkeypatch, levels)
    assert set(np.cumsum([count for count, _ in shape[:-1]])) <= set(found)


@pytest.mark.long
def test_candidate_cuts_find_faint_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        shape = [
            (int(rng.integers(5, 90)), float(shift)) for shift in np.cumsum(rng.normal(0, 0.03, 5))
        ]
        levels = history(seed, *shape, (70, 0.0))

        assert segment(levels).cuts == cuts_without_preselection(monkeypatch, levels)
