"""Screening of a night, and selection of its retest."""

from __future__ import annotations

import pytest
from histories import history

from netbisect.bisect.detection.screening import q_values, retest_order, screen_night
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import ScreenResult
from netbisect.bisect.model.jobs import NightlyJob


def suspicion(p: float, kind: AlertKind = AlertKind.DROP, ln_ratio: float = -0.05) -> ScreenResult:
    return ScreenResult(suspicious=True, ln_ratio=ln_ratio, good="r3", p=p, kind=kind)


def test_smallest_p_is_retested_first_and_drops_before_gains() -> None:
    found = {
        "gain": suspicion(1e-9, AlertKind.IMPROVEMENT, 0.2),
        "faint": suspicion(1e-2),
        "small": suspicion(1e-3),
        "large": suspicion(1e-3, ln_ratio=-0.1),
        "modes": suspicion(1e-9, AlertKind.MODES),
        "drift": suspicion(1e-9, AlertKind.DRIFT),
    }

    assert retest_order(found) == ["large", "small", "faint", "gain"]
    assert retest_order({}) == []


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
