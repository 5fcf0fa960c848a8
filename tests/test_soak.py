"""The soak: a lab with culprits and faults, and a conductor without Buildbot."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks.soak import __main__ as soak  # noqa: E402 - see above
from benchmarks.soak import service  # noqa: E402 - see above
from benchmarks.soak.growth import a_night  # noqa: E402 - see above
from benchmarks.soak.world import COMMITS, FORWARDING, STATEFUL, Culprit, World, plant  # noqa: E402
from netbisect.bisect.faults import Fault  # noqa: E402
from netbisect.bisect.model import Boot, Dud, Kernel, Sample  # noqa: E402
from netbisect.demo.tree.create import create  # noqa: E402
from netbisect.steps.memory import history_of  # noqa: E402

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


def kept() -> Counter[type]:
    """What there is of the service's own, of the benchmark, and of rows of the ledger."""
    gc.collect()
    return Counter(
        type(one)
        for one in gc.get_objects()
        if str(type(one).__module__).startswith(
            ("netbisect", "benchmarks.soak", "sqlalchemy.orm.state")
        )
    )


@pytest.mark.slow
def test_nothing_is_kept_of_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After four nights as much is in memory as after two: all of it is in the databases."""
    monkeypatch.setattr(time, "time", time.time)  # put back afterwards
    service = soak.begin(tmp_path, 4, 2, [], seed=1)
    history = history_of(service.settings, service.lab)
    found = []
    for night in range(4):
        soak.pass_night(service, history, night)
        found.append(kept())
    assert service.world.visits >= 4 * 2 * 3
    assert service.book.given > service.world.visits
    assert found[3] - found[1] == Counter()


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
    assert len(told["memory"]) == len(told["objects"]) == len(told["database"]) == 2
    assert done.returncode == 1  # its culprits have not landed yet


def test_the_tree_of_a_real_service_has_a_culprit_for_each_kind_of_testbed(tmp_path: Path) -> None:
    """Each lands before a night of its own; what does not build or boot lands among others."""
    landing = service.commits(8)
    tree = create(tmp_path / "tree.git", [one for night in landing for one in night])
    roles = [[one.role for one in night if one.role] for night in landing]

    assert [night for night, found in enumerate(roles) if "culprit" in found] == [2, 4, 6]
    assert {"unbuildable", "panic"} <= {role for found in roles for role in found}
    assert sorted(tree.roles.values()) == sorted(role for found in roles for role in found)
    assert all(len(night) >= service.COMMITS for night in landing)


def test_growth_is_that_of_the_nights_after_the_first_third() -> None:
    """What is done for the first time then does not count."""
    values = [0.0, 50.0, 90.0, *(100 + 2.0 * night for night in range(6))]

    assert a_night(values) == pytest.approx((2.0, 2.0, 2.0))
    assert a_night(values[:3]) == (0.0, 0.0, 0.0)


@pytest.mark.long
def test_a_real_service_finds_all_culprits_of_four_nights(tmp_path: Path) -> None:
    """With Buildbot, and with whatever goes wrong meanwhile."""
    told = service.soak(tmp_path / "house", nights=4, testbeds=2, boots=2, seed=3)

    assert (told.found, told.culprits, told.wrong) == (3, 3, [])
    assert told.complete + sum(told.without.values()) == 8
    assert len(told.master) == len(told.workers) == len(told.ledger) == len(told.buildbot) == 4
