"""Groups of suspicious series, and selection of retests."""

from __future__ import annotations

import pytest
from histories import history

from netbisect.bisect.detection.grouping import (
    RETESTS,
    Group,
    Suspicion,
    choose_retests,
    group_suspicions,
    q_values,
    screen_night,
)
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import ScreenResult
from netbisect.bisect.model.jobs import NightlyJob

ORDER = {f"r{i}": i for i in range(20)}


def suspicion(
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


def test_overlapping_ranges_form_one_group() -> None:
    one, other = suspicion("faint", 4, 7, 6, p=1e-3), suspicion("clear", 5, 6, p=1e-9)

    for order in ([one, other], [other, one]):
        (group,) = group_suspicions(order, ORDER)
        assert group.lead is other
        assert group.members == (other, one)


def test_disjoint_ranges_are_separate_groups() -> None:
    """Commits after r5 cannot have changed r5."""
    assert names(group_suspicions([suspicion("a", 3, 5), suspicion("b", 5, 8, p=1e-2)], ORDER)) == [
        ["a"],
        ["b"],
    ]
    assert names(group_suspicions([suspicion("a", 3, 5), suspicion("b", 4, 8, p=1e-2)], ORDER)) == [
        ["a", "b"]
    ]


def test_unknown_revision_is_a_separate_group() -> None:
    unknown = suspicion("a", "enamed", 5), suspicion("b", 3, 99, p=1e-2), suspicion("c", 3, p=1e-1)

    assert names(group_suspicions([*unknown, suspicion("d", 3, 5, p=0.5)], ORDER)) == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
    ]
    assert names(group_suspicions(unknown, {})) == [["a"], ["b"], ["c"]]


def test_retests_are_limited_smallest_p_first() -> None:
    many = [Group((suspicion(str(i), 3, 5, p=1e-3 / (1 + i)),)) for i in range(RETESTS + 4)]

    assert names(choose_retests(many)) == [[str(i)] for i in range(RETESTS + 3, 3, -1)]
    assert names(choose_retests(many, 1)) == [[str(RETESTS + 3)]]
    assert choose_retests(many, 0) == []
    assert choose_retests([]) == []


def test_drops_are_retested_before_gains() -> None:
    gain = Group((suspicion("gain", 3, 5, p=1e-9, kind=AlertKind.IMPROVEMENT, ln_ratio=0.2),))
    drop = Group((suspicion("drop", 3, 5, p=1e-2),))

    assert names(choose_retests([gain, drop])) == [["drop"], ["gain"]]


@pytest.mark.parametrize("kind", [AlertKind.MODES, AlertKind.DRIFT])
def test_modes_and_drifts_are_not_retested(kind: AlertKind) -> None:
    assert choose_retests([Group((suspicion("a", 3, 5, kind=kind),))]) == []


def test_q_values_agree_with_benjamini_and_hochberg() -> None:
    """In the example of their paper, four of fifteen are significant at 5 %."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]

    assert sum(q <= 0.05 for q in q_values(p)) == 4
    assert q_values(p[::-1]) == pytest.approx(q_values(p)[::-1])


def test_images_of_the_lead_confirm_its_effect() -> None:
    scenarios = ("inet4", "inet6")
    series = {
        "inet4": history(1, (20, 0.0), image=0.003, stray=0),
        "inet6": history(2, (16, 0.0), (4, -0.1), image=0.003, stray=0),
    }
    numbers = {f"r{place}": 300_000 + 5 * place for place in range(20)}
    job = screen_night(NightlyJob("main", "apu", "r19", scenarios, 5), series, numbers).wanted

    assert job is not None
    assert (job.lead, job.good, job.bad) == ("inet6", "r15", "r19")
    assert job.commits == 20
    assert job.agreed is not None
    assert job.agreed.scenario == "inet6"


@pytest.mark.parametrize(("change", "lead"), [(0.3, "cpu"), (-0.3, "pps")])
def test_metrics_of_one_run_are_one_comparison(change: float, lead: str) -> None:
    """Drops lead before gains, and the clearer of two drops leads."""
    series = {"cpu": history(1, (20, 0.0), (1, -0.1)), "pps": history(2, (20, 0.0), (1, change))}
    numbers = {f"r{place}": place for place in range(21)}
    night = NightlyJob("main", "apu", "r20", ("cpu", "pps"), 5)
    wanted = screen_night(night, series, numbers).wanted

    assert wanted is not None
    assert (wanted.lead, wanted.scenarios) == (lead, ("cpu", "pps"))
    assert wanted.suspected < 0
