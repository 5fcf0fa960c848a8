"""Texts of answers to requests."""

from __future__ import annotations

from netbisect.bisect.model.detection_results import DifferenceVerdict
from netbisect.bisect.model.metric import SeriesMetric
from netbisect.bisect.model.results import Effect
from netbisect.reports.pages.requests import (
    DifferenceLine,
    Head,
    RequestAnswer,
    SettingLine,
    hidden,
    setting_rows,
)

CPU = SeriesMetric("cpu", "%", lower=True).of("inet4-fixed-rate")
HEAD = Head(1, "series", ("a1",), ("c2558",))


def test_settings_of_one_revision_name_their_run() -> None:
    effect = Effect("inet4@net.isr.maxthreads=4", 0.1, 0.05, 0.15, 0.001, 5, 5)
    lines = tuple(
        SettingLine("c2558", run, "inet4", "net.isr.maxthreads=4", "a1", effect) for run in (1, 2)
    )
    answer = RequestAnswer(HEAD, "no regression", "", 0.02, (), settings=lines)
    assert [row[0] for row in setting_rows(answer)[1:]] == ["c2558, run 1", "c2558, run 2"]


def test_interval_of_hidden_change_ascends_if_lower_numbers_are_better() -> None:
    effect = Effect(CPU, 0.0, -0.001, 0.001, 0.9, 5, 5)
    line = DifferenceLine("c2558", 1, "CPU use", "a2", effect, -0.02, 0.03, DifferenceVerdict.SAME)
    assert "between -3.0 % and +2.0 % is not excluded" in hidden(line)
