"""Names of the files of the site."""

from __future__ import annotations

from netbisect.reports.site.files import pair_page, revision_page


def test_revisions_that_begin_alike_have_pages_of_their_own() -> None:
    names = [f"release-14.0.{i}" for i in range(20)]
    assert len({revision_page(one) for one in names}) == 20
    assert len({pair_page(names[0], one) for one in names}) == 20
    assert revision_page("0123456789abcdef" + 24 * "0") == "revision-0123456789ab.html"
