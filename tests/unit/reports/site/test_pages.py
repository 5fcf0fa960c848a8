"""Pages about many series."""

from __future__ import annotations

import re

import report_documents

from netbisect.bisect.model.entities import Level
from netbisect.reports.site import pages


def test_a_rise_of_a_number_goes_up_whatever_is_better() -> None:
    paths = []
    for scenario, sign in (("fwd4", 1), ("fwd4~cpu.percent.lower", -1)):
        levels = [Level(f"{i:040x}", f"{i}", 0.0, (sign * (4 + i / 50),) * 2) for i in range(5)]
        text = pages.testbed([report_documents.series_document(levels, scenario=scenario)], [])
        paths += re.findall(r'class="spark".*?<path d="(.*?)"', text.html())
    assert len(paths) == 2
    assert paths[0] == paths[1]
