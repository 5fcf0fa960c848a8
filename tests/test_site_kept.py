"""What is kept beside a site saves work, and never changes what is told."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from netbisect.bisect.model import Boot, Commit, Conditions, Fact, Kernel, Level, Noise, Sample
from netbisect.steps.site_kept import Kept
from netbisect.store.database import open_database
from netbisect.store.ledger import Ledger
from netbisect.store.lookup import SeriesName
from netbisect.store.measured import Measured
from netbisect.store.schema import migrate

BED, SCENARIOS = "t", ("fwd", "pf")
EPOCHS = [Conditions.of(BED, one, {"flows": flows}) for one in SCENARIOS for flows in "12"]
CLOCK = 1.7e9


def revision(number: int) -> str:
    return f"{number:040x}"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database without anything in it."""
    folder = tmp_path_factory.mktemp("kept")
    engine = open_database(f"sqlite:///{folder}/empty")
    migrate(engine)
    engine.dispose()
    return folder


def ledger_of(folder: Path) -> Ledger:
    """A new one."""
    shutil.copy(folder / "empty", folder / "ledger")
    ledger = Ledger(open_database(f"sqlite:///{folder}/ledger"), clock=lambda: CLOCK)
    ledger.learn([Commit(revision(i), i, "s", "", "a", "e", 0.0) for i in range(6)], "main")
    return ledger


def facts(boot: str, number: int, at: float, epoch: int, runs: int) -> list[Fact]:
    """A boot of a revision, with so many runs of a scenario; some revisions have two kernels."""
    conditions = EPOCHS[epoch]
    key = f"k{number}-{int(at) % 2 if number < 2 else 0}"
    told: list[Fact] = [
        Kernel(revision(number), "G", "amd64", f"id-{key}", key, "v", 1, CLOCK, 1.0),
        Boot(boot, BED, key, revision(number), at, 1.0),
    ]
    for run in range(runs):
        pps = 1e6 + 100 * number + run if at else 0.0
        sample = f"{boot}-{conditions.scenario}-{run}-{at}"
        problems = () if pps else ("no packets",)
        told.append(
            Sample(sample, boot, BED, conditions.scenario, pps, 1e7, (), (), problems,
                   conditions.digest, at, 1.0)
        )  # fmt: skip
    return told


def happenings(chance: random.Random) -> Iterator[tuple[object, ...]]:
    """A few, of few revisions at few times, so that they meet."""
    for _ in range(chance.randrange(6)):
        kind = chance.choice(("identity", "branch", "conditions", *["boot"] * 5))
        number = chance.randrange(4)
        if kind == "boot":
            at, runs, together = chance.randrange(5), chance.randrange(3), chance.random() < 0.5
            yield chance.randrange(3), at, number, runs, together
        else:
            yield kind, number


def happen(ledger: Ledger, happening: tuple[object, ...], boot: str) -> None:
    at = CLOCK + 1.0  # no kernel is recorded twice
    match happening:
        case ("identity", int(number)):
            # The kernel was built again, and is known by another name from now on.
            key, name = f"k{number}-0", f"id-z{boot}"
            ledger.record(Kernel(revision(number), "G", "amd64", name, key, "v", 1, at, 1.0))
        case ("branch", int(number)):
            ledger.learn([Commit(revision(number), number, "s", "", "a", "e", 0.0)], "stable")
        case ("conditions", int(epoch)):
            ledger.record(EPOCHS[epoch])
        case (int(number), int(when), int(epoch), int(runs), bool(together)):
            found = facts(boot, number, float(when), epoch, runs)
            if together:
                ledger.record_all(found, "elsewhere")
            else:
                for fact in found:
                    ledger.record(fact)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_read_with_it_is_what_is_read_without(empty: Path, seed: int) -> None:
    """Whatever happened since: late and early samples, equal times, other kernels, new epochs."""
    chance = random.Random(seed)
    ledger = ledger_of(empty)
    kept = empty / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for number in range(5):
        for i, happening in enumerate(happenings(chance)):
            happen(ledger, happening, f"{number}-{i}")
        memory = Kept(kept, "this", ledger.mark(), ledger)
        found = list(ledger.trails_of(BED, SCENARIOS, memory))

        assert found == list(ledger.trails_of(BED, SCENARIOS))
        assert [list(one.epochs) for of in found for one in of] == [
            list(one.epochs) for name in SCENARIOS for one in ledger.trails(BED, name)
        ]
    ledger.engine.dispose()


def test_conditions_that_ended_at_the_same_time_are_read_again(empty: Path, tmp_path: Path) -> None:
    """Which of them is the newest is not told by what is kept, nor by what came since."""
    ledger = ledger_of(empty)
    for number, when, epoch in ((1, 3.0, 1), (2, 3.0, 0)):
        for fact in facts(f"b{number}", number, when, epoch, 1):
            ledger.record(fact)
        memory = Kept(tmp_path, "this", ledger.mark(), ledger)
        ((found,),) = ledger.trails_of(BED, SCENARIOS[:1], memory)

    (whole,) = ledger.trails(BED, SCENARIOS[0])
    ledger.engine.dispose()
    assert len(whole.epochs) == 2
    assert [one.digest for one in found.epochs] == [one.digest for one in whole.epochs]


LEVELS = (
    Level(revision(1), "a", 1.5, (13.1, 13.123456789012345, 13.0)),
    Level("r1+\udcff", "", -2.0, (0.1,), saturated=True),
)
FOUND = {"d1": Measured(2.5, LEVELS), "d2": Measured(3.5, LEVELS[:1])}
NAME = SeriesName(BED, "fwd", "main")


@pytest.fixture
def kept(empty: Path, tmp_path: Path) -> Kept:
    """With a scenario and its noise."""
    ledger = ledger_of(empty)
    found = Kept(tmp_path, "this", ledger.mark(), ledger)
    found.keep(BED, "fwd", FOUND)
    found.keep_noise(NAME, LEVELS, Noise(0.01, 0.0123456789))
    return found


def test_it_is_exact(kept: Kept) -> None:
    """To the last digit, and in its order."""
    told = kept.recall(BED, "fwd")

    assert told == (FOUND, frozenset())
    assert told is not None
    assert [*told[0]] == ["d1", "d2"]
    assert kept.noise(NAME, LEVELS) == Noise(0.01, 0.0123456789)


def test_noise_is_that_of_the_same_levels_only(kept: Kept) -> None:
    near = math.nextafter(LEVELS[0].ln_pps[1], 14.0)
    other = Level(revision(1), "a", 1.5, (13.1, near, 13.0))

    assert kept.noise(NAME, LEVELS[:1]) is None
    assert kept.noise(NAME, [other, LEVELS[1]]) is None
    assert kept.noise(SeriesName(BED, "fwd", "stable"), LEVELS) is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"x", None])
def test_what_is_damaged_is_not_there(kept: Kept, tmp_path: Path, damage: bytes | None) -> None:
    for path in tmp_path.iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:-9] + b"1" + whole[-8:] if damage is None else damage)

    assert kept.recall(BED, "fwd") is None
    assert kept.noise(NAME, LEVELS) is None


def test_what_others_wrote_is_not_there(kept: Kept, tmp_path: Path, empty: Path) -> None:
    """Another program, another ledger, or one of whose events some are not known."""
    ledger = Ledger(open_database(f"sqlite:///{empty}/ledger"), clock=lambda: CLOCK + 1)

    assert Kept(tmp_path, "this", "", ledger).recall(BED, "fwd") is not None
    assert Kept(tmp_path, "another", "", ledger).recall(BED, "fwd") is None
    assert kept.recall(BED, "pf") is None
    ledger.record_all([EPOCHS[0]], "elsewhere")
    assert Kept(tmp_path, "this", "", ledger).recall(BED, "fwd") is None
    shutil.copy(empty / "empty", empty / "another")
    another = Ledger(open_database(f"sqlite:///{empty}/another"), clock=lambda: CLOCK + 1)
    another.learn([Commit(revision(0), 0, "s", "", "a", "e", 0.0)], "main")
    assert Kept(tmp_path, "this", "", another).recall(BED, "fwd") is None
