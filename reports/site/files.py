"""Names of the files of the site."""

from __future__ import annotations

import hashlib
import re

from netbisect.reports.model.series import SeriesDocument
from netbisect.reports.model.types import short_hash

_SAFE = re.compile(r"[^A-Za-z0-9_]+")
_SLUG_MAX = 40
JOB_KINDS = ("comparison", "bisection")
"""Kinds of jobs that have a page."""
LISTED = 60
"""Latest levels in the table of a series, and in tables of many series."""
RECENT = 366
"""Most levels in a picture that shows every boot."""


def slug(name: str) -> str:
    """A part of the name of a file, the same for the same name and another for any other."""
    plain = _SAFE.sub("-", name).strip("-")[:_SLUG_MAX]
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{plain}-{digest}".lstrip("-")


def series_page(testbed: str, scenario: str, branch: str) -> str:
    """The file of a series."""
    # Slugs have no full stop, so the names of two series differ.
    return f"series-{slug(testbed)}.{slug(scenario)}.{slug(branch)}.html"


def testbed_page(testbed: str) -> str:
    """The file of a testbed."""
    return f"testbed-{slug(testbed)}.html"


def revisions_page(testbed: str, branch: str) -> str:
    """The file that has the revisions of a testbed side by side."""
    return f"revisions-{slug(testbed)}.{slug(branch)}.html"


def pair_page(before: str, after: str) -> str:
    """The file that compares two revisions."""
    return f"compare-{slug(short_hash(before))}.{slug(short_hash(after))}.html"


def alert_page(number: int | str) -> str:
    """The file of an alert."""
    return f"alert-{number}.html"


def job_page(kind: str, number: int) -> str:
    """The file of a comparison or a bisection, by its number; "" for other kinds of jobs."""
    return f"{kind}-{number}.html" if kind in JOB_KINDS else ""


def document_file(page: str) -> str:
    """The JSON file of a page."""
    return f"{page.removesuffix('.html')}.json"


def revision_page(revision: str) -> str:
    """The file of a revision."""
    return f"revision-{slug(short_hash(revision))}.html"


def badge_file(branch: str, testbed: str = "") -> str:
    """The file of a badge; "" for all testbeds."""
    return f"badge-{slug(branch)}{f'.{slug(testbed)}' if testbed else ''}.svg"


def series_file(one: SeriesDocument) -> str:
    """The file of a series."""
    return series_page(one.testbed, one.scenario, one.branch)
