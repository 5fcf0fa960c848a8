"""The digest of a day as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from netbisect.reports.model.types import Address, AlertSummary, Time


@dataclass(frozen=True, slots=True)
class MissingScenarios:
    """Scenarios of a night that have no sample, for one reason."""

    place: str
    """Testbed and branch, for people."""
    scenarios: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDocument:
    """A day of the watch."""

    format: Literal["netbisect-digest/1"] = "netbisect-digest/1"
    since: Time
    until: Time
    planned: Annotated[int, "Series that the night was to measure."]
    measured: int
    missing: tuple[MissingScenarios, ...] = ()
    unchanged: Annotated[
        tuple[str, ...], "Testbeds and branches where nothing new had landed."
    ] = ()
    drops: Annotated[tuple[AlertSummary, ...], "Announced in this time."] = ()
    gains: Annotated[tuple[AlertSummary, ...], "Announced in this time."] = ()
    other: Annotated[tuple[AlertSummary, ...], "Changes of how often boots are slow."] = ()
    over: Annotated[tuple[AlertSummary, ...], "That ended in this time."] = ()
    standing: Annotated[
        tuple[AlertSummary, ...], "The rest of those that stand and are not settled."
    ] = ()
    searches: Annotated[tuple[str, ...], "Under way, a sentence each."] = ()
    drifts: Annotated[tuple[str, ...], "Series that slide, a sentence each."] = ()
    warnings: Annotated[tuple[str, ...], "Data warnings, a sentence each."] = ()
    page: Address = ""
