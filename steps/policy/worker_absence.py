"""Absences of workers that were mailed to their owners."""

from __future__ import annotations

from netbisect.store.ledger import Ledger

AWAY, BACK = "away", "back"
"""Ends of the keys of the mails."""


def thread_of(worker: str, number: int) -> str:
    """Key of the mails of an absence, and the beginning of the key of each."""
    return f"worker:{worker}:{number}:"


def absence_of(ledger: Ledger, worker: str) -> int | None:
    """Number of the mailed absence that has not ended, or None."""
    last = ledger.mails.last(f"worker:{worker}:")
    if last is None or not last.key.endswith(f":{AWAY}"):
        return None
    return int(last.key.split(":")[-2])
