"""The site in a real browser: as it looks, as it prints, and that it asks for nothing.

The pictures are kept in the folder that NETBISECT_SCREENSHOTS names, or in pytest's own.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from programs import captured

from netbisect.reports.site import revisions
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.service.database_thread import open_ledger

CHROMIUM = shutil.which("chromium") or shutil.which("chrome") or shutil.which("chromium-browser")
PAGES = (
    "index.html",
    "alert-3.html",
    "comparison-1.html",
    "bisection-2.html",
    "series-testbed-00.inet4-path-00.main.html",
    "testbed-testbed-01.html",
    "revisions-testbed-00.main.html",
    "health.html",
)
SCHEME = {
    name: [f"--blink-settings=preferredColorScheme={number}"]
    for name, number in (("dark", 0), ("light", 1))
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.xdist_group("site"),
]


@dataclass(frozen=True)
class Rendering:
    """A page as rendered by a browser."""

    dom: str
    console: list[str]
    picture: Path
    paper: Path


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept for people to look at."""
    named = os.environ.get("NETBISECT_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def browse(site: Any, page: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=2000",
        f"--user-data-dir={tmp_path / 'profile'}",
        *options,
        f"file://{site.folder / page}",
    ]
    return captured(command, check=True)


def pixels(path: Path) -> tuple[int, int, set[bytes]]:
    """Width, height, and the colours of every fourth line of a picture."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    depth = {2: 3, 6: 4}[data[25]]
    at, packed = 8, b""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += 12 + size
    raw = zlib.decompress(packed)
    line = width * depth + 1
    assert len(raw) == line * height
    return width, height, {raw[start : start + line] for start in range(0, len(raw), 4 * line)}


@pytest.fixture(scope="module")
def render(
    whole_site: Any, artefacts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Rendering]:
    """A page in the dark: each is loaded once for its picture, its paper and its console."""
    profile = tmp_path_factory.mktemp("browser")

    @functools.cache
    def look(page: str) -> Rendering:
        path = artefacts / page.removesuffix(".html")
        picture, paper = path.with_suffix(".png"), path.with_suffix(".pdf")
        options = ("--window-size=1300,1800", f"--screenshot={picture}", "--dump-dom")
        paging = ("--no-pdf-header-footer", f"--print-to-pdf={paper}", "--enable-logging=stderr")
        done = browse(whole_site, page, profile, *SCHEME["dark"], *options, *paging)
        return Rendering(done.stdout, console(done), picture, paper)

    return look


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_renders_and_prints_without_requests(
    render: Callable[[str], Rendering], page: str
) -> None:
    """What it may load is nothing; a request for more would be a word on the console."""
    look = render(page)
    width, height, lines = pixels(look.picture)
    data = look.paper.read_bytes()

    assert look.console == []
    assert "</html>" in look.dom
    assert (width, height) == (1300, 1800)
    assert len(lines) > 20
    assert look.picture.stat().st_size > 20_000
    assert data.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type /Page\b", data)) <= 6


@pytest.mark.long
def test_light_and_dark_differ(
    whole_site: Any, render: Callable[[str], Rendering], tmp_path: Path
) -> None:
    picture = tmp_path / "light.png"
    options = ("--window-size=1300,1800", f"--screenshot={picture}")
    browse(whole_site, "index.html", tmp_path, *SCHEME["light"], *options)

    light, dark = pixels(picture), pixels(render("index.html").picture)
    assert light[:2] == dark[:2]
    assert light[2] != dark[2]


def test_requests_of_a_page_are_detected(own_site: Any, tmp_path: Path) -> None:
    """The test of the console can fail."""
    page = own_site.folder / "alerts.html"
    more = (
        "<img src='https://example.org/x.png'><script>document.title = 1</script>"
        "<link rel='stylesheet' href='other.css'>"
    )
    page.write_text(page.read_text().replace("</main>", f"{more}</main>"))

    done = browse(own_site, "alerts.html", tmp_path, "--dump-dom", "--enable-logging=stderr")
    refused = [line for line in console(done) if "Content Security Policy" in line]
    for what in ("x.png", "inline script", "other.css"):
        assert any(what in line for line in refused), what


def test_many_scenarios_fit_on_paper(whole_site: Any, tmp_path: Path) -> None:
    """25 of them across a sheet in Letter format, which is the narrower of the usual two."""
    ledger = open_ledger(whole_site.database)
    trail = ledger.series_histories.of("testbed-00", "inet4-path-00")[0]
    one = DocumentQueries(ledger).series_of(trail, ())
    text = revisions.page([replace(one, title=f"inet4-path-{i:02}") for i in range(25)]).html()
    measure = "<script>document.title = document.documentElement.scrollWidth</script></body>"
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", text)
    text = text.replace("@media print", "@media all").replace("</body>", measure)
    (tmp_path / "paper.html").write_text(text)
    site = replace(whole_site, folder=tmp_path)
    printed = browse(site, "paper.html", tmp_path, "--window-size=950,700", "--dump-dom").stdout

    assert re.search(r"<title>950</title>", printed)
