"""The digest of a day as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from netbisect.reports.model.types import Address, AlertSummary, Time


@dataclass(frozen=True, slots=True)
class MissingScenarios:
    """Scenarios of a night without a sample, by reason."""

    place: str
    """Testbed and branch, for display."""
    scenarios: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDocument:
    """The nights and alerts of a day."""

    format: Literal["netbisect-digest/1"] = "netbisect-digest/1"
    since: Time
    until: Time
    planned: Annotated[int, "Number of planned series."]
    measured: int
    missing: tuple[MissingScenarios, ...] = ()
    unchanged: Annotated[tuple[str, ...], "Testbeds and branches without new commits."] = ()
    drops: Annotated[tuple[AlertSummary, ...], "New drops."] = ()
    gains: Annotated[tuple[AlertSummary, ...], "New improvements."] = ()
    other: Annotated[tuple[AlertSummary, ...], "Changes in the share of slow boots."] = ()
    over: Annotated[tuple[AlertSummary, ...], "Ended alerts."] = ()
    standing: Annotated[tuple[AlertSummary, ...], "Other open drops."] = ()
    searches: Annotated[tuple[str, ...], "Sentences about running searches."] = ()
    drifts: Annotated[tuple[str, ...], "Sentences about series that drift."] = ()
    warnings: Annotated[tuple[str, ...], "Sentences about data."] = ()
    page: Address = ""
