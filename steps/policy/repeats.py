"""Repeated nightly jobs: measure a kernel again, to test for false alarms."""

from __future__ import annotations

import time

from netbisect.bisect.model.jobs import NightlyJob
from netbisect.steps.service.settings import NightSettings
from netbisect.store.db.records import JobRecord
from netbisect.store.ledger import Ledger
from netbisect.workers.config.testbed import Testbed

PRIORITY_REPEAT = 50
"""Below nightly jobs and their follow-ups."""
_DAY = 86400.0
_EARLY = 0.5 * _DAY
"""Tolerance: nightly jobs do not begin at the same second."""


def is_repeat(record: JobRecord) -> bool:
    """Whether this is a repetition of an earlier nightly job."""
    return isinstance(record.job, NightlyJob) and record.parent is not None


def repeat_night(ledger: Ledger, settings: NightSettings, testbed: Testbed, branch: str) -> str:
    """Repeats the last nightly job, if a repetition is due; returns its revision, or "".

    The last one and not tonight's, so that changes of the lab from night to night are included; and
    its kernel is already built.
    """
    if not settings.against_itself:
        return ""
    last, now = ledger.nights.last_repeat(testbed.name, branch), ledger.clock()
    if last is None or now - last < settings.against_itself * _DAY - _EARLY:
        return ""
    first = ledger.nights.last(testbed.name, branch)
    if first is None or not isinstance(first.job, NightlyJob):
        return ""
    revision, day = first.job.revision, time.strftime("%Y-%m-%d", time.gmtime(now))
    ledger.jobs.add(
        NightlyJob(branch, testbed.name, revision, testbed.scenarios, settings.boots),
        key=f"night:{branch}:{testbed.name}:{revision}:again:{day}",
        parent=first.id,
        priority=PRIORITY_REPEAT,
    )
    return revision
