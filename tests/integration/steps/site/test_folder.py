"""Atomic replacement of the folder of a site."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import netbisect
from site_fixtures import SMALL_PLAN, Site

from benchmarks.site.ledger import DAY, FIRST, bed, head, night, revision
from netbisect.bisect.model.jobs import NightlyJob
from netbisect.bisect.model.results import NightlyResult, Unfinished
from netbisect.steps.site import run
from netbisect.steps.site.build import PagesOfTestbed
from netbisect.steps.site.folder import SiteError
from netbisect.steps.site.source import SiteSource
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger

pytestmark = pytest.mark.xdist_group("site")  # one process creates the site


def later(database: str) -> Ledger:
    """The ledger with a clock at the end of the next night."""
    return Ledger(open_database(database), clock=lambda: FIRST + (SMALL_PLAN.nights + 1) * DAY)


def all_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def temporary_files(folder: Path) -> set[str]:
    """Names of files and folders of netbisect beside a site."""
    return {path.name for path in folder.parent.glob(f".{folder.name}.*")}


LOCK = ".out.netbisect-lock"


def test_a_run_replaces_the_site_and_keeps_other_files(small_site: Site, tmp_path: Path) -> None:
    """OUT may be a symbolic link; permissions are kept and obsolete pages removed."""
    folder = small_site.folder
    before = all_files(folder)
    (folder / "alert-1.html").unlink()
    (folder / "alerts.html").write_text("stale")
    manifest = json.loads((folder / "site.json").read_text())
    manifest["files"].append("compare-a.b.html")
    (folder / "site.json").write_text(json.dumps(manifest))
    (folder / "compare-a.b.html").write_text("obsolete")
    (folder / "robots.txt").write_text("Disallow:")
    (folder / "more").mkdir()
    (folder / "more" / "logo.svg").write_text("<svg/>")
    (folder / "link").symlink_to("nowhere")
    folder.chmod(0o751)
    (tmp_path / "www").symlink_to(folder)
    result = Site(tmp_path / "www", small_site.database).run()

    assert "47 pages, the largest of" in result.output
    assert (tmp_path / "www").is_symlink()
    assert (folder / "robots.txt").read_text() == "Disallow:"
    assert (folder / "more" / "logo.svg").read_text() == "<svg/>"
    assert (folder / "link").readlink() == Path("nowhere")
    assert folder.stat().st_mode & 0o777 == 0o751
    (folder / "link").unlink()
    (folder / "robots.txt").unlink()
    shutil.rmtree(folder / "more")
    assert all_files(folder) == before
    assert temporary_files(folder) == {LOCK}


KILLED = """
import os, signal, sys
from pathlib import Path
from netbisect.reports.site import changes
from netbisect.cli.main import main

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def rename(path, target):
    if Path(target).name == sys.argv.pop():
        kill()
    os.rename(path, target)

{0} = {1}
main(sys.argv[1:5])
"""
"""A process that kills itself in a replaced function: a signal from outside arrives too late."""


@pytest.mark.parametrize(
    ("patched", "by", "at"),
    [("changes.alert", "kill", ()), ("Path.rename", "rename", ("out", ""))],
    ids=["during the rendering", "between the renames"],
)
def test_a_killed_run_leaves_the_old_site(
    small_site: Site, patched: str, by: str, at: tuple[str, ...]
) -> None:
    """Between the two renames, a folder beside OUT has the old site; the next run restores it."""
    before = all_files(small_site.folder)
    command = [sys.executable, "-c", KILLED.format(patched, by)]
    arguments = ["site", str(small_site.folder), "--database", small_site.database, *at]
    done = subprocess.run([*command, *arguments], check=False, capture_output=True, timeout=300)
    old = small_site.folder.with_name(".out.netbisect-old")

    assert done.returncode == -signal.SIGKILL, done.stderr
    assert old.exists() == (len(at) == 2)
    assert all_files(old if old.exists() else small_site.folder) == before
    assert small_site.run("--compare", "no", "such").exit_code == 1
    assert all_files(small_site.folder) == before
    assert temporary_files(small_site.folder) == {LOCK}


@pytest.mark.long
def test_two_processes_write_the_same_pages_as_one(whole_site: Site, tmp_path: Path) -> None:
    run.write(SiteSource(whole_site.database), tmp_path, [], processes=2)
    found = all_files(tmp_path)

    assert found == {
        name: text for name, text in all_files(whole_site.folder).items() if name != "site.json"
    }


def kill_child(_: PagesOfTestbed) -> None:
    """Kills the child process that calls it."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_a_killed_process_is_reported_in_one_sentence(
    whole_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_make", kill_child)

    with pytest.raises(SiteError, match="a process that made pages was killed"):
        run.write(SiteSource(whole_site.database), tmp_path, [], processes=2)


def test_other_folders_are_refused(whole_site: Site, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    result = Site(tmp_path, whole_site.database).run()

    assert result.exit_code == 1
    assert "has files and is no site (notes.txt); expected a new or empty folder" in (result.output)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    root = Site(Path("/"), whole_site.database).run()
    assert "Error: / is no site; expected a new or empty folder" in root.output


def test_a_locked_site_is_refused(small_site: Site) -> None:
    with small_site.folder.with_name(LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = small_site.run()

    assert result.exit_code == 1
    assert "is being written by another process" in result.output


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1, "pairs": []}'])
def test_a_damaged_manifest_is_refused(whole_site: Site, tmp_path: Path, text: str) -> None:
    (tmp_path / "site.json").write_text(text)
    result = Site(tmp_path, whole_site.database).run()

    assert result.exit_code == 1
    assert "site.json is damaged or of another version: remove " in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["site.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--database", "sqlite:////nowhere/at/all"], "there is no database"),
        (["--database", "oracle://x"], "neither SQLite nor PostgreSQL"),
        (
            ["--database", "sqlite:///x", "--folder", "."],
            "--folder and --database exclude each other",
        ),
        ([], "netbisect.toml"),
        (["--compare", "x"], "requires 2 arguments"),
    ],
)
def test_invalid_arguments_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = netbisect("site", "out", *arguments)

    assert result.exit_code in {1, 2}
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_path_below_a_file_is_reported(whole_site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = Site(tmp_path / "file" / "out", whole_site.database).run()

    assert result.exit_code == 1
    assert "cannot be written: File exists" in result.output


def test_missing_series_have_reasons(small_site: Site) -> None:
    """Reasons are failed jobs, missing measurements and running jobs."""
    ledger = later(small_site.database)
    night(ledger, SMALL_PLAN, SMALL_PLAN.nights, testbeds=1)
    other = NightlyJob("main", bed(1), revision(head(SMALL_PLAN.nights)), ("inet4-path-00",), 3)
    with ledger.jobs.closing(ledger.jobs.add(other, key="n"), Unfinished("no power on port 7")):
        pass
    short = NightlyJob("main", "new", revision(head(SMALL_PLAN.nights)), ("inet4-path-00",), 3)
    with ledger.jobs.closing(ledger.jobs.add(short, key="m"), NightlyResult(3)):
        pass
    ledger.jobs.add(NightlyJob("main", "late", "x", ("inet4-path-00",), 3), key="o")
    small_site.run()

    text = small_site.page("index.html").text
    assert "of 4 series measured" in text
    assert "testbed-01, main: inet4-path-00: no power on port 7" in text
    assert "new, main: inet4-path-00: no measurements" in text
    assert "late, main: inet4-path-00: still running" in text
