"""The page of two revisions, and names of pages of revisions."""

from __future__ import annotations

import math

import report_documents
from site_fixtures import Page

from netbisect.bisect.detection.level_difference import LevelEstimate
from netbisect.bisect.model.entities import Level
from netbisect.reports.model.types import RevisionDocument
from netbisect.reports.site import pair
from netbisect.reports.site.files import pair_page, revision_page
from netbisect.reports.site.pair import SeriesPair

CPU = "fwd4~cpu.percent.lower"


def page(*scenarios: str) -> str:
    """Of two revisions; the second has half the number in each series."""
    sides = [RevisionDocument(name, name, "", "", None, "") for name in ("old", "new")]
    levels = [Level(name, name, 0.0, (0.0,)) for name in ("old", "new")]
    found = []
    for one in scenarios:
        series = report_documents.series_document(levels, scenario=one)
        half = math.log(2) if one == CPU else -math.log(2)
        found.append(SeriesPair(series, *levels, (LevelEstimate(0, 0), LevelEstimate(half, 0))))
    return Page(pair.pair(*sides, found).html()).text


def test_mean_change_is_of_one_metric() -> None:
    assert "Geometric mean of all changes: -50.0 %." in page(CPU)
    assert "Geometric mean" not in page(CPU, "fwd4")


def test_revisions_that_begin_alike_have_pages_of_their_own() -> None:
    names = [f"release-14.0.{i}" for i in range(20)]
    assert len({revision_page(one) for one in names}) == 20
    assert len({pair_page(names[0], one) for one in names}) == 20
    assert revision_page("0123456789abcdef" + 24 * "0") == "revision-0123456789ab.html"
