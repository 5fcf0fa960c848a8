"""A ledger with nights, alerts and searches, and the site of it, for tests of the site.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.site.ledger import Plan, fill
from netbisect.steps import cli

PLAN = Plan(testbeds=2, scenarios=3, nights=30, boots=3, drops=3)
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Reads a page as a browser would; complains about elements that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"svg", "style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    def values(self, name: str) -> list[str]:
        return [a[name] or "" for _, a in self.found if name in a]


@dataclass(frozen=True)
class Site:
    """A folder of pages, and the database it is of."""

    folder: Path
    database: str
    output: str = ""

    def page(self, name: str) -> Page:
        return Page((self.folder / name).read_text())

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob("*.html")}

    def run(self, *arguments: str) -> Result:
        command = ["site", str(self.folder), "--database", self.database, *arguments]
        return CliRunner().invoke(cli.main, command)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with nights, alerts and searches, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "ledger.sqlite"
    fill(f"sqlite:///{path}", PLAN).engine.dispose()
    return path


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Page]:
    return Page


@pytest.fixture(scope="session")
def site_type() -> type[Site]:
    return Site


@pytest.fixture(scope="session")
def site_plan() -> Plan:
    return PLAN


@pytest.fixture(scope="session")
def whole_site(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site of that database; nobody may change it."""
    return written(Site(tmp_path_factory.mktemp("site") / "out", f"sqlite:///{filled}"))


@pytest.fixture
def own_site(whole_site: Site, filled: Path, tmp_path: Path) -> Site:
    """A copy of both for one test."""
    shutil.copytree(whole_site.folder, tmp_path / "out")
    return Site(tmp_path / "out", f"sqlite:///{shutil.copy(filled, tmp_path)}")


@pytest.fixture(scope="session")
def site_of() -> Callable[[Path, str], Site]:
    """Makes the site of a database."""
    return lambda folder, database: written(Site(folder, database))


def written(site: Site) -> Site:
    result = site.run()
    assert result.exit_code == 0, result.output
    return Site(site.folder, site.database, result.output)
