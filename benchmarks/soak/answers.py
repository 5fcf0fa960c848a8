"""Jobs and results of all nights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult
from netbisect.store.db.database import NotFoundError
from netbisect.store.db.records import JobRecord
from netbisect.store.ledger import Ledger


def jobs(ledger: Ledger) -> list[JobRecord]:
    """All jobs."""
    found: list[JobRecord] = []
    try:
        while True:
            found.append(ledger.jobs.get(len(found) + 1))
    except NotFoundError:
        return found


def nights(record: Sequence[JobRecord]) -> tuple[int, dict[str, int]]:
    """Completed nights, and failed ones by reason."""
    found = [one.finding for one in record if isinstance(one.job, NightlyJob)]
    without = [one for one in found if not isinstance(one, NightlyResult)]
    why = Counter(getattr(one, "why", "it is open")[:60] for one in without)
    return len(found) - len(without), dict(why)
