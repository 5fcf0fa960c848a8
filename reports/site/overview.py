"""Content of the pages about many series: last night, running jobs, alerts and series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from netbisect.bisect.model.entities import SeriesName
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import AlertSummary, MissingScenarios, QuarantineDocument


@dataclass(frozen=True, slots=True)
class NightProgress:
    """Progress of the last night."""

    planned: int
    """Series."""
    measured: int
    missing: tuple[MissingScenarios, ...]
    begun: float | None
    """None when there was none."""
    finished: float | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """An open job and its progress."""

    kind: str
    """`night`, `comparison`, `bisection`, `measurement` or `profiling`."""
    number: int
    testbed: str
    branch: str
    since: float
    done: float | None
    """Share of the whole, 0 to 1; None if unknown."""
    left: float | None
    """Remaining lab time in seconds; None if unknown."""
    progress: str
    """Progress in words."""
    now: str
    request: int | None
    """Request that it belongs to, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Data of the pages about many series."""

    at: float
    """Now, or the time of the latest data in a static site; seconds since the epoch."""
    night: NightProgress
    alerts: Sequence[AlertSummary]
    """All announced alerts, newest first."""
    running: Sequence[RunningJob]
    series: Sequence[SeriesDocument]
    """Series with their latest levels."""
    outside: Collection[SeriesName] = ()
    """Those that the last night did not measure."""
    held: Sequence[QuarantineDocument] = ()
    pairs: Sequence[tuple[str, str, str]] = ()
    """Requested comparisons: file and labels of the two revisions."""
    stalls: Sequence[str] = ()
    """Sentences about recent stalls of the master."""
    unread: int = 0
    """Testbeds and scenarios that are not in `series` yet."""
    mails_given_up: int = 0
    """Mails that are not tried any more, after errors."""
