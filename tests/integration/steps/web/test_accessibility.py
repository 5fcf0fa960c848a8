"""Accessibility of pages of a running service."""

from __future__ import annotations

import pytest
import treq
from accessibility import MISSING, findings
from api_master import ApiMaster
from real_master import case

from netbisect.bisect.model.jobs import ProfileJob

PAGES = (
    "index.html",
    "alert-1.html",
    "requests.html",
    "new-request.html",
    "request-1.html",
    "profile-3.html",
    "nothing.html",
)
"""Pages with forms, and pages that the site does not have."""


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not installed")
class AccessibilityTest(ApiMaster):
    """Pages with forms, of a user who is logged in."""

    @case
    async def test_the_accessibility_checker_reports_no_violation(self) -> None:
        await self.serve_ann("ask")
        await self.record(201, self.token("ask"), testbeds=["c2558"])
        self.ledger.jobs.add(ProfileJob("main", "c2558", ("a" * 40,), ("s",)), key="profile")
        found = {}
        for name in PAGES:
            page = await treq.text_content(await self.call("GET", f"plugins/netbisect/{name}"))
            found[name] = findings(page, "light", self.folder)

        assert {name: findings for name, findings in found.items() if findings} == {}
