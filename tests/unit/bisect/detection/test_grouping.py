"""Groups of suspicious series, and selection of retests."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.detection.grouping import (
    RETESTS,
    Group,
    Suspicion,
    choose_retests,
    group_suspicions,
    next_pair,
    q_values,
    screen_night,
)
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import ScreenResult
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.model.jobs import CompareJob, NightlyJob

made = runpy.run_path(str(Path(__file__).parents[3] / "fixtures" / "histories.py"))
history, nights = made["history"], made["nights"]

ORDER = {f"r{i}": i for i in range(20)}


def off(
    scenario: str,
    good: int | str,
    *suspects: int,
    p: float = 1e-3,
    kind: AlertKind = AlertKind.DROP,
    ln_ratio: float = -0.05,
) -> Suspicion:
    found = ScreenResult(
        suspicious=True,
        ln_ratio=ln_ratio,
        threshold=0.02,
        score=-ln_ratio / 0.02,
        baseline=14.0,
        good=f"r{good}",
        p=p,
        suspects=tuple(f"r{i}" for i in suspects),
        kind=kind,
    )
    return Suspicion("apu", scenario, found)


def names(found: list[Group]) -> list[list[str]]:
    return [[one.scenario for one in group.members] for group in found]


# ------------------------------------------------------------------------------------- groups


def test_overlapping_ranges_form_one_group() -> None:
    one, other = off("faint", 4, 7, 6, p=1e-3), off("clear", 5, 6, p=1e-9)

    for order in ([one, other], [other, one]):
        (group,) = group_suspicions(order, ORDER)
        assert group.lead is other
        assert group.members == (other, one)


def test_disjoint_ranges_are_separate_groups() -> None:
    """What lies after r5 cannot have changed r5."""
    assert names(group_suspicions([off("a", 3, 5), off("b", 5, 8, p=1e-2)], ORDER)) == [
        ["a"],
        ["b"],
    ]
    assert names(group_suspicions([off("a", 3, 5), off("b", 4, 8, p=1e-2)], ORDER)) == [["a", "b"]]


def test_oldest_suspect_ends_the_range() -> None:
    """It was slower already."""
    assert names(group_suspicions([off("a", 3, 9, 6), off("b", 6, 9, p=1e-2)], ORDER)) == [
        ["a"],
        ["b"],
    ]


def test_drop_and_gain_are_separate_groups() -> None:
    gain = off("b", 3, 5, kind=AlertKind.IMPROVEMENT, ln_ratio=0.05, p=1e-2)

    assert names(group_suspicions([off("a", 3, 5), gain], ORDER)) == [["a"], ["b"]]


def test_unknown_revision_is_a_separate_group() -> None:
    unknown = off("a", "enamed", 5), off("b", 3, 99, p=1e-2), off("c", 3, p=1e-1)

    assert names(group_suspicions([*unknown, off("d", 3, 5, p=0.5)], ORDER)) == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
    ]
    assert names(group_suspicions(unknown, {})) == [["a"], ["b"], ["c"]]


def test_larger_change_leads_at_equal_p() -> None:
    (group,) = group_suspicions([off("a", 3, 5, p=0), off("b", 3, 5, p=0, ln_ratio=-0.3)], ORDER)

    assert group.lead.scenario == "b"


RANGES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(10, 19), st.floats(0, 0.02)), max_size=12
)


@given(RANGES, st.randoms(use_true_random=False))
def test_every_suspicion_is_in_one_group(ranges, shuffler) -> None:  # noqa: ANN001 - as drawn
    all_off = [off(str(i), good, bad, p=p) for i, (good, bad, p) in enumerate(ranges)]
    shuffler.shuffle(all_off)
    found = group_suspicions(all_off, ORDER)

    members = [one.scenario for group in found for one in group.members]
    assert sorted(members) == sorted(one.scenario for one in all_off)
    for group in found:
        assert group.lead.found.p == min(one.found.p for one in group.members)
    assert [group.lead.found.p for group in found] == sorted(group.lead.found.p for group in found)


# ------------------------------------------------------------------------------------- choose


def test_retests_are_limited_smallest_p_first() -> None:
    many = [Group((off(str(i), 3, 5, p=1e-3 / (1 + i)),)) for i in range(RETESTS + 4)]

    assert names(choose_retests(many)) == [[str(i)] for i in range(RETESTS + 3, 3, -1)]
    assert names(choose_retests(many, 1)) == [[str(RETESTS + 3)]]
    assert choose_retests(many, 0) == []
    assert choose_retests([]) == []


def test_drops_are_retested_before_gains() -> None:
    gain = Group((off("gain", 3, 5, p=1e-9, kind=AlertKind.IMPROVEMENT, ln_ratio=0.2),))
    drop = Group((off("drop", 3, 5, p=1e-2),))

    assert names(choose_retests([gain, drop])) == [["drop"], ["gain"]]


@pytest.mark.parametrize("kind", [AlertKind.MODES, AlertKind.DRIFT])
def test_modes_and_drifts_are_not_retested(kind: AlertKind) -> None:
    assert choose_retests([Group((off("a", 3, 5, kind=kind),))]) == []


# ------------------------------------------------------------------------------------ q values


def test_q_values_agree_with_benjamini_and_hochberg() -> None:
    """The example of their paper: four of fifteen are found at 5 %."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]

    assert sum(q <= 0.05 for q in q_values(p)) == 4
    assert q_values(p[::-1]) == pytest.approx(q_values(p)[::-1])


def test_q_values_edge_cases() -> None:
    assert q_values([]) == []
    assert q_values([1.0, 1.0]) == [1.0, 1.0]


# ----------------------------------------------------------------------------------- suspicion

NIGHT = NightlyJob("main", "apu", "r10", ("inet4", "inet6", "pf"), 5)


def suspicion(night: NightlyJob, series: dict[str, list[Level]]) -> CompareJob | None:
    return screen_night(night, series).wanted


def test_largest_drop_leads_the_retest() -> None:
    series = {
        "inet4": history(19, (10, 0.0), (1, -0.06)),
        "inet6": history(20, (10, 0.0), (1, -0.2)),
        "pf": history(21, (10, 0.0), (1, 0.0)),
    }

    job = suspicion(NIGHT, series)

    assert job is not None
    assert (job.lead, job.good, job.bad) == ("inet6", "r9", "r10")
    assert (job.branch, job.testbed) == ("main", "apu")
    assert job.scenarios == NIGHT.scenarios
    assert job.suspected == pytest.approx(-0.2, abs=0.03)


def test_quiet_night_has_no_retest() -> None:
    assert suspicion(NIGHT, {name: history(22, (11, 0.0)) for name in NIGHT.scenarios}) is None


def test_night_without_history_or_samples_has_no_retest() -> None:
    alone = history(23, (11, 0.0))[-1:]
    not_measured = history(24, (9, 0.0), (1, -0.2))

    assert suspicion(NIGHT, {}) is None
    assert suspicion(NIGHT, {"inet4": alone, "inet6": [], "pf": not_measured}) is None


def test_night_at_the_baseline_has_no_retest() -> None:
    levels = history(60, (10, 0.0), (1, -0.1), image=0.004, stray=0)
    (again,) = nights([[14.0, 14.001, 13.999, 14.002, 13.998]])
    later = replace(again, revision="r11", identity="kernel r11", at=11.0)

    assert suspicion(NIGHT, {"inet4": levels}) is not None
    assert suspicion(replace(NIGHT, revision="r11"), {"inet4": [*levels, later]}) is None


def test_gain_is_retested_after_drops() -> None:
    gain, drop = history(61, (10, 0.0), (1, 0.2)), history(62, (10, 0.0), (1, -0.06))
    job = suspicion(NIGHT, {"inet4": gain})

    assert job is not None
    assert (job.lead, job.suspected > 0) == ("inet4", True)
    both = suspicion(NIGHT, {"inet4": gain, "inet6": drop})
    assert both is not None
    assert (both.lead, both.suspected < 0) == ("inet6", True)


def test_retest_has_the_noise_of_the_lead() -> None:
    levels = history(63, (30, 0.0), (1, -0.05), share=0.3, boot=0.005, image=0.004, stray=0)
    job = suspicion(replace(NIGHT, revision="r30"), {"inet4": levels})

    assert job is not None
    assert job.noise is not None
    assert job.noise.slow_gap == pytest.approx(0.12, rel=0.1)
    assert job.noise.slow_share == pytest.approx(0.3, abs=0.1)


# ------------------------------------------------------------------------------- further pairs

NOISE = Noise(0.009, 0.008)
FIRST = CompareJob("main", "apu", "r9", "r10", ("inet4",), "inet4", suspected=-0.03)


def all_pairs(levels: list[Level]) -> list[CompareJob]:
    pairs = [FIRST]
    while found := next_pair(pairs, levels, NOISE):
        pairs.append(found)
    return pairs


def test_further_pairs_use_new_images() -> None:
    """The newest ones since the suspicion, against those nearest to the baseline."""
    pairs = all_pairs(history(65, (10, 0.0), (4, -0.03)))

    assert [pair.bad for pair in pairs] == ["r10", "r13", "r12", "r11"]
    goods = [pair.good for pair in pairs]
    assert len(set(goods)) == len(goods)
    assert all(int(good[1:]) < 10 for good in goods)
    assert all((pair.lead, pair.suspected) == ("inet4", -0.03) for pair in pairs)


def test_no_further_pair_without_another_suspect() -> None:
    assert next_pair([FIRST], history(66, (10, 0.0), (1, -0.03)), NOISE) is None


def test_no_further_pair_for_unknown_revisions() -> None:
    """A branch that was renamed, or a revision that was never a night's."""
    levels = history(67, (10, 0.0), (4, -0.03))

    assert next_pair([replace(FIRST, good="gone")], levels, NOISE) is None
    assert next_pair([replace(FIRST, bad="gone")], levels, NOISE) is None
    assert next_pair([FIRST], [], NOISE) is None


def test_suspects_kernel_is_no_further_image() -> None:
    levels = [
        replace(one, identity="the bad one") if i > 9 else one
        for i, one in enumerate(history(68, (10, 0.0), (3, -0.03)))
    ]

    assert next_pair([FIRST], levels, NOISE) is None


def test_pairs_use_each_kernel_once() -> None:
    levels = [
        replace(one, identity=f"kernel {i // 2}")
        for i, one in enumerate(history(69, (10, 0.0), (8, -0.03)))
    ]
    identity = {one.revision: one.identity for one in levels}
    pairs = all_pairs(levels)

    assert sorted(identity[pair.bad] for pair in pairs) == [f"kernel {i}" for i in (5, 6, 7, 8)]
    assert len({identity[pair.good] for pair in pairs}) == len(pairs)
