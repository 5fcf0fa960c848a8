"""Permissions of a service's files."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import captured
from sqlalchemy import text

from netbisect.cli.init import write
from netbisect.steps.service import private_files
from netbisect.steps.service.control import check_folder
from netbisect.steps.service.settings import load, load_settings
from netbisect.store.db.database import open_database
from netbisect.store.db.schema import migrate


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A new service, and an open umask."""
    before = os.umask(0o022)
    write(tmp_path / "service", to="a@lab.invalid", repository=str(tmp_path / "none.git"))
    yield tmp_path / "service"
    os.umask(before)


def check(folder: Path) -> tuple[bool, str]:
    [found] = [one for one in check_folder(folder) if one.what == "modes of files"]
    return found.good, found.found


def test_new_service_is_private(folder: Path) -> None:
    """Each worker has its own password."""
    settings, lab = load(folder / "netbisect.toml")
    passwords = {path.name: path.read_text().strip() for path in (folder / "workers").iterdir()}
    assert set(passwords) == set(lab.hosts_by_worker)
    assert min(map(len, passwords.values())) > 30
    assert len(set(passwords.values())) == len(passwords) > 1
    assert {mode(folder / "workers" / name) for name in passwords} == {0o600}
    assert check(folder) == (True, f"{folder} is private")
    assert (mode(folder), mode(folder / "workers")) == (0o700, 0o700)
    engine = open_database(settings.database)
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE x (y)")
        databases = sorted(folder.glob("netbisect.sqlite*"))
        assert {mode(path) for path in databases} == {0o600}
        assert len(databases) == 3


def test_exposed_files_are_reported_and_restricted(folder: Path) -> None:
    state = folder.parent / "state"
    state.mkdir(0o755)
    text = (folder / "netbisect.toml").read_text()
    (folder / "netbisect.toml").write_text(f'state = "{state}"\n{text}')
    settings = load_settings(folder / "netbisect.toml")
    assert settings.state == state
    folder.chmod(0o755)
    with sqlite3.connect(folder / "state.sqlite") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE object_state (value)")
    open_database(settings.database).dispose()
    (state / "netbisect.sqlite").chmod(0o640)
    wanted = {
        folder: 0o700,
        state: 0o700,
        folder / "state.sqlite": 0o600,
        folder / "state.sqlite-wal": 0o600,
        folder / "state.sqlite-shm": 0o600,
        state / "netbisect.sqlite": 0o600,
    }

    good, message = check(folder)
    assert not good
    assert all(str(path) in message for path in wanted)
    private_files.restrict(folder, settings)
    assert {path: mode(path) for path in wanted} == wanted
    assert check(folder)[0]
    connection.close()


def test_reopening_a_database_keeps_locks(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_database(f"sqlite:///{path}").connect() as connection:
        connection.execute(text("CREATE TABLE t (x)"))
        connection.commit()
        connection.execute(text("SELECT * FROM t")).all()
        open_database(f"sqlite:///{path}")
        connect = f"sqlite3.connect({str(path)!r}, timeout=0)"
        code = f"import sqlite3; {connect}.execute('PRAGMA journal_mode = DELETE')"
        done = captured([sys.executable, "-c", code])

    assert "database is locked" in done.stderr
