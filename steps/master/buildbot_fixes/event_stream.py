"""A parameter in the address of an event stream is ignored.

In Buildbot it raises an exception, whose traceback is logged; not fixed upstream.
"""

from __future__ import annotations

from buildbot.www import sse
from twisted.web.server import Request

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(sse.EventResource, "render", "39812f41da1d")


def render(self: sse.EventResource, request: Request) -> int | None:
    """Streams events; Buildbot has no use for parameters."""
    request.args = {}
    answer: int | None = FIX.original(self, request)
    return answer
