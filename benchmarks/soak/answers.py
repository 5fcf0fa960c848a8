"""What was asked in all those nights, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from netbisect.bisect.model import Night, NightDone
from netbisect.store.database import AbsentError
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked


def questions(ledger: Ledger) -> list[Asked]:
    """All that was asked."""
    found: list[Asked] = []
    try:
        while True:
            found.append(ledger.question(len(found) + 1))
    except AbsentError:
        return found


def nights(asked: Sequence[Asked]) -> tuple[int, dict[str, int]]:
    """Nights of a testbed that have their answer, and those without by the beginning of why."""
    found = [one.finding for one in asked if isinstance(one.question, Night)]
    without = [one for one in found if not isinstance(one, NightDone)]
    why = Counter(getattr(one, "why", "it is open")[:60] for one in without)
    return len(found) - len(without), dict(why)
