"""The folder of a site: only what has changed is written, and never half of it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.site.ledger import DAY, FIRST, bed, head, night, revision
from netbisect.bisect.model import Night, NightDone, Unfinished
from netbisect.reports.site import pages
from netbisect.steps import cli, site_source
from netbisect.steps.memory import open_ledger
from netbisect.store.database import open_database
from netbisect.store.ledger import Ledger


def later(database: str, plan: Any) -> Ledger:
    """The ledger, whose clock stands at the end of the next night."""
    return Ledger(open_database(database), clock=lambda: FIRST + (plan.nights + 1) * DAY)


MakeSite = Callable[[Path, str], Any]


def ages(site: Any) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in site.folder.glob("*.html")}


def changed(site: Any, before: dict[str, int]) -> set[str]:
    """Files that were put there since: each is a new file."""
    return {name for name, inode in ages(site).items() if before.get(name) != inode}


@pytest.fixture(scope="module")
def after_a_night(
    filled: Path, site_plan: Any, tmp_path_factory: pytest.TempPathFactory, site_of: MakeSite
) -> dict[str, bytes]:
    """The files of a new site, made after one more night of one testbed."""
    folder = tmp_path_factory.mktemp("after")
    database = f"sqlite:///{shutil.copy(filled, folder)}"
    night(later(database, site_plan), site_plan, site_plan.nights, testbeds=1)
    files: dict[str, bytes] = site_of(folder / "out", database).files()
    return files


def test_nothing_is_written_when_nothing_has_changed(own_site: Any) -> None:
    before = ages(own_site)
    result = own_site.run()

    assert ", 0 written, 0 removed" in result.output
    assert changed(own_site, before) == set()


def test_after_a_night_only_its_pages_are_written(
    own_site: Any, site_plan: Any, after_a_night: dict[str, bytes]
) -> None:
    """And they are those that a new site would have."""
    night(later(own_site.database, site_plan), site_plan, site_plan.nights, testbeds=1)
    before = ages(own_site)
    assert own_site.run().exit_code == 0

    written = changed(own_site, before)
    assert {name for name in written if name.startswith("series-")} == {
        name for name in before if name.startswith("series-testbed-00.")
    }
    assert "index.html" in written
    assert not {name for name in written if name.startswith(("comparison", "bisection"))}
    text = own_site.page("index.html").text
    assert f"all series measured ({site_plan.scenarios} asked for)" in text
    assert own_site.files() == after_a_night


def test_all_is_made_anew_when_asked_for_or_when_the_program_has_changed(
    own_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal bytes are not written again all the same."""
    before = ages(own_site)
    assert own_site.run("--full").exit_code == 0
    assert changed(own_site, before) == set()

    told = pages.testbeds
    monkeypatch.setattr(pages, "testbeds", lambda view: told(view).replace("<h1>", "<h1> "))
    monkeypatch.setattr(site_source, "_versions", lambda: ["another"])
    assert own_site.run().exit_code == 0
    assert changed(own_site, before) == {"testbeds.html"}


def test_a_page_that_was_deleted_is_made_again(own_site: Any) -> None:
    (own_site.folder / "alert-1.html").unlink()
    (own_site.folder / "testbeds.html").unlink()
    assert ", 2 written, 0 removed" in own_site.run().output
    assert (own_site.folder / "alert-1.html").is_file()


def test_what_nothing_leads_to_any_more_is_removed(own_site: Any) -> None:
    """And nothing else: what somebody put there stays."""
    numbers = open_ledger(own_site.database).numbers()["main"]
    before, after = sorted(numbers, key=lambda name: numbers[name])[:2]
    own_site.run("--compare", before, after)
    name = f"compare-{before[:12]}.{after[:12]}.html"
    (own_site.folder / "robots.txt").write_text("")
    manifest = own_site.folder / "site.json"
    told = json.loads(manifest.read_text())
    assert told["pairs"] == [[before, after]]
    manifest.write_text(json.dumps({**told, "pairs": [], "mark": ""}))
    result = own_site.run()

    assert "1 removed" in result.output
    assert not (own_site.folder / name).exists()
    assert (own_site.folder / "robots.txt").is_file()


@pytest.mark.parametrize("text", ["", "{}", "[]", "\x00", '{"made_by": 1}'])
def test_a_manifest_that_cannot_be_read_makes_all_anew(own_site: Any, text: str) -> None:
    before = own_site.files()
    (own_site.folder / "site.json").write_text(text)

    assert own_site.run().exit_code == 0
    assert own_site.files() == before


# ---------------------------------------------------------------------------- interruptions


def dead_links(site: Any) -> set[str]:
    there = {path.name for path in site.folder.iterdir()}
    return {
        link
        for name in ages(site)
        for link in site.page(name).values("href")
        if not link.startswith("#") and link not in there
    }


def test_a_run_that_is_interrupted_while_it_draws_leaves_the_old_site(
    own_site: Any, site_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(later(own_site.database, site_plan), site_plan, site_plan.nights, testbeds=1)
    before = own_site.files()

    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pages, "index", interrupted)
        own_site.run()
    assert own_site.files() == before
    assert [path.name for path in own_site.folder.glob(".new-*")] == []

    assert own_site.run().exit_code == 0
    assert own_site.files() != before


@pytest.mark.parametrize("moved", [0, 3])
def test_a_run_that_is_killed_while_it_replaces_leaves_a_site_and_is_mended(
    own_site: Any,
    site_plan: Any,
    after_a_night: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    moved: int,
) -> None:
    """Also when what is there was left by a kill that could not clean up."""
    night(later(own_site.database, site_plan), site_plan, site_plan.nights, testbeds=1)
    real, count = Path.replace, [0]

    def failing(path: Path, target: Path) -> Path:
        count[0] += 1
        if count[0] > moved + 1:  # the first one is the manifest
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        own_site.run()
    (own_site.folder / ".new-left").mkdir()
    assert dead_links(own_site) == set()

    assert own_site.run().exit_code == 0
    assert not (own_site.folder / ".new-left").exists()
    assert own_site.files() == after_a_night


# --------------------------------------------------------------------------------- refusals


def test_a_folder_that_is_no_site_is_left_alone(whole_site: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    command = ["site", str(tmp_path), "--database", whole_site.database]
    result = CliRunner().invoke(cli.main, command)

    assert result.exit_code == 1
    assert "has files and is no site (letter.txt): a new or empty folder would be right" in (
        result.output
    )
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_one_process_at_a_time_writes_a_site(own_site: Any) -> None:
    with (own_site.folder / ".site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = own_site.run()

    assert result.exit_code == 1
    assert "is being written by another process" in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be written by root")
def test_a_folder_that_cannot_be_written_gets_one_sentence(whole_site: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    command = ["site", str(tmp_path / "out"), "--database", whole_site.database]
    result = CliRunner().invoke(cli.main, command)

    assert result.exit_code == 1
    assert "cannot be written: Permission denied" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--database", "sqlite:////nowhere/at/all"], "there is no database"),
        (["--database", "oracle://x"], "neither SQLite nor PostgreSQL"),
        (["--database", "sqlite:///x", "--folder", "."], "one of the two would be right"),
        ([], "netbisect.toml"),
        (["--compare", "x"], "requires 2 arguments"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["site", "out", *arguments])

    assert result.exit_code in {1, 2}
    assert said in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_new_folder_is_removed_when_the_first_run_fails(whole_site: Any, tmp_path: Path) -> None:
    command = ["site", str(tmp_path / "out"), "--database", whole_site.database]
    result = CliRunner().invoke(cli.main, [*command, "--compare", "no", "such"])

    assert result.exit_code == 1
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------ what is asked


def test_a_night_that_came_to_nothing_is_told_with_its_reason(
    own_site: Any, site_plan: Any
) -> None:
    """Beside those that were done and those that are not over."""
    ledger = later(own_site.database, site_plan)
    night(ledger, site_plan, site_plan.nights, testbeds=1)
    other = Night("main", bed(1), revision(head(site_plan.nights)), ("inet4-path-00",), 3)
    with ledger.closing(ledger.ask(other, key="n"), Unfinished("no power on port 7")):
        pass
    short = Night("main", "new", revision(head(site_plan.nights)), ("inet4-path-00",), 3)
    with ledger.closing(ledger.ask(short, key="m"), NightDone(3)):
        pass
    ledger.ask(Night("main", "late", "x", ("inet4-path-00",), 3), key="o")
    own_site.run()

    text = own_site.page("index.html").text
    assert "3 of 6 series measured" in text
    assert "main on testbed-01: 1 of 1 scenario: no power on port 7" in text
    assert "main on new: 1 of 1 scenario: no valid sample was measured" in text
    assert "main on late: 1 of 1 scenario: it is not over" in text
