"""View models of the site."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.reports.documents.digest_types import MissingScenarios
from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary, QuarantineDocument
from netbisect.reports.render import words

SAFE = re.compile(r"[^A-Za-z0-9_]+")
_SLUG_MAX = 40
JOB_KINDS = ("comparison", "bisection")
"""Kinds of jobs that have a page."""
LISTED = 60
"""Latest levels in the table of a series, and in tables of many series."""
RECENT = 366
"""Most levels in a picture that shows every boot."""
TIMES = 1e9
"""Seconds since the epoch from which on they are times: imported levels have numbers there."""


def slug(name: str) -> str:
    """A part of the name of a file, the same for the same name and another for any other."""
    plain = SAFE.sub("-", name).strip("-")[:_SLUG_MAX]
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{plain}-{digest}".lstrip("-")


def when(at: float) -> str:
    """The day, or "no date" for imported data without times."""
    return words.day(at) if at >= TIMES else "no date"


def series_page(testbed: str, scenario: str, branch: str) -> str:
    """The file of a series."""
    # No slug has a full stop, so that no two series meet.
    return f"series-{slug(testbed)}.{slug(scenario)}.{slug(branch)}.html"


def testbed_page(testbed: str) -> str:
    """The file of a testbed."""
    return f"testbed-{slug(testbed)}.html"


def revisions_page(testbed: str, branch: str) -> str:
    """The file that has the revisions of a testbed side by side."""
    return f"revisions-{slug(testbed)}.{slug(branch)}.html"


def pair_page(before: str, after: str) -> str:
    """The file that compares two revisions."""
    return f"compare-{slug(before)[:HASH_LENGTH]}.{slug(after)[:HASH_LENGTH]}.html"


def alert_page(number: int | str) -> str:
    """The file of an alert."""
    return f"alert-{number}.html"


def question_page(kind: str, number: int) -> str:
    """The file of a comparison or a bisection, by its number."""
    return f"{kind}-{number}.html"


def document_file(page: str) -> str:
    """The JSON file of a page."""
    return f"{page.removesuffix('.html')}.json"


def revision_page(revision: str) -> str:
    """The file of a revision."""
    return f"revision-{slug(revision)[:HASH_LENGTH]}.html"


def badge_file(branch: str, testbed: str = "") -> str:
    """The file of a badge; "" for all testbeds."""
    return f"badge-{slug(branch)}{f'.{slug(testbed)}' if testbed else ''}.svg"


def series_file(one: SeriesDocument) -> str:
    """The file of a series."""
    return series_page(one.testbed, one.scenario, one.branch)


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

    @property
    def page(self) -> str:
        """Its file; "" for jobs without a page."""
        return question_page(self.kind, self.number) if self.kind in JOB_KINDS else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Data of the pages about many series."""

    at: float
    """Now, or the time of the latest data in a static site; seconds since the epoch."""
    night: NightProgress
    alerts: Sequence[AlertSummary]
    """All that were announced, the newest first."""
    running: Sequence[RunningJob]
    series: Sequence[SeriesDocument]
    """Their latest levels."""
    held: Sequence[QuarantineDocument] = ()
    pairs: Sequence[tuple[str, str, str]] = ()
    """Requested comparisons: file and labels of the two revisions."""
    stalls: Sequence[str] = ()
    """Sentences about recent stalls of the master."""
    unread: int = 0
    """Testbeds and scenarios that are not in `series` yet."""
    mails_given_up: int = 0
    """Mails that are not tried any more, after errors."""
