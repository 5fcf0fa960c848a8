"""The soak: its commits, its measure of growth, and four nights of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import __main__ as service


def test_the_tree_has_a_culprit_for_each_kind_of_testbed(tmp_path: Path) -> None:
    """Each lands before a night of its own; what does not build or boot lands among others."""
    landing = service.commits(8)
    run = service.build(tmp_path / "service", nights=8, testbeds=2, boots=5, seed=3)
    roles = [[one.role for one in night if one.role] for night in landing]

    assert [night for night, found in enumerate(roles) if "culprit" in found] == [2, 4, 6]
    assert {"unbuildable", "panic"} <= {role for found in roles for role in found}
    assert sorted(run.tree.roles.values()) == sorted(role for found in roles for role in found)
    assert all(len(night) >= service.COMMITS for night in landing)
    assert run.settings.night.boots == 5


def test_growth_excludes_the_first_third_of_the_nights() -> None:
    """What is done for the first time then does not count."""
    values = [0.0, 50.0, 90.0, *(100 + 2.0 * night for night in range(6))]

    assert service.a_night(values) == pytest.approx((2.0, 2.0, 2.0))
    assert service.a_night(values[:3]) == (0.0, 0.0, 0.0)


@pytest.mark.long
def test_a_service_finds_all_culprits_of_four_nights(tmp_path: Path) -> None:
    """With Buildbot, and with whatever goes wrong meanwhile."""
    run = service.soak(tmp_path / "service", nights=4, testbeds=2, boots=2, seed=3)

    assert (run.found, run.culprits, run.wrong) == (3, 3, [])
    assert run.complete + sum(run.without.values()) == 8
    assert len(run.master) == len(run.workers) == len(run.ledger) == len(run.buildbot) == 4
