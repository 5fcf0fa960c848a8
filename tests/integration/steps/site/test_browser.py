"""The site in a browser: rendering, printing, accessibility, and no requests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accessibility import CHROMIUM, MISSING, browse, findings

from netbisect.reports.site import revisions
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.store.ledger import open_ledger

PAGES = (
    "index.html",
    "alert-3.html",
    "bisection-2.html",
    "series-testbed-00.inet4-path-00.main.html",
    "revisions-testbed-00.main.html",
)
DARK = "--blink-settings=preferredColorScheme=0"
LIVE = Path(__file__).parents[4] / "steps" / "web" / "static" / "live.js"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.xdist_group("site"),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_renders_and_prints_without_requests(
    whole_site: Any, tmp_path: Path, page: str
) -> None:
    """The colours are dark. The browser would report forbidden requests on its console."""
    place, pdf = tmp_path / "page.png", tmp_path / "page.pdf"
    options = (DARK, "--window-size=1300,1800", f"--screenshot={place}", "--dump-dom")
    printing = ("--no-pdf-header-footer", f"--print-to-pdf={pdf}", "--enable-logging=stderr")
    done = browse(whole_site.folder / page, tmp_path.parent / "browser", *options, *printing)
    picture, data = place.read_bytes(), pdf.read_bytes()

    assert "CONSOLE" not in done.stderr
    assert "</html>" in done.stdout
    assert picture.startswith(b"\x89PNG")
    assert [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)] == [1300, 1800]
    assert len(picture) > 20_000, "an empty page"
    assert data.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type /Page\b", data)) <= 6


def test_many_scenarios_fit_on_paper(whole_site: Any, tmp_path: Path) -> None:
    """25 scenarios fit on Letter paper in landscape, which is narrower than A4."""
    ledger = open_ledger(whole_site.database)
    history = ledger.series.histories("testbed-00", "inet4-path-00")[0]
    series = DocumentQueries(ledger).series_of(history, ())
    text = revisions.page([replace(series, title=f"inet4-path-{i:02}") for i in range(25)]).html()
    measure = "<script>document.title = document.documentElement.scrollWidth</script></body>"
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", text)
    text = text.replace("@media print", "@media all").replace("</body>", measure)
    path = tmp_path / "paper.html"
    path.write_text(text)
    printed = browse(
        path, tmp_path.parent / "browser", "--window-size=950,700", "--dump-dom"
    ).stdout

    assert "<title>950</title>" in printed


def test_a_renewed_page_keeps_the_focus_and_scrolled_tables(tmp_path: Path) -> None:
    main = '<main><pre tabindex=0 aria-label=jobs style="overflow: auto">{:_>9000}</pre></main>'
    path = tmp_path / "page.html"
    path.write_text(
        f"""{main.format("old")}<script data-seconds=1>
        const jobs = () => document.querySelector("pre"), focused = () => document.activeElement;
        const found = () => [jobs().textContent.slice(-3), jobs().scrollLeft, focused().tagName];
        fetch = async () => ({{ ok: true, text: async () => `{main.format("new")}` }});
        setTimeout(() => {{ document.title = found(); }}, 5000);
        jobs().scrollLeft = 77;
        jobs().focus();
        {LIVE.read_text()}</script>"""
    )
    assert "<title>new,77,PRE</title>" in browse(path, tmp_path / "browser", "--dump-dom").stdout


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not installed")
def test_the_accessibility_checker_reports_no_violation(whole_site: Any, tmp_path: Path) -> None:
    """One page of each kind; the colours are dark, those of the running service light."""
    pages = sorted(whole_site.folder.glob("*.html"), reverse=True)
    kinds = {re.split(r"[-.]", page.name)[0]: page.read_text() for page in pages}

    assert {"alert", "bisection", "comparison", "health", "revision", "series"} <= kinds.keys()
    assert findings(kinds, "dark", tmp_path) == {}
