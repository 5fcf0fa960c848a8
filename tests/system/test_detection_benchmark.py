"""The benchmark of the detection: rules, counts and the simulated lab."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.detection import __main__ as benchmark
from benchmarks.detection import ours
from benchmarks.detection.lab import BOOTS, LEARNING, Change, Lab
from benchmarks.detection.rules import RULES, Rule

AT = 30

without_ruptures = pytest.mark.skipif(
    importlib.util.find_spec("ruptures") is None, reason="ruptures has no release for this Python"
)
rules = pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=name, marks=without_ruptures if "ruptures" in name else ())
        for name, rule in RULES.items()
    ],
)


@rules
def test_rule_finds_a_drop_at_its_night(rule: Rule) -> None:
    """The last twelve nights are 10 % slower; the reported night is off by at most two nights."""
    level = 14 + math.log(0.9) * (np.arange(AT + 12) >= AT)
    scatter = np.random.default_rng(1).normal(0, 0.001, (AT + 12, BOOTS))
    nights = list(level[:, None] + scatter)
    first = next((known, at) for known in range(1, 43) if (at := rule(nights[:known])) is not None)

    assert AT < first[0] <= AT + 12
    assert abs(first[1] - AT) <= 2


@rules
def test_rule_finds_nothing_in_equal_levels(rule: Rule) -> None:
    nights = [np.full(BOOTS, 14.0)] * 40

    with np.errstate(all="ignore"):
        assert [rule(nights[:known]) for known in range(1, 41)] == [None] * 40


def counted(*alerts: tuple[int, int, int]) -> benchmark.Count:
    lab = Lab("unimodal", 1, 6, 60, 0)
    lab.changes = {0: Change(40, math.log(0.97)), 1: Change(35, math.log(0.95))}
    return benchmark.count(lab, list(alerts))


def test_alert_after_a_drop_is_a_hit() -> None:
    """An alert has the night of the report, the series, and the reported night of the change."""
    found = counted((42, 0, 41), (35, 1, 35))

    assert found.false == 0
    assert found.drops == [(pytest.approx(3), 2, 1), (pytest.approx(5), 0, 0)]
    assert found.series_nights == 6 * (60 - LEARNING)


def test_alert_without_a_drop_is_false() -> None:
    """False alerts: in another series, before the drop, or a second one for the same drop."""
    assert counted((50, 3, 49)).false == 1
    assert counted((39, 0, 38)).false == 1
    assert counted((41, 0, 40), (44, 0, 40)).false == 1
    assert [delay for _, delay, _ in counted((39, 0, 38), (43, 0, 40)).drops] == [3, None]


def test_rates_are_per_300_series_nights() -> None:
    work = Counter(boots=30, retests=4, suspicious=6)
    one = benchmark.Count(150, 1, [(3.0, 2, 1), (5.0, None, 0)], work)
    other = benchmark.Count(150, 0, [(3.0, 4, 0), (5.0, 0, 0)], Counter(suspicious=1))
    row = benchmark.summary("engine", "case", [one, other])

    assert (row["engine"], row["case"], row["labs"]) == ("engine", "case", 2)
    assert row["false_alerts"] == 1
    assert row["hits"] == {"3": 1, "5": 0.5}
    assert row["delay_nights"] == 2
    assert row["localisation_nights"] == pytest.approx(1 / 3, abs=0.01)
    assert (row["retest_boots"], row["retests"], row["suspicious"]) == (30, 4, 7)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six series of 60 nights; four become slower by 2, 3, 5 and 10 %."""
    monkeypatch.setattr(benchmark, "_SERIES", 6)
    monkeypatch.setattr(benchmark, "_NIGHTS", 60)
    monkeypatch.setattr(benchmark, "_CHANGED", 4)


@pytest.mark.long
@pytest.mark.usefixtures("tiny")
def test_clear_drops_are_found_by_retests() -> None:
    found = benchmark.play_ours("unimodal", 1)
    delays = {round(size): (delay, off) for size, delay, off in found.drops}

    assert list(delays) == [2, 3, 5, 10]
    assert found.series_nights == 6 * 30
    delay, off = delays[10]
    assert delay is not None
    assert delay <= 3
    assert off <= 1
    assert found.false <= 1
    assert 0 < found.work["retests"] <= found.work["suspicious"]
    assert found.work["boots"] >= 4


@pytest.mark.long
def test_false_suspicion_does_not_hide_a_later_drop() -> None:
    """A drop of 15 % after an outlier is reported in the second night at the latest."""
    for seed in range(3):
        lab = Lab("unimodal", seed, 1, 60, 0)
        lab.image[0, 31] = -0.03
        watch = ours.Watch(lab)
        lab.changes[0] = Change(45, math.log(0.85))
        alerts = [(night, since) for night in range(60) for _, since in watch.night(night)]

        assert {(45, 45), (46, 45)} & set(alerts)
