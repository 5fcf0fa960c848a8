"""Atomic replacement of the folder of a site."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import forked, kill_itself, netbisect
from site_fixtures import Site

from benchmarks.site.ledger import Plan, fill
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.site import run
from netbisect.steps.site.build import PagesOfTestbed
from netbisect.steps.site.folder import SiteError

pytestmark = pytest.mark.xdist_group("site")  # one process creates the site


def temporary_files(folder: Path) -> set[str]:
    """Names of files and folders of netbisect beside a site."""
    return {path.name for path in folder.parent.glob(f".{folder.name}.*")}


LOCK = ".out.netbisect-lock"


def test_a_run_replaces_the_site_and_keeps_other_files(small_site: Site, tmp_path: Path) -> None:
    """OUT may be a symbolic link; permissions are kept and obsolete pages removed."""
    folder = small_site.folder
    before = small_site.files()
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
    assert small_site.files() == before
    assert temporary_files(folder) == {LOCK}


RENAME = Path.rename


def rename(path: Path, target: Path) -> None:
    if target.name == "out":
        kill_itself()
    RENAME(path, target)


def killed_run(site: Site, patched: str, replacement: Callable[..., None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patched, replacement)
        site.run()


def test_a_killed_run_leaves_the_old_site(small_site: Site) -> None:
    """Between the two renames, a folder beside OUT has the old site; the next run restores it."""
    before = small_site.files()
    old = small_site.folder.with_name(".out.netbisect-old")
    alert = "netbisect.reports.site.changes.alert"
    for patched, by in ((alert, kill_itself), ("pathlib.Path.rename", rename)):
        assert forked(killed_run, small_site, patched, by) == -signal.SIGKILL
        assert old.exists() == (by is rename)
        assert Site(old if old.exists() else small_site.folder, "").files() == before
        assert small_site.run("--compare", "no", "such").exit_code == 1
        assert small_site.files() == before
        assert temporary_files(small_site.folder) == {LOCK}


def kill_child(_: PagesOfTestbed) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
def test_two_processes_write_the_same_pages_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes those of a testbed; a killed one is reported in one sentence."""
    database = f"sqlite:///{tmp_path}/ledger.sqlite"
    fill(database, Plan(testbeds=2, scenarios=1, nights=12, boots=3, drops=1)).engine.dispose()
    one, two = (Site(tmp_path / name, database) for name in ("one", "two"))
    for processes, site in enumerate((one, two), 1):
        site.folder.mkdir()
        run.write(database, LabContext(), site.folder, [], processes=processes)
    assert {"alert-1.html", "testbed-testbed-01.html"} <= two.files().keys()
    assert two.files() == one.files()
    monkeypatch.setattr(run, "_make", kill_child)
    with pytest.raises(SiteError, match="a process that made pages was killed"):
        run.write(database, LabContext(), tmp_path, [], processes=2)


def test_other_folders_are_refused(small_site: Site, tmp_path: Path) -> None:
    """For example, a locked site, and one whose manifest is damaged."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "notes.txt").write_text("text")

    def refused(folder: Path, message: str) -> None:
        before = sorted([*notes.iterdir(), *small_site.folder.iterdir()])
        result = Site(folder, small_site.database).run()
        assert result.exit_code == 1
        assert message in result.output
        assert sorted([*notes.iterdir(), *small_site.folder.iterdir()]) == before

    message = "has files and is not a site (notes.txt); expected a new or empty folder"
    refused(notes, message)
    refused(Path("/"), "Error: / is not a site; expected a new or empty folder")
    refused(notes / "notes.txt" / "out", "cannot be written: File exists")
    with small_site.folder.with_name(LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(small_site.folder, "is being written by another process")
    for text in ("", "[]", '{"files": 1, "pairs": []}'):
        (small_site.folder / "site.json").write_text(text)
        refused(small_site.folder, "site.json is damaged or of another version: remove ")


def test_invalid_arguments_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    both = "--folder and --database are mutually exclusive"
    for arguments, message in (
        (["--database", "sqlite:////nowhere/at/all"], "there is no database"),
        (["--database", "oracle://x"], "neither SQLite nor PostgreSQL"),
        (["--database", "sqlite:///x", "--folder", "."], both),
        ([], "netbisect.toml"),
        (["--compare", "x"], "requires 2 arguments"),
    ):
        result = netbisect("site", "out", *arguments)
        assert result.exit_code in {1, 2}
        assert message in result.output
        assert "Traceback" not in result.output
        assert not (tmp_path / "out").exists()
