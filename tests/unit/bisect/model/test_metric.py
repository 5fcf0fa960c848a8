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
def test_series_name_gives_the_metric_back(metric: SeriesMetric, name: str) -> None:
    assert metric.of("inet4") == name
    assert metric_of(name) == metric
    assert scenario_of(name) == "inet4"


def test_tunables_belong_to_the_scenario() -> None:
    name = CPU.of("inet4@net.isr.maxthreads=4")
    assert scenario_of(name) == "inet4@net.isr.maxthreads=4"
    assert metric_of(name) == CPU
    assert split_settings(name) == (CPU.of("inet4"), "net.isr.maxthreads=4")
    assert split_settings("inet4") == ("inet4", "")


def test_a_rise_of_a_number_that_should_be_low_is_a_fall_of_the_level() -> None:
    assert CPU.level(22.0) < CPU.level(20.0)
    assert CPU.number(CPU.level(22.0)) == pytest.approx(22.0)


def test_any_other_name_is_that_of_packets_per_second() -> None:
    assert metric_of("a~b") == SeriesMetric()
    assert scenario_of("a~b") == "a~b"
