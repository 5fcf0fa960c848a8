"""`make demo` as a user runs it, and a look into its master at the end."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from programs import captured

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("service")]
NUMERIC = {"numpy", "scipy", "matplotlib"}
MOST_MIB = 150


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
def test_the_demonstration_names_the_commit_and_its_master_computes_nothing(tmp_path: Path) -> None:
    """No variable but HOME and PATH is set; no numeric library is loaded, nor mapped."""
    probe = Path(__file__).parents[1] / "fixtures" / "demo_probe.py"
    place = tmp_path / "demo"
    done = captured(
        [sys.executable, str(probe), str(place)],
        env={name: os.environ[name] for name in ("HOME", "PATH")},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])

    assert found["right"]
    assert not any("NUM_THREADS" in one for one in found["environment"])
    assert not NUMERIC & {name.partition(".")[0] for name in found["modules"]}
    assert not re.findall(r"\S*(?:numpy|scipy|matplotlib|openblas)\S*", found["mapped"])
    assert any("openblas" in mapped for mapped in found["children"])
    peak = re.search(r"VmHWM:\s*(\d+) kB", found["status"])
    assert peak is not None
    assert int(peak[1]) / 1024 < MOST_MIB
    log = (place / "twistd.log").read_text()
    assert "Traceback (most recent call last)" not in log
