"""Every kind of page, for people who use a keyboard, a screen reader or a dark screen."""

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
def test_a_page_has_no_finding(whole_site: Any, tmp_path: Path, kind: str) -> None:
    page = min(whole_site.folder.glob(f"{kind}.html")).read_text()

    assert findings(page, "dark", tmp_path) == []
