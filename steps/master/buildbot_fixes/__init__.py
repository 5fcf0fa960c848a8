"""Fixes of Buildbot 4.3.0 without a hook for them, one file each.

A fix is skipped where Buildbot has another text of the function that it replaces.
"""

from __future__ import annotations

from twisted.python import log

from netbisect.steps.master.buildbot_fixes import (
    dead_master,
    event_stream,
    log_reader,
    lost_worker,
    rest_answer,
    session_cookie,
)

FIXES = (
    (dead_master.FIX, dead_master.clean_up),
    (event_stream.FIX, event_stream.render),
    (log_reader.FIX, log_reader.iterate_on_pool),
    (lost_worker.FIX, lost_worker.maybe_start_build),
    (rest_answer.FIX, staticmethod(rest_answer.write_json)),
    (session_cookie.FIX, session_cookie.user_info),
)


def apply() -> None:
    """Applies the fixes; logs those that are skipped."""
    for fix, replacement in FIXES:
        if not fix.apply(replacement):
            log.msg(f"Buildbot has another {fix.name}: its fix is skipped")
