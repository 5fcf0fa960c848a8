"""Requests claimed by a master that was killed are released and started again.

Buildbot releases the claims of the master that cleans up instead; not fixed upstream.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from buildbot.data import base, masters
from twisted.internet import defer

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(masters.Master, "_masterDeactivatedHousekeeping", "262f188e16d9")


@base.updateMethod
@defer.inlineCallbacks
def clean_up(
    self: masters.Master, masterid: int, name: str
) -> Generator[defer.Deferred[Any], Any, None]:
    """Releases the requests of a dead master, and starts their builds."""
    requests = self.master.db.buildrequests
    claimed = yield requests.getBuildRequests(complete=False, claimed=masterid)
    yield FIX.original(self, masterid, name)
    numbers = [request.buildrequestid for request in claimed]
    yield requests._unclaim_buildrequests_for_master(numbers, masterid)  # noqa: SLF001
    if numbers:
        self.master.botmaster.maybeStartBuildsForAllBuilders()
