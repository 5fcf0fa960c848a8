"""The history of an alert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from netbisect.bisect.model.alert_state import AlertState


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An action on an alert."""

    at: Annotated[float, "Seconds since the epoch, UTC."]
    who: str
    what: str
    state: Annotated[AlertState | None, "Of the alert since then."]
