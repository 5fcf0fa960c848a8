"""Accessibility of all kinds of pages of the site, in dark colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accessibility import MISSING, findings

KINDS = (
    "index",
    "alerts",
    "alert-*",
    "searches",
    "comparison-*",
    "bisection-*",
    "compare",
    "series-*",
    "testbeds",
    "testbed-*",
    "revisions-*",
    "revision-*",
    "health",
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not installed"),
    pytest.mark.xdist_group("site"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_accessibility_checker_reports_no_violation(
    whole_site: Any, tmp_path: Path, kind: str
) -> None:
    page = min(whole_site.folder.glob(f"{kind}.html")).read_text()

    assert findings(page, "dark", tmp_path) == []
