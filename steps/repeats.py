"""Nights that measure a kernel again: what differs between them is the lab, and luck."""

from __future__ import annotations

import time

from netbisect.bisect.model import Night
from netbisect.steps.settings import NightSettings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.workers.lab import Testbed

PRIORITY_REPEAT = 50
"""After the nights, and after all that follows from them."""
_DAY = 86400.0
_EARLY = 0.5 * _DAY
"""No night begins to the second when the one before it did."""


def is_repeat(asked: Asked) -> bool:
    """Whether this is a night that measures again what an earlier one has measured."""
    return isinstance(asked.question, Night) and asked.parent is not None


def repeat_night(ledger: Ledger, settings: NightSettings, testbed: Testbed, branch: str) -> str:
    """Asks for the kernel of the last night once more, when it is time for that.

    It is that of the last night, not of this one, so that what changes in a lab from one night
    to the next has a say; and because it is built already, it costs boots only.

    Returns:
        The revision that is to be measured again, by a question that follows from the night that
        it repeats; "" as long as it is not time, or nothing has been measured.
    """
    if not settings.against_itself:
        return ""
    last, now = ledger.last_repeat(testbed.name), ledger.clock()
    if last is None or now - last < settings.against_itself * _DAY - _EARLY:
        return ""
    first = ledger.last_night(testbed.name, branch)
    if first is None or not isinstance(first.question, Night):
        return ""
    revision, day = first.question.revision, time.strftime("%Y-%m-%d", time.gmtime(now))
    ledger.ask(
        Night(branch, testbed.name, revision, testbed.scenarios, settings.boots),
        key=f"night:{branch}:{testbed.name}:{revision}:again:{day}",
        parent=first.id,
        priority=PRIORITY_REPEAT,
    )
    return revision
