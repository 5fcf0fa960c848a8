"""A service with injected faults."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from programs import captured

from benchmarks.chaos import script

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
@pytest.mark.xdist_group("service")
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_night_survives_each_fault(tmp_path: Path) -> None:
    """Faults of master, worker, trial, database and disk violate no invariant."""
    command = [sys.executable, "-m", "benchmarks.chaos", "--short"]
    done = captured([*command, "--keep", str(tmp_path)], cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert {fault for _, fault in report["hits"]} >= {*script.FAULTS} - {script.LAB}
