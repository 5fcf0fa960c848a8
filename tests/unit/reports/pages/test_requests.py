"""Texts of request results."""

from __future__ import annotations

from dataclasses import replace

import report_documents

from netbisect.bisect.model.metric import SeriesMetric
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.types import ComparedRevision, ComparedSetting, Difference, SecondRun
from netbisect.reports.pages.requests import as_text, hidden, part_line, setting_rows, subject_line

CPU = SeriesMetric("cpu", "%", lower=True).of("inet4-fixed-rate")


def test_settings_of_one_revision_name_their_run() -> None:
    found = Difference.of(Effect("inet4@net.isr.maxthreads=4", 0.1, 0.05, 0.15, 0.001, 5, 5))
    lines = tuple(
        ComparedSetting("c2558", run, "inet4", "net.isr.maxthreads=4", "a1", found)
        for run in (1, 2)
    )
    request = replace(report_documents.request_document(), differences=(), settings=lines)
    assert [row[0] for row in setting_rows(request)[1:]] == ["c2558, run 1", "c2558, run 2"]
    undecided = replace(request, remarks=("More boots may decide it.",))
    assert "\nMore boots may decide it.\n" in as_text(undecided)


def test_boots_of_a_job_have_a_limit_only_while_more_may_follow() -> None:
    measured, search = report_documents.request_document().parts
    assert "x: 1 of 10 boots, place 2" in part_line(measured)
    assert part_line(replace(search, state="open")) == "bisection on c2558: 1 of about 10 boots"
    assert part_line(search) == "bisection on c2558: 1 boot"


def test_subject_names_two_revisions_or_a_range() -> None:
    assert subject_line(7, "compare", ["a", "b"]).endswith(": compare a and b")
    assert subject_line(7, "series", ["a", "b", "c"]).endswith(": series a and 2 others")
    assert subject_line(7, "bisect", ["a", "b"]).endswith(": bisect a..b")


def test_interval_of_hidden_change_ascends_if_lower_numbers_are_better() -> None:
    found = Difference.of(Effect(CPU, 0.0, -0.001, 0.001, 0.9, 5, 5))
    line = ComparedRevision("c2558", 1, "CPU use", "a2", found, -0.02, 0.03, "no regression", "")
    assert "between -3.0 % and +2.0 % is not excluded" in hidden(line)
    runs = (SecondRun("c2558", CPU, "a2", 0.0, -0.1, 0.1, consistent=True),)
    request = replace(report_documents.request_document(), differences=(line,), repeats=runs)
    assert "The two runs agree on a2 in CPU use" in as_text(request)
