"""The soak: a lab with culprits and faults, and a conductor without Buildbot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks.soak.world import COMMITS, FORWARDING, STATEFUL, Culprit, World, plant  # noqa: E402
from netbisect.bisect.faults import Fault  # noqa: E402
from netbisect.bisect.model import Boot, Dud, Kernel, Sample  # noqa: E402

BEDS = ["bed-1", "bed-2"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    tree = plant(tmp_path / "tree.git", 3)
    return World(tree, BEDS, [Culprit(1, "bed-2", (FORWARDING,), 0.2)], seed=7)


def test_a_culprit_is_seen_where_it_is_and_nowhere_else(world: World) -> None:
    """On its testbed, in its scenario, from its commit on."""
    place = world.culprits[0].place
    before, since = (world.tree.revisions[one] for one in (place - 1, place))
    drops = {
        (testbed, scenario): world.level(testbed, scenario, since)
        - world.level(testbed, scenario, before)
        for testbed in BEDS
        for scenario in (FORWARDING, STATEFUL)
    }
    assert drops.pop(("bed-2", FORWARDING)) < -0.19
    assert all(abs(drop) < 0.03 for drop in drops.values())


def test_a_visit_tells_what_a_laboratory_tells(world: World) -> None:
    """Samples follow their boot, and its end is the exit status; faults come at their rates."""
    kernel = world.build(world.tree.revisions[COMMITS], "GENERIC", 1.0)
    assert isinstance(kernel, Kernel)
    visits = [[*world.visit("bed-1", kernel, [FORWARDING], 1, 1.0)] for _ in range(2000)]
    boots = [fact.id for visit in visits for fact, _ in visit if isinstance(fact, Boot)]
    assert len(set(boots)) == 2000 - world.struck[Fault.DISK_FULL]
    for visit in visits:
        statuses = [status for _, status in visit if status is not None]
        assert len(statuses) == 1
        duds = [fact for fact, _ in visit if isinstance(fact, Dud)]
        assert bool(duds) == (statuses[0] in (3, 4))
        assert any(isinstance(fact, Sample) for fact, _ in visit) == (statuses[0] == 0)
    assert 5 < world.struck[Fault.LINK_FLAP] < 40
    assert 20 < sum(world.struck.values()) < 120


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory is looked up in /proc")
def test_nights_are_told_as_documented() -> None:
    """A short soak: each night of each testbed has its answer, and nobody is accused."""
    command = [sys.executable, "-m", "benchmarks.soak", "--json"]
    done = subprocess.run(
        [*command, "--nights", "2", "--testbeds", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    told = json.loads(done.stdout)
    assert told["complete"] + sum(told["without"].values()) == told["asked"]["night"] == 4
    assert told["wrong"] == []
    assert len(told["memory"]) == len(told["database"]) == 2
    assert done.returncode == 1  # its culprits have not landed yet
