"""`netbisect backup` and `netbisect restore`."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import resource
import shutil
import signal
import sqlite3
import stat
import sys
import tarfile
import threading
import zlib
from pathlib import Path

import pytest
from programs import forked, kill_itself
from programs import netbisect as run
from sqlalchemy import text

from netbisect.bisect.model.entities import Boot
from netbisect.steps.service import control
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.ledger import open_ledger


def boot(name: str) -> Boot:
    return Boot(name, "c2558", "key", "r1", 1.0, 2.0)


def boots(url: str) -> list[str]:
    engine = open_ledger(url).engine
    with engine.connect() as connection:
        found = list(connection.execute(text("SELECT id FROM boots ORDER BY at, id")).scalars())
    engine.dispose()
    return found


def record(url: str, name: str) -> None:
    ledger = open_ledger(url)
    ledger.facts.record(boot(name))
    ledger.engine.dispose()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a service and its backup, to be copied."""
    folder = tmp_path_factory.mktemp("first") / "service"
    assert run("init", folder).exit_code == 0
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "own.toml").write_text("# own\n")
    lab = folder / "lab.toml"
    (folder / "numbers").write_text("# of Subversion\n")
    text = lab.read_text().replace("[source]\n", '[source]\nrevisions = "numbers"\n')
    lab.write_text(f'scenario_directories = ["scenarios"]\n{text}')
    settings, _ = load(folder / control.SETTINGS)
    record(settings.database, "b1")
    for path in ("patches/ab.diff", "reports/alert-1.html", "visits/7/console", "kernels/k/log"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(path)
    buildbot_state = sqlite3.connect(folder / "state.sqlite")
    buildbot_state.execute("PRAGMA journal_mode = WAL")
    buildbot_state.execute("CREATE TABLE builds (id INTEGER)")
    buildbot_state.execute("INSERT INTO builds VALUES (42)")
    buildbot_state.commit()
    buildbot_state.close()
    done = run("backup", folder.parent / "backup.tar.gz", folder)
    assert done.exit_code == 0, done.output
    return folder.parent


@pytest.fixture
def service(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first / "service", tmp_path / "service"))


@pytest.fixture
def archive(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(first / "backup.tar.gz", tmp_path))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".sqlite" not in path.name
    }


def refused(archive: Path, folder: Path) -> str:
    """The error message of a refused restore, which changes nothing."""
    before = sorted(folder.parent.iterdir())
    done = run("restore", archive, folder)

    assert done.exit_code == 1, done.output
    assert "Traceback" not in done.output
    assert sorted(folder.parent.iterdir()) == before
    return done.output


def test_a_restored_service_is_complete_and_private(service: Path, tmp_path: Path) -> None:
    """Kernels, logs of trials and generated files are excluded; no secret is printed."""
    secrets = [path.read_text().strip() for path in (service / "workers").iterdir()]
    (service / "lab.toml").chmod(0o640)
    archive, new = tmp_path / "backup.tar.gz", tmp_path / "new"
    output = run("backup", archive, service).output
    before = archive.read_bytes()
    assert run("backup", archive, service).output == f"Error: {archive} exists already\n"
    assert archive.read_bytes() == before
    done = run("restore", archive, new)
    assert done.exit_code == 0, done.output
    output += done.output + refused(archive, service)
    assert secrets
    assert not [secret for secret in secrets if secret in output]

    expected = files(service)
    for name in ("buildbot.tac", "visits/7/console", "kernels/k/log"):
        del expected[name]
    assert files(new) == expected
    settings, _ = load(new / control.SETTINGS)
    assert boots(settings.database) == ["b1"]
    found = sqlite3.connect(new / "state.sqlite").execute("SELECT id FROM builds")
    assert found.fetchall() == [(42,)]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (archive, new, *new.rglob("*"))}
    assert (modes[archive], modes[new], modes[new / "lab.toml"]) == (0o600, 0o700, 0o640)
    databases = new.glob("*.sqlite")
    assert {modes[path] for path in (*databases, *(new / "workers").iterdir())} == {0o600}


def test_files_outside_of_the_service_are_reported_and_excluded(
    service: Path, tmp_path: Path
) -> None:
    """A restore writes no file outside of the folders of the service."""
    shutil.move(service / "lab.toml", tmp_path / "lab.toml")
    shutil.move(service / "scenarios", tmp_path / "scenarios")
    settings = service / control.SETTINGS
    settings.write_text(settings.read_text().replace('"lab.toml"', f'"{tmp_path}/lab.toml"'))
    done = run("backup", tmp_path / "backup.tar.gz", service)

    assert (
        f"not included, because it is outside of the folder: {tmp_path}/lab.toml\n" in done.output
    )
    (tmp_path / "lab.toml").unlink()  # a new host has no lab file
    assert run("restore", tmp_path / "backup.tar.gz", tmp_path / "new").exit_code == 0
    assert not (tmp_path / "new" / "lab.toml").exists()
    assert not (tmp_path / "lab.toml").exists()


def test_a_separate_state_folder_is_restored(service: Path, tmp_path: Path) -> None:
    """A restore into an existing state folder is refused."""
    state = tmp_path / "var"
    state.mkdir()
    for name in ("patches", "reports", "netbisect.sqlite"):
        shutil.move(service / name, state / name)
    settings = service / control.SETTINGS
    settings.write_text(settings.read_text().replace('# state = "."', f'state = "{state}"'))
    done = run("backup", tmp_path / "backup.tar.gz", service)
    assert done.exit_code == 0, done.output

    assert f"{state}/patches exists already" in refused(
        tmp_path / "backup.tar.gz", tmp_path / "new"
    )
    before = files(state)
    shutil.rmtree(state)
    assert run("restore", tmp_path / "backup.tar.gz", tmp_path / "new").exit_code == 0
    assert files(state) == before
    assert boots(f"sqlite:///{state}/netbisect.sqlite") == ["b1"]


def test_both_databases_are_copied_at_one_instant(service: Path, tmp_path: Path) -> None:
    """A thread writes to the ledger first: it has the same rows as Buildbot's, or one more."""
    settings, _ = load(service / control.SETTINGS)
    stop = threading.Event()
    written = threading.Event()

    def work() -> None:
        ledger = open_service_ledger(settings)
        buildbot_state = sqlite3.connect(service / "state.sqlite", timeout=60)
        number = 100
        while not stop.is_set():
            ledger.facts.record(boot(f"n{number:06}"))
            with buildbot_state:
                buildbot_state.execute("INSERT INTO builds VALUES (?)", [number])
            number += 1
            written.set()
        buildbot_state.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert written.wait(60)
        for number in range(3):
            done = run("backup", tmp_path / f"{number}.tar.gz", service)
            assert done.exit_code == 0, done.output
    finally:
        stop.set()
        worker.join()
    for number in range(3):
        new = tmp_path / f"new{number}"
        assert run("restore", tmp_path / f"{number}.tar.gz", new).exit_code == 0
        restored = [
            name for name in boots(load(new / control.SETTINGS)[0].database) if name != "b1"
        ]
        rows = sqlite3.connect(new / "state.sqlite").execute("SELECT id FROM builds").fetchall()
        written_twice = [f"n{row:06}" for (row,) in rows if row != 42]

        assert restored[: len(written_twice)] == written_twice
        assert len(restored) - len(written_twice) in (0, 1)


def killed_backup(service: Path, archive: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarfile.TarFile, "gettarinfo", kill_itself)
        run("backup", archive, service)


def test_a_killed_backup_leaves_no_archive(service: Path, tmp_path: Path) -> None:
    assert forked(killed_backup, service, tmp_path / "x") == -signal.SIGKILL
    assert not (tmp_path / "x").exists()


def test_a_backup_that_cannot_be_made_is_reported(service: Path, tmp_path: Path) -> None:
    """A backup of a damaged database would be useless."""
    archive = tmp_path / "backup.tar.gz"

    def failed(archive: Path = archive) -> str:
        done = run("backup", archive, service)
        assert done.exit_code == 1
        assert not archive.exists()
        return done.output

    absent = tmp_path / "none" / "x.tar.gz"
    assert f"{absent} cannot be written: No such file" in failed(absent)
    path = service / "state.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    output = failed()
    assert "damaged" in output or "malformed" in output
    (service / "netbisect.sqlite").unlink()
    assert "netbisect.sqlite does not exist" in failed()
    settings = service / control.SETTINGS
    text = settings.read_text()
    line = text[text.index("# database = ") :].partition("\n")[0]
    settings.write_text(text.replace(line, 'database = "postgresql+psycopg://u@localhost/ledger"'))
    assert "use pg_dump(1)" in failed()


def test_a_damaged_archive_and_another_file_are_refused(archive: Path, tmp_path: Path) -> None:
    """One of many bits is changed, unless the decompressed data stay the same."""
    data = archive.read_bytes()
    inside = gzip.decompress(data)
    for at in range(20, len(data), len(data) // 20):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with contextlib.suppress(OSError, EOFError, zlib.error):
            if gzip.decompress(changed) == inside:
                continue
        archive.write_bytes(changed)
        refused(archive, tmp_path / "new")
    archive.write_text("text")
    assert "or not a backup of netbisect" in refused(archive, tmp_path / "new")


Members = list[tuple[tarfile.TarInfo, bytes]]


def unpacked(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        return [(member, stream.read()) for member in tar if (stream := tar.extractfile(member))]


def pack(archive: Path, members: Members) -> None:
    """Replaces the members of an archive, but not their digests."""
    with tarfile.open(archive, "w:gz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


OUTSIDE = ["../evil", "/evil", "folder/../../evil", "folder", "other/file", "folder//x", "."]
EVIL = [*((name, "") for name in OUTSIDE), ("folder/link", "/etc/passwd")]


def test_a_path_outside_of_the_folder_or_a_link_is_refused(archive: Path, tmp_path: Path) -> None:
    first, *others = unpacked(archive)
    for name, link in EVIL:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = (tarfile.SYMTYPE if link else tarfile.REGTYPE), link
        pack(archive, [first, (member, b"" if link else b"evil"), *others])
        assert f"unexpected member {name!r}" in refused(archive, tmp_path / "new")


def test_a_backup_of_a_newer_netbisect_is_refused(archive: Path, tmp_path: Path) -> None:
    (member, data), *others = unpacked(archive)
    for newer in ({"format": 4}, {"schema": "9999"}):
        pack(
            archive,
            [(member, json.dumps(json.loads(data) | newer | {"more": 1}).encode()), *others],
        )
        output = refused(archive, tmp_path / "new")
        assert "this version cannot read the backup: it is from netbisect" in output


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="tarfile itself needs its filters")
def test_restore_needs_no_filters_of_tarfile(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.0 to 3.11.3 lack filters; Debian 12 has 3.11.2."""
    extract = tarfile.TarFile.extract

    def without_filter(
        tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, set_attrs: bool = True
    ) -> None:
        extract(tar, member, path, set_attrs)

    monkeypatch.setattr(tarfile.TarFile, "extract", without_filter)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    done = run("restore", archive, tmp_path / "new")

    assert done.exit_code == 0, done.output


def restore_on_full_disk(archive: Path, new: Path, output: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    output.write_text(run("restore", archive, new).output)


def test_a_full_disk_is_not_reported_as_a_damaged_archive(archive: Path, tmp_path: Path) -> None:
    """The new folder is removed."""
    new, output = tmp_path / "new", tmp_path / "output"
    forked(restore_on_full_disk, archive, new, output)

    assert f"Error: {new} cannot be written: File too large" in output.read_text()
    assert not new.exists()
