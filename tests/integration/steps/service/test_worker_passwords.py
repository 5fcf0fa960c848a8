"""Passwords of workers."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import netbisect
from real_master import WORKER, RealMaster, case
from twisted.cred.error import UnauthorizedLogin

from netbisect.steps.master import builders
from netbisect.steps.service import control
from netbisect.steps.service.secrets import make_passwords, worker_passwords
from netbisect.workers.config.toml import FileError

NAMES = ("builder", "c2558")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        write(tmp_path / name, f"secret of {name}")
    return tmp_path


def write(path: Path, password: str) -> None:
    path.touch(mode=0o600)
    path.write_text(f"{password}\n")


def test_invalid_folders_of_passwords_are_rejected(folder: Path) -> None:
    with pytest.raises(FileError, match=r"workers\.password_file: .* has no file e5-2650"):
        worker_passwords(folder, (*NAMES, "e5-2650"))
    write(folder / "e5-2650", "secret of c2558")
    with pytest.raises(FileError, match="c2558 and e5-2650 have the same password"):
        worker_passwords(folder, (*NAMES, "e5-2650"))
    (folder / "builder").chmod(0o640)
    with pytest.raises(FileError, match="builder has mode 0640"):
        worker_passwords(folder, NAMES)


def test_missing_passwords_are_created(folder: Path) -> None:
    """A failed write leaves no file."""
    with pytest.raises(FileError, match=r"workers\.password_file: .*/no/such cannot be written"):
        make_passwords(folder, ("no/such",))
    assert {path.name for path in folder.iterdir()} == set(NAMES)

    before = worker_passwords(folder, NAMES)
    assert make_passwords(folder, ("new", *NAMES, "newer")) == ["new", "newer"]
    found = worker_passwords(folder, ("new", *NAMES, "newer"))
    assert {name: found[name] for name in NAMES} == before
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in found} == {0o600}
    assert {path.name for path in folder.iterdir()} == set(found)
    assert make_passwords(folder, tuple(found)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change owners of files")
def test_passwords_created_by_root_belong_to_the_owner_of_the_folder(folder: Path) -> None:
    os.chown(folder, 12345, 54321)
    make_passwords(folder, ("new",))
    status = (folder / "new").stat()

    assert (status.st_uid, status.st_gid) == (12345, 54321)


def password_check(folder: Path) -> str:
    checks = control.check_folder(folder)
    [found] = [check.found for check in checks if "password" in check.what + check.found]
    return found


def test_check_creates_and_reports_missing_passwords(tmp_path: Path) -> None:
    """Several masters create none. The lab file of the new service has one more worker."""
    folder = tmp_path / "service"
    assert netbisect("init", folder).exit_code == 0
    lab, settings = folder / "lab.toml", folder / control.SETTINGS
    assert 'name = "router1"' in lab.read_text()
    more = lab.read_text().replace('name = "router1"', 'name = "router1"\nworker = "another"')
    lab.write_text(more)
    text = settings.read_text()
    line = text[text.index("# database = ") :].partition("\n")[0]
    other = text.replace(line, 'database = "postgresql+psycopg://user@db.invalid/x"')
    masters = 'database = "postgresql://user@db.invalid/y"\nrouter = "ws://router.invalid"'
    settings.write_text(f"{other}\n[masters]\n{masters}\n")
    assert f"{folder}/workers has no file another" in password_check(folder)
    assert not (folder / "workers" / "another").exists()

    settings.write_text(text)
    assert password_check(folder) == f"{folder}/workers, new for another"
    assert (folder / "workers" / "another").read_text().strip()
    assert password_check(folder) == f"{folder}/workers"

    settings.write_text(text.replace("[web]", '[web]\nhook_file = "no-password"'))
    assert password_check(folder).startswith(f"web.hook_file: {folder}/no-password cannot be read")


class SeparatePasswordsTest(RealMaster):
    def start_worker(self, name: str, password: str) -> Path:
        place = self.folder / f"{name} with {password}"
        port = self.master.workers.registrations[name].getPBPort()
        command = ["create-worker", "--quiet", str(place), f"127.0.0.1:{port}", name, password]
        subprocess.run([*WORKER, *command], check=True)
        return self.run_worker(place)

    @pytest.mark.long
    @case
    async def test_a_worker_cannot_use_another_name(self: Any) -> None:
        folder = self.folder / "workers"
        folder.mkdir()
        for name in NAMES:
            write(folder / name, f"secret-of-{name}")
        workers = replace(self.settings.workers, password_file=folder)
        found = builders.workers(replace(self.settings, workers=workers), self.lab)
        self.builders = self.testbeds = ()
        place = {"port": "tcp:0:interface=127.0.0.1"}
        await self.start(more_workers=found, protocols={"pb": place})
        attached_builders = self.master.botmaster.builders.values

        def attached() -> set[str]:
            return {
                one.worker.workername for builder in attached_builders() for one in builder.workers
            }

        log = self.start_worker("c2558", "secret-of-builder")
        await self.until(lambda: log.is_file() and "nauthorized" in log.read_text())
        assert attached() == set()
        assert self.flushLoggedErrors(UnauthorizedLogin)
        self.start_worker("builder", "secret-of-builder")
        self.start_worker("c2558", "secret-of-c2558")
        await self.until(lambda: attached() == {*NAMES})
        self.flushLoggedErrors(UnauthorizedLogin)  # of a repeated login
