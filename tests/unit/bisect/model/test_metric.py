"""Metrics and the names of their series."""

from __future__ import annotations

import pytest

from netbisect.bisect.model.metric import SeriesMetric, metric_of, scenario_of, split_settings

CPU = SeriesMetric("cpu", "%", lower=True)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (SeriesMetric(), "inet4"),
        (CPU, "inet4~cpu.percent.lower"),
        (SeriesMetric("throughput", "bit/s"), "inet4~throughput.bit-per-s"),
    ],
)
def test_metric_survives_a_round_trip_through_the_series_name(
    metric: SeriesMetric, name: str
) -> None:
    assert metric.of("inet4") == name
    assert metric_of(name) == metric
    assert scenario_of(name) == "inet4"


def test_tunables_belong_to_the_scenario() -> None:
    name = CPU.of("inet4@net.isr.maxthreads=4")
    assert scenario_of(name) == "inet4@net.isr.maxthreads=4"
    assert metric_of(name) == CPU
    assert split_settings(name) == (CPU.of("inet4"), "net.isr.maxthreads=4")
    assert split_settings("inet4") == ("inet4", "")
    assert (metric_of("a~b"), scenario_of("a~b")) == (SeriesMetric(), "a~b")


def test_level_falls_when_a_lower_is_better_value_rises() -> None:
    assert CPU.level(22.0) < CPU.level(20.0)
    assert CPU.number(CPU.level(22.0)) == pytest.approx(22.0)
