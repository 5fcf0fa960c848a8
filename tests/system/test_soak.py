"""Four nights of the soak test."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import __main__ as service


@pytest.mark.long
def test_service_finds_all_culprits_of_four_nights(tmp_path: Path) -> None:
    run = service.soak(tmp_path / "service", nights=4, testbeds=2, boots=2, seed=3)

    assert (run.found, run.culprits, run.wrong) == (3, 3, [])
    assert run.complete + sum(run.without.values()) == 8
    assert len(run.master) == len(run.workers) == len(run.ledger) == len(run.buildbot) == 4
