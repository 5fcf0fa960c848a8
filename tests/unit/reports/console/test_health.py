"""Warnings and the table of `netbisect health`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from histories import history

from netbisect.bisect.detection.health import series_health
from netbisect.bisect.model.detection_results import (
    BootModes,
    DetectionRecord,
    DriftEstimate,
    RepeatedNights,
    SeriesReport,
    SplitHalfTest,
)
from netbisect.reports.console.health import as_text, with_warnings
from netbisect.reports.model.types import HealthDocument

FORWARDING, PF = "inet4-forwarding", "inet4-pf-stateful"
LEVELS = history(1, (12, 0.0), boot=0.005, image=0.0, stray=0.0)
QUIET = DetectionRecord(0, 0, 1.0, 0, 0, 0, 0, None)
NO_REPEATS = RepeatedNights(0, 0, 0, None)


def lab_health(*series: SeriesReport, mails_given_up: int = 0, **changes: Any) -> HealthDocument:
    found = {"record": QUIET, "halves": SplitHalfTest(0, 0, 0), "repeats": NO_REPEATS, **changes}
    health = HealthDocument(at=1.8e9, series=series, warnings=(), **found)
    return with_warnings(health, mails_given_up)


def report(
    scenario: str = FORWARDING,
    days: float | None = 1.0,
    *,
    testbed: str = "c2558",
    up_to_date: bool = True,
    **changes: object,
) -> SeriesReport:
    found = replace(series_health(LEVELS), **changes)  # type: ignore[arg-type] # by field
    return SeriesReport(testbed, scenario, "main", found, 0.5, days, up_to_date, True, NO_REPEATS)


@pytest.mark.parametrize(
    ("health", "sentence"),
    [
        (
            lab_health(mails_given_up=2),
            (
                "2 mails could not be sent and will not be tried again: `netbisect mails` lists "
                "the errors, `netbisect mails retry` sends a mail again."
            ),
        ),
        (
            lab_health(record=replace(QUIET, drops=12, improvements=1, one_sided=0.003)),
            (
                "12 drops and 1 improvement were announced in 90 days; probability of this "
                "imbalance by chance: 1 in 300."
            ),
        ),
        (
            lab_health(record=replace(QUIET, announced=9, taken_back=1)),
            (
                "Withdrawn or invalid: 1 of 9 alerts of the last 90 days; at most "
                "10 % is acceptable."
            ),
        ),
        (
            lab_health(halves=SplitHalfTest(100, 5, 9)),
            (
                "Halves of the boots of 5 of 100 images differ in a retest; expected: 1 %. Boots "
                "drift within a night, or are not independent."
            ),
        ),
        (
            lab_health(repeats=RepeatedNights(20, 5, 0, 0.01)),
            (
                "5 of 20 repeated nights of one kernel are flagged by the screen; expected: 4 %. "
                "The lab differs from night to night."
            ),
        ),
        (
            lab_health(repeats=RepeatedNights(20, 1, 3, 0.01)),
            (
                "3 of 20 repeated nights of one kernel differ in a retest; expected: 1 %. "
                "The lab differs from night to night."
            ),
        ),
        (
            lab_health(report(smallest_drop=0.11)),
            "One night detects only drops of more than 10 % in c2558/inet4-forwarding/main.",
        ),
        (
            lab_health(report(), report(PF, days=2.6, up_to_date=False)),
            (
                "No level for more than 2 nights despite newer commits: "
                "c2558/inet4-pf-stateful/main."
            ),
        ),
        (
            lab_health(report(), report(PF, days=2.6), replace(report("x", 9), nightly=False)),
            (
                "No level for more than 2 nights, and no newer commits: "
                "c2558/inet4-pf-stateful/main."
            ),
        ),
        (
            lab_health(report(days=8.4), report(PF, days=9.6), report(testbed="apu2")),
            "c2558 has no measurements for 8 days.",
        ),
        (
            lab_health(*(report(f"s{i}", saturated=True) for i in range(7))),
            (
                "The generator limits the rate, which hides small drops, in c2558/s0/main, "
                "c2558/s1/main, c2558/s2/main, c2558/s3/main, c2558/s4/main and 2 more series."
            ),
        ),
    ],
)
def test_each_problem_has_one_warning(health: HealthDocument, sentence: str) -> None:
    assert health.warnings == (sentence,)
    assert " ".join(as_text(health).split("Warnings:")[1].split()) == sentence


def test_table_has_a_line_per_series() -> None:
    """The line has modes, drift and remarks."""
    shown = report(
        modes=BootModes(0.25, 0.1, 0.005),
        modes_changed=True,
        saturated=True,
        smallest_drop=None,
        drift=DriftEstimate(-0.05, -0.06, -0.04, 9.8, "a", "b"),
    )
    text = as_text(lab_health(shown, report(PF, levels=1)))
    head, line, rest = text.split("\n", 2)

    assert head.split()[:3] == ["series", "levels", "boots"]
    assert line.startswith("c2558/inet4-forwarding/main  12      60     0.")
    assert "25 %, 9.5 % slower" in line
    assert line.endswith("0.50  -4.9 %  1 d ago  saturated, slow mode changed")
    assert rest.startswith("1 series with fewer than two levels not shown.\n")
