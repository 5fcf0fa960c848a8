"""Events of shifts in several series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pytest
from histories import history, nights
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.detection.events import (
    EventKind,
    SeriesShift,
    ShiftEvent,
    deduplicate,
    find_shifts,
    group_shifts,
)
from netbisect.bisect.model.entities import Level, Noise, SeriesName
from netbisect.reports.console.events import as_table, full, why

ORDER = {f"r{number}": number for number in range(200)}


def shift(
    before: int,
    at: int,
    ln_ratio: float = -0.1,
    scenario: str = "inet4-forwarding",
    testbed: str = "apu2",
    score: float = 10.0,
    images: tuple[int, int] = (10, 10),
) -> SeriesShift:
    """The shift of a series between two revisions."""
    return SeriesShift(
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


def summaries(found: Sequence[ShiftEvent]) -> list[tuple[str, str, str, int]]:
    return [(event.kind.value, event.before, event.at, len(event.shifts)) for event in found]


images = partial(history, boot=0.006, image=0.004, stray=0)


def detect(branch: Mapping[SeriesName, Sequence[Level]]) -> list[ShiftEvent]:
    found = find_shifts(branch)
    return group_shifts("main", [one for of_series in found.values() for one in of_series], ORDER)


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
@settings(max_examples=40, deadline=None)
def test_every_shift_is_in_one_event(raw: list[tuple[int, int, float, int]], rng: object) -> None:
    found = [
        shift(first, first + width, ratio, testbed=f"testbed {i}", score=3 + score)
        for i, (first, width, ratio, score) in enumerate(raw)
    ]
    result = group_shifts("main", found, ORDER)
    shuffled = list(found)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # random.Random of hypothesis

    members = [one.testbed for event in result for one in event.shifts]
    assert sorted(members) == sorted(one.testbed for one in found)
    for event in result:
        assert ORDER[event.before] < ORDER[event.at]
        for one in event.shifts:
            assert ORDER[one.before] <= ORDER[event.before]
            assert ORDER[event.at] <= ORDER[one.at]
    assert len(group_shifts("main", shuffled, ORDER)) == len(result)


def test_single_slow_images_are_dips() -> None:
    """Their return is no improvement, and a good image between two of them no peak."""
    branch = {
        SeriesName("apu2", scenario, "main"): images(seed, (15, 0.0), (1, -0.15), (15, 0.0))
        for seed, scenario in enumerate(["inet4-forwarding", "inet4-pf-stateful"])
    }

    (event,) = detect(branch)

    assert summaries([event]) == [("dip", "r14", "r15", 2)]
    assert event.back == "r16"
    assert "With r16, one revision later, the level is back." in why(event)
    slow = [(15, 0.0), (1, -0.3), (1, 0.0), (1, -0.3), (15, 0.0)]

    found = detect({SeriesName("apu2", "inet4-forwarding", "main"): images(1, *slow)})

    assert summaries(found) == [("dip", "r14", "r15", 1), ("dip", "r16", "r17", 1)]
    assert [event.back for event in found] == ["r16", "r18"]


def test_partial_return_is_a_drop_and_an_improvement() -> None:
    branch = {
        SeriesName("e5", "x", "main"): images(6, (15, 0.0), (1, -0.3), (15, 0.0)),
        SeriesName("c2558", "x", "main"): images(7, (15, 0.0), (1, -0.3), (15, -0.15)),
    }

    drop, improvement = detect(branch)

    assert summaries([drop, improvement]) == [
        ("drop", "r14", "r15", 2),
        ("improvement", "r15", "r16", 2),
    ]
    assert "With r16, one revision later, the level is back in 1 of 2 series." in why(drop)
    assert "It ends what came with r15 in 1 of 2 series." in why(improvement)


def test_few_images_of_a_noisy_metric_have_few_steps() -> None:
    """Images scatter by 8 %, which exceeds the usual noise of packet rates."""
    counts = {"x": 0, "x~latency.ms.lower": 0}
    for seed in range(30):
        levels = history(seed, (8, 0.0), image=0.08, stray=0)
        for scenario in counts:
            key = SeriesName("apu2", scenario, "main")
            counts[scenario] += len(find_shifts({key: levels})[key])

    assert counts["x~latency.ms.lower"] <= 15 < counts["x"]


@pytest.mark.parametrize("slope", [-0.0004, -0.0006, -0.001])
def test_gradual_drop_is_a_drift(slope: float) -> None:
    """A slope of 0.04 to 0.1 % per day is one drift and no steps."""
    rng = np.random.default_rng(9)
    levels = 14 + slope * np.arange(110) + rng.normal(0, 0.004, 110)
    rows = levels[:, None] + rng.normal(0, 0.006, (110, 5))
    (event,) = detect({SeriesName("apu2", "x", "main"): nights(rows)})

    assert event.kind is EventKind.DRIFT
    assert event.at == "r109"
    assert event.shifts[0].images_before is None
    assert event.shifts[0].high < 0
    assert "quarter" in why(event)


def test_branches_with_the_same_images_share_events() -> None:
    main = [*group_shifts("main", [shift(10, 11), shift(10, 11, testbed="c2558")], ORDER)]
    other = group_shifts("head", [shift(10, 11)], ORDER)
    own = group_shifts("stable/15", [shift(50, 51)], ORDER)

    found = deduplicate([*other, *main, *own])

    assert [(event.branch, event.also_on) for event in found] == [
        ("main", ("head",)),
        ("stable/15", ()),
    ]


def test_overlapping_ranges_form_one_event() -> None:
    """The largest shift leads."""
    found = group_shifts(
        "main",
        [shift(12, 16, -0.02, scenario="inet4-pf-stateful"), shift(10, 14, images=(1, 4))],
        ORDER,
    )

    row = " ".join(as_table(found).splitlines()[1].split())
    assert row == (
        "main r12..r14 drop apu2/inet4-forwarding -9.5 % (-11.3 to -7.7) 1 + 4 10.0 1 series"
    )
    text = full(found)
    assert "One side is a single revision" in text
    assert "measured r12..r16" in text
