"""Pages about many series."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import report_cases
import report_documents

from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Level
from netbisect.reports.site import pages
from netbisect.reports.site.overview import NightProgress, Overview


def test_a_rise_of_a_number_goes_up_whatever_is_better() -> None:
    paths = []
    for scenario, sign in (("fwd4", 1), ("fwd4~cpu.percent.lower", -1)):
        levels = [Level(f"{i:040x}", f"{i}", 0.0, (sign * (4 + i / 50),) * 2) for i in range(5)]
        text = pages.testbed([report_documents.series_document(levels, scenario=scenario)], [])
        paths += re.findall(r'class="spark".*?<path d="(.*?)"', text.html())
    assert len(paths) == 2
    assert paths[0] == paths[1]


@pytest.mark.parametrize("state", [AlertState.OPEN, AlertState.MUTED, AlertState.FIXED])
def test_overview_counts_the_alerts_that_it_leaves_out(state: AlertState) -> None:
    alerts = [replace(report_cases.alert_summary(), state=state, standing=state.standing)] * 13
    night = NightProgress(0, 0, (), None, None)
    view = Overview(at=0.0, night=night, alerts=alerts, running=(), series=())
    assert '<a href="alerts.html">and 3 more</a>' in pages.index(view).html()
