"""Shifts of many series become events, each told once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.events import (
    Event,
    EventKind,
    Place,
    Shift,
    each_once,
    events,
    in_time,
    shifts,
)
from netbisect.bisect.model import Level, Noise
from netbisect.reports.events import as_data, as_table, full, why

DAY = 86400.0
ORDER = {f"r{number}": number for number in range(200)}


def shift(
    before: int,
    at: int,
    ln_ratio: float = -0.1,
    scenario: str = "inet4-forwarding",
    testbed: str = "apu2",
    score: float = 10.0,
    images: tuple[int, int] = (10, 10),
) -> Shift:
    """Of a series between the revisions of these numbers."""
    return Shift(
        testbed=testbed,
        scenario=scenario,
        before=f"r{before}",
        at=f"r{at}",
        ln_ratio=ln_ratio,
        low=ln_ratio - 0.02,
        high=ln_ratio + 0.02,
        score=score,
        images_before=images[0],
        images_after=images[1],
        boots_before=5 * images[0],
        boots_after=5 * images[1],
        noise=Noise(0.009, 0.01),
    )


def told(found: Sequence[Event]) -> list[tuple[str, str, str, int]]:
    return [(event.kind.value, event.before, event.at, len(event.shifts)) for event in found]


def series(
    seed: int, *shape: tuple[int, float], every: float = DAY, slope: float = 0.0, start: int = 0
) -> list[Level]:
    """Levels of `count` images each at 14 + `shift`, five boots each; a day apart."""
    rng = np.random.default_rng(seed)
    levels = []
    for count, level in shape:
        for _ in range(count):
            n = start + len(levels)
            mean = 14 + level + slope * len(levels) + rng.normal(0, 0.004)
            boots = tuple(float(x) for x in mean + rng.normal(0, 0.006, 5))
            levels.append(Level(f"r{n}", f"kernel {n}", 1.7e9 + every * len(levels), boots))
    return levels


def detect(branch: Mapping[Place, Sequence[Level]]) -> list[Event]:
    found = shifts(branch)
    return events("main", [one for of_place in found.values() for one in of_place], ORDER)


# -------------------------------------------------------------------------------- what is one


def test_overlapping_ranges_are_one_event_in_what_they_share() -> None:
    found = events(
        "main",
        [
            shift(10, 14, scenario="inet4-forwarding"),
            shift(12, 16, scenario="inet4-pf-stateful", ln_ratio=-0.2),
        ],
        ORDER,
    )

    assert told(found) == [("drop", "r12", "r14", 2)]
    assert found[0].shifts[0].scenario == "inet4-pf-stateful"


def test_ranges_that_only_touch_are_two_events() -> None:
    """The one came with r12 at the latest, the other after r12."""
    found = events("main", [shift(10, 12), shift(12, 14, scenario="inet4-pf-stateful")], ORDER)

    assert told(found) == [("drop", "r10", "r12", 1), ("drop", "r12", "r14", 1)]


def test_unlike_signs_in_one_range_are_mixed() -> None:
    """A lock can cost one machine what it gives another."""
    found = events("main", [shift(10, 11), shift(10, 11, 0.8, testbed="c2758")], ORDER)

    assert told(found) == [("mixed", "r10", "r11", 2)]


def test_unlike_signs_in_unlike_ranges_are_two_events() -> None:
    """What is seen in a wide range need not be what another series shows within it."""
    found = events("main", [shift(10, 20), shift(12, 14, 0.05, testbed="c2758")], ORDER)

    assert told(found) == [("improvement", "r12", "r14", 1), ("drop", "r10", "r20", 1)]


def test_a_wide_range_joins_one_event_of_several() -> None:
    """The clearest one of its sign, and it is not told twice."""
    found = events(
        "main",
        [
            shift(5, 30, testbed="rarely measured"),
            shift(10, 11, score=5.0),
            shift(20, 21, score=15.0, scenario="inet4-pf-stateful"),
            shift(24, 25, 0.1, score=40.0, scenario="inet4-ipfw-stateful"),
        ],
        ORDER,
    )

    assert told(found) == [
        ("drop", "r10", "r11", 1),
        ("drop", "r20", "r21", 2),
        ("improvement", "r24", "r25", 1),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 150),
            st.integers(1, 30),
            st.sampled_from([-0.2, -0.05, 0.1]),
            st.integers(0, 40),
        ),
        max_size=25,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80, deadline=None)
def test_every_shift_is_in_one_event(raw: list[tuple[int, int, float, int]], rng: object) -> None:
    """Nothing is lost, nothing is told twice, and each event's range is in that of its shifts."""
    found = [
        shift(first, first + wide, ratio, testbed=f"testbed {i}", score=3 + score)
        for i, (first, wide, ratio, score) in enumerate(raw)
    ]
    result = events("main", found, ORDER)
    shuffled = list(found)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random, as hypothesis makes it

    members = [one.testbed for event in result for one in event.shifts]
    assert sorted(members) == sorted(one.testbed for one in found)
    for event in result:
        assert ORDER[event.before] < ORDER[event.at]
        for one in event.shifts:
            assert ORDER[one.before] <= ORDER[event.before]
            assert ORDER[event.at] <= ORDER[one.at]
    assert len(events("main", shuffled, ORDER)) == len(result)


# ------------------------------------------------------------------------------------ in series


def test_one_step_in_several_series_is_one_event() -> None:
    branch = {
        Place("apu2", "inet4-forwarding"): series(1, (15, 0.0), (15, -0.06)),
        Place("apu2", "inet4-pf-stateful"): series(2, (15, 0.0), (15, -0.05)),
        Place("c2558", "inet4-forwarding"): series(3, (15, 0.0), (15, -0.1)),
        Place("c2558", "inet4-pf-stateful"): series(4, (30, 0.0)),
    }

    (event,) = detect(branch)

    assert told([event]) == [("drop", "r14", "r15", 3)]
    assert "15 images before and 15 after. 3 series on 2 testbeds show it." in why(event)


def test_an_odd_image_is_one_event() -> None:
    """With the next image the level is back: a dip, and the way back is not an improvement."""
    branch = {
        Place("apu2", scenario): series(seed, (15, 0.0), (1, -0.15), (15, 0.0))
        for seed, scenario in enumerate(["inet4-forwarding", "inet4-pf-stateful"])
    }

    (event,) = detect(branch)

    assert told([event]) == [("dip", "r14", "r15", 2)]
    assert event.back == "r16"
    assert "With r16, one image later, the level is back." in why(event)


def test_an_odd_image_upwards_is_a_peak() -> None:
    (event,) = detect({Place("apu2", "x"): series(5, (15, 0.0), (1, 0.15), (15, 0.0))})

    assert told([event]) == [("peak", "r14", "r15", 1)]


def test_a_dip_that_is_none_elsewhere_is_a_drop_and_an_improvement() -> None:
    """In one series only half of it came back: both revisions matter."""
    branch = {
        Place("e5", "x"): series(6, (15, 0.0), (1, -0.3), (15, 0.0)),
        Place("c2558", "x"): series(7, (15, 0.0), (1, -0.3), (15, -0.15)),
    }

    drop, improvement = detect(branch)

    assert told([drop, improvement]) == [
        ("drop", "r14", "r15", 2),
        ("improvement", "r15", "r16", 2),
    ]
    assert "With r16, one image later, the level is back in 1 of 2 series." in why(drop)
    assert "It ends what came with r15 in 1 of 2 series." in why(improvement)


def test_what_the_generator_limits_neither_improves_nor_drops() -> None:
    levels = [replace(level, saturated=True) for level in series(8, (15, 0.0), (15, -0.1))]

    assert detect({Place("apu2", "x"): levels}) == []
    assert len(detect({Place("apu2", "x"): [*levels[:15], *series(8, (30, -0.1))[15:]]})) == 1


@pytest.mark.parametrize("slope", [-0.0004, -0.0006, -0.001])
def test_a_level_that_slides_is_a_drift(slope: float) -> None:
    """Half a thousandth a day adds up; it is not cut into steps, for no revision made it."""
    (event,) = detect({Place("apu2", "x"): series(9, (110, 0.0), slope=slope)})

    assert event.kind is EventKind.DRIFT
    assert event.at == "r109"
    assert event.shifts[0].images_before is None
    assert event.shifts[0].high < 0
    assert "quarter" in why(event)


@pytest.mark.parametrize("place", [20, 60, 100])
def test_a_step_is_no_drift(place: int) -> None:
    """Wherever in the quarter it is, though the latest level is lower than the best."""
    levels = series(9, (place, 0.0), (110 - place, -0.06))

    assert told(detect({Place("apu2", "x"): levels})) == [("drop", f"r{place - 1}", f"r{place}", 1)]


def test_series_that_slide_together_are_one_drift() -> None:
    branch = {
        Place("apu2", scenario): series(seed, (110, 0.0), slope=-0.0006)
        for seed, scenario in enumerate(["inet4-forwarding", "inet4-pf-stateful"])
    }

    (event,) = detect(branch)

    assert (event.kind, len(event.shifts)) == (EventKind.DRIFT, 2)


@pytest.mark.parametrize("levels", [[], series(10, (1, 0.0)), series(11, (2, 0.0))])
def test_short_series_have_no_events(levels: list[Level]) -> None:
    assert detect({Place("apu2", "x"): levels}) == []


# ---------------------------------------------------------------------------------------- times


def test_levels_out_of_their_time_do_not_count_as_recent() -> None:
    """An old revision that was measured late, a clock in the future, and one at the epoch."""
    times = [1.0, 2.0, 90.0, 3.0, 4.0, 0.0, 5.0, 5.0, 6.0]
    levels = [Level(f"r{i}", "", at, (14.0,)) for i, at in enumerate(times)]

    assert [level.at for level in in_time(levels)] == [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0]
    assert in_time([]) == []


@given(st.lists(st.integers(0, 9), max_size=9))
@settings(deadline=None)
def test_the_longest_run_in_time_is_kept(times: list[int]) -> None:
    kept = [level.at for level in in_time([Level("r", "", float(t), (1.0,)) for t in times])]
    subsets = ([t for i, t in enumerate(times) if bits >> i & 1] for bits in range(1 << len(times)))

    assert kept == sorted(kept)
    assert len(kept) == max(len(one) for one in subsets if one == sorted(one))


# ------------------------------------------------------------------------------------- branches


def test_a_branch_under_two_names_tells_its_events_once() -> None:
    main = [*events("main", [shift(10, 11), shift(10, 11, testbed="c2558")], ORDER)]
    other = events("head", [shift(10, 11)], ORDER)
    own = events("stable/15", [shift(50, 51)], ORDER)

    found = each_once([*other, *main, *own])

    assert [(event.branch, event.also_on) for event in found] == [
        ("main", ("head",)),
        ("stable/15", ()),
    ]


# ----------------------------------------------------------------------------------- telling it


def test_an_event_is_told_with_range_effect_kind_and_why() -> None:
    found = events(
        "main",
        [shift(10, 14, images=(1, 4)), shift(10, 16, -0.02, scenario="inet4-pf-stateful")],
        ORDER,
    )

    row = " ".join(as_table(found).splitlines()[1].split())
    assert row == (
        "main r10..r14 drop apu2/inet4-forwarding -9.5 % (-11.3 to -7.7) 1 + 4 10.0 1 series"
    )
    text = full(found)
    assert "main r10..r14: drop" in text
    assert "-9.5 % (-11.3 to -7.7)" in text
    assert "One side is a single image" in text
    assert "measured r10..r16" in text
    (data,) = as_data(found)
    assert (data["before"], data["at"], data["kind"], data["back"]) == ("r10", "r14", "drop", None)
    assert data["series"][0]["percent"] == round(100 * math.expm1(-0.1), 2)


def test_hashes_are_shortened_for_people_only() -> None:
    first, last = "a" * 40, "b" * 40
    one = replace(shift(1, 2), before=first, at=last)
    found = events("main", [one], {first: 1, last: 2})

    assert f"{'a' * 12}..{'b' * 12}" in as_table(found)
    assert first not in as_table(found)
    assert as_data(found)[0]["before"] == first
