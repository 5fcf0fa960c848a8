"""The site: validity, accessibility, links and escaping of all pages."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ledger_facts import measured, sample
from site_fixtures import HOSTILE, SHOWN, SMALL_PLAN, Page, Site, check_escaped, written

from benchmarks.site import ledger as nights
from netbisect.bisect.model.alert_state import AlertState
from netbisect.bisect.model.entities import Boot, Commit, Conditions, SeriesName
from netbisect.bisect.model.jobs import CompareJob, NightlyJob
from netbisect.bisect.model.results import Confirmed, Effect, NightlyResult, Unfinished
from netbisect.reports.documents.json_schema import as_plain
from netbisect.reports.render.templating import environment
from netbisect.reports.site.files import slug
from netbisect.reports.site.plots import spark
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger, open_ledger

pytestmark = pytest.mark.xdist_group("site")  # one process creates the site


def pages(site: Site) -> list[str]:
    return sorted(path.name for path in site.folder.glob("*.html"))


def test_every_page_is_valid_and_accessible(whole_site: Site) -> None:
    """Pages have a language, a skip link, ordered headings, scopes and labels of pictures.

    All links are relative and lead to files; pages contain their style and pictures.
    """
    kinds = {re.split(r"[-.]", name)[0] for name in pages(whole_site)}
    assert kinds == {
        "index", "alert", "alerts", "bisection", "compare", "comparison", "health", "revision",
        "revisions", "searches", "series", "testbed", "testbeds",
    }  # fmt: skip
    assert max(len(content) for content in whole_site.files().values()) < 500_000
    files = {path.name for path in whole_site.folder.iterdir()}
    for name in pages(whole_site):
        page = whole_site.page(name)

        assert page.all("html") == [{"lang": "en"}], name
        assert len(page.all("h1")) == len(page.all("main")) == 1
        assert "#main" in page.values("href")
        assert "main" in page.values("id")
        ids = page.values("id")
        assert len(ids) == len(set(ids)), name
        assert all("scope" in header for header in page.all("th")), name
        levels = [int(tag[1]) for tag, _ in page.found if re.fullmatch(r"h\d", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels)), name
        for picture in page.all("svg"):
            named = (picture.get("aria-labelledby") or "").split()
            assert picture.get("aria-hidden") == "true" or (
                picture["role"] in {"img", "group"} and len(named) == 2 and set(named) <= set(ids)
            ), name
        assert not re.search(r"\b(broke|broken|blame)", page.text)
        check_links(page, name, files)


def check_links(page: Page, name: str, files: set[str]) -> None:
    for link in page.values("href"):
        target, _, anchor = link.partition("#")
        assert target in {"", *files}, (name, link)
        assert not anchor or anchor in page.values("id"), (name, link)
    assert page.values("src") == []
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert page.all("script") == page.all("form") == []


def test_every_page_of_data_has_a_document(whole_site: Site) -> None:
    """Alerts, jobs and series have a document; the site also has badges and a feed."""
    documented = {"alert", "comparison", "bisection", "series"}
    for name in pages(whole_site):
        kind = name.partition("-")[0]
        links = whole_site.page(name).all("link")
        alternates = [link for link in links if link.get("rel") == "alternate"]
        if kind in documented:
            document = json.loads((whole_site.folder / str(alternates[0]["href"])).read_text())
            assert document["format"] == f"netbisect-{kind}/1"
            assert kind == "series" or name == f"{kind}-{document['number']}.html"
        if kind in {"alert", "alerts.html", "index.html"}:
            assert alternates[-1]["href"] == "feed.atom"
    text = (whole_site.folder / "series-testbed-01.inet6-path-01.main.json").read_text()
    name = SeriesName("testbed-01", "inet6-path-01", "main")
    series = DocumentQueries(open_ledger(whole_site.database)).series(name)
    assert json.loads(text) == as_plain(series)
    assert text.count("\n") == 1
    assert series.alerts
    feed = (whole_site.folder / "feed.atom").read_text()
    assert '<link rel="alternate" type="text/html" href="alert-1.html"' in feed
    assert "2 drops" in (whole_site.folder / "badge-main.svg").read_text()
    assert {path.name for path in whole_site.folder.glob("badge-*")} == {
        "badge-main.svg",
        "badge-main.testbed-00.svg",
        "badge-main.testbed-01.svg",
    }


@pytest.mark.long
def test_later_runs_show_changes_and_keep_compared_revisions(small_site: Site) -> None:
    """An acknowledged alert, new conditions, and a pair that the database no longer has."""
    end = nights.FIRST + (SMALL_PLAN.nights + 1) * nights.DAY
    ledger = Ledger(open_database(small_site.database), clock=lambda: end)
    numbers = ledger.commits.numbers()["main"]
    before, after, *_, newest = sorted(numbers, key=lambda name: numbers[name])
    assert small_site.run("--compare", before[:12], f"n{numbers[after]}").exit_code == 0
    manifest = small_site.folder / "site.json"
    lost = f'"pairs": [["{"0" * 40}", "{after}"], '
    manifest.write_text(manifest.read_text().replace('"pairs": [', lost))
    ledger.alerts.change(1, who="olga", what="in review <b>", state=AlertState.ACKNOWLEDGED)
    for at, flows in ((1.8e9, "2000"), (1.9e9, "1")):
        conditions = Conditions.of("testbed-00", "inet6", {"flows": flows, "packet": "60 bytes"})
        boot = Boot(flows, "testbed-00", "key", newest, at, 1.0)
        run = sample(flows, "testbed-00", "inet6", 5e5, at, conditions=conditions.digest)
        ledger.facts.record_all([boot, conditions, run], "test")
    add_nights(ledger)
    assert small_site.run().exit_code == 0

    text = small_site.page("alert-1.html").text
    assert "Acknowledged; the new level is the baseline" in text
    assert re.search(r"UTC ?olga ?acknowledged ?in review <b>", text)
    text = small_site.page("series-testbed-00.inet6.main.html").text
    assert "flows: 2000 → 1" in text
    assert "learning" in text
    [name] = {path.name for path in small_site.folder.glob("compare-*.html")}
    assert "measured in 1 series;" in small_site.page(name).text
    assert name in small_site.page("compare.html").values("href")
    text = small_site.page("index.html").text
    for words in (
        "No open alerts, and 1 known or muted",
        "of 4 series measured",
        "testbed-01, main: inet4-path-00: no power on port 7",
        "new, main: inet4-path-00: no measurements",
        "late, main: inet4-path-00: still running",
    ):
        assert words in text


def add_nights(ledger: Ledger) -> None:
    """Adds a measured night, a failed one, one without measurements and a running one."""
    nights.night(ledger, SMALL_PLAN, SMALL_PLAN.nights, testbeds=1)
    last = nights.revision(nights.head(SMALL_PLAN.nights))
    names = ("inet4-path-00",)
    for testbed, result in (
        (nights.bed(1), Unfinished("no power on port 7")),
        ("new", NightlyResult(3)),
    ):
        record = ledger.jobs.add(NightlyJob("main", testbed, last, names, 3), key=testbed)
        with ledger.jobs.closing(record, result):
            pass
    ledger.jobs.add(NightlyJob("main", "late", "x", names, 3), key="late")


def test_a_bisection_shows_every_trial_and_a_series_its_smallest_drop(whole_site: Site) -> None:
    page = whole_site.page("bisection-2.html")
    assert page.text.count("most to learn for its price") == 6
    assert "24 commits, 4.1 % each" in page.text
    assert "Tested kernels by commit" in page.text
    titles = [title["id"] for title in page.all("title") if "id" in title]
    assert {"line-title", "search-title"} <= set(titles)
    page = whole_site.page("series-testbed-00.inet4-path-00.main.html")
    for words in ("Smallest drop detected in one night", "Against baseline", "Noise between boots"):
        assert words in page.text
    assert {"recent-0-title", "history-title"} <= set(page.values("id"))
    assert "alert-1.html" in page.values("href")
    assert re.search(r"-3\.\d % \(-[45]\.\d to -[23]\.\d\)", page.text)


def test_a_revision_has_the_intervals_of_its_series(whole_site: Site) -> None:
    """The intervals are those in the table of levels on the page of the series."""
    files = {path.name: path.read_text() for path in whole_site.folder.glob("*.html")}
    compared = 0
    for name, text in files.items():
        for svg in re.findall(r"<svg role=.*?</svg>", text, re.DOTALL):
            assert ('role="group"' in svg) is ("<a " in svg), name  # an image hides its links
        for file, cells in re.findall(r'<a href="(series-[^"]*)">[^<]*</a></th>(.*)</tr>', text):
            if name.startswith("revision-"):
                label = re.findall(r"<title>(.*?)( - netbisect)?</title>", text)[0][0]
                own = re.findall(r'<td class="n">([^<]*)</td>', cells)
                [row] = re.findall(
                    rf"<tr>.*{label}.*</tr>", files[file].partition('id="levels"')[2]
                )
                assert re.findall(r'<td class="n">([^<]*)</td>', row)[1:] == own
                compared += 1
    assert compared > 50


def test_external_text_is_escaped(url: str, tmp_path: Path) -> None:
    """The text has markup, control characters, lone surrogates, and a subject of a megabyte."""
    ledger = open_ledger(url)
    revisions = [f"{number:040x}" for number in range(1, 9)]
    subject = HOSTILE + "long " * 200_000
    commits = [
        Commit(revision, i, subject, HOSTILE, HOSTILE, HOSTILE, 1.7e9 + i * 86400)
        for i, revision in enumerate(revisions)
    ]
    ledger.commits.learn(commits, HOSTILE)
    for i, revision in enumerate(revisions):
        at = 1.7e9 + i * 86400
        conditions = Conditions.of(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
        boots = [Boot(f"{i}-{n}", HOSTILE, HOSTILE, revision, at, 1.0) for n in range(3)]
        samples = [
            sample(boot.id, HOSTILE, HOSTILE, 1e6 + n, at, conditions=conditions.digest)
            for n, boot in enumerate(boots)
        ]
        ledger.facts.record_all([*boots, *([] if i else [conditions]), *samples], HOSTILE)
    effect = Effect(HOSTILE, -0.1, -0.2, -0.05, 1e-6, 5, 5)
    job = CompareJob(
        HOSTILE, HOSTILE, revisions[3], revisions[4], (HOSTILE,), HOSTILE, -0.1, commits=30
    )
    with ledger.jobs.closing(ledger.jobs.add(job, key="x"), Confirmed((effect,))) as closing:
        alert = closing.open_alert((effect,), what=HOSTILE)
        closing.change_alert(alert.id, who=HOSTILE, what=HOSTILE)
    site = written(Site(tmp_path / "out", url))

    assert len(pages(site)) == 12
    for name in pages(site):
        check_escaped((site.folder / name).read_text())
    assert SHOWN in site.page("index.html").text


@pytest.mark.long
@example(["../../etc/passwd", "."])
@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_file_names_are_unique_and_contain_no_folder(names: list[str]) -> None:
    one, other = (slug(name) for name in names)

    assert re.fullmatch(r"[A-Za-z0-9_-]+", one)

    assert one != other
    assert one == slug(names[0])


def test_sparse_or_unusual_data_gives_a_page(url: str, tmp_path: Path) -> None:
    """Samples with a rate of 0 do not count."""
    ledger = open_ledger(url)
    cases = {"one": (1, [1e6]), "equal": (6, [1e6, 1e6, 1e6]), "apart": (6, [1e-3, 1e12])}
    for name, (images, rates) in cases.items():
        for i in range(images):
            revision = f"r{i}"
            ledger.commits.learn([Commit(revision, i, "s", "", "a", "e", 1.7e9)], "main")
            for n, rate in enumerate([*rates, 0.0]):
                boot = f"{name}-{i}-{n}", name, "k", revision
                ledger.facts.record_all(measured(*boot, 1.7e9 + i, {"fwd": rate}), "test")
    site = written(Site(tmp_path / "out", url))

    for name in cases:
        text = site.page(f"series-{name}.fwd.main.html").text
        assert "Latest level" in text
        assert "nan" not in text


def test_an_empty_database_gives_a_site(url: str, tmp_path: Path) -> None:
    site = written(Site(tmp_path / "out", url))

    text = site.page("index.html").text
    assert ("No night yet." in text, "As of" in text) == (True, False)
    for name in ("testbeds.html", "health.html"):
        assert "No measurements." in site.page(name).text


@given(st.lists(st.floats(-5, 25), min_size=1, max_size=60))
def test_sparklines_stay_in_their_frame(means: list[float]) -> None:
    numbers = [int(number) for number in re.findall(r"-?\d+", spark(means))]

    assert all(-1 <= number <= 72 for number in numbers)


def test_an_unknown_revision_is_refused(small_site: Site) -> None:
    before = small_site.files()
    for name, message in (("nothing", "no kernel of it was measured"), ("", "of them begin so")):
        result = small_site.run("--compare", name, name)
        assert result.exit_code == 1
        assert message in result.output
    assert small_site.files() == before


def schemes() -> dict[str, dict[str, str]]:
    """The colours of the style sheet for light screens, dark screens and paper."""
    css = environment.get_template("page.css").render()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    found = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), found, strict=True))


def luminance(colour: str) -> float:
    """Relative luminance of a colour, as defined by WCAG 2.1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_has_enough_contrast() -> None:
    """The ratio of level AA of WCAG is 4.5, on the background and on panels."""
    for scheme, colours in schemes().items():
        for ground in ("paper", "panel"):
            for name in ("ink", "soft", "link", "good", "bad", "culprit", "heat", "boot"):
                light, dark = sorted((luminance(colours[name]), luminance(colours[ground])))[::-1]
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, name, ground)


def test_all_colours_are_those_of_the_schemes() -> None:
    """Other colours might be unreadable on a dark screen."""
    css = environment.get_template("site/site.css").render()

    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|: (white|black)\b", css)
