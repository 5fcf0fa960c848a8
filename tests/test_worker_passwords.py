"""Passwords of workers: one for all, or a folder with one for each."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from real_master import RealMaster, case
from twisted.cred.error import UnauthorizedLogin

from netbisect.steps import builders as wiring
from netbisect.steps import cli, control
from netbisect.steps.secret_files import make_passwords, worker_passwords
from netbisect.workers.tomlfile import FileError

NAMES = ("builder", "c2558")
RUN = [sys.executable, "-c", "from buildbot_worker.scripts.runner import run; run()"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        write(tmp_path / name, f"secret of {name}")
    return tmp_path


def write(path: Path, password: str) -> None:
    path.touch(mode=0o600)
    path.write_text(f"{password}\n")


def test_a_file_is_for_all_and_a_folder_for_each(folder: Path) -> None:
    """What else is in the folder does no harm."""
    write(folder / "of another lab", "x")
    assert worker_passwords(folder, NAMES) == {name: f"secret of {name}" for name in NAMES}
    shared = worker_passwords(folder / "c2558", NAMES)
    assert shared == dict.fromkeys(NAMES, "secret of c2558")


def test_what_is_wrong_in_a_folder_gets_a_sentence(folder: Path) -> None:
    """One that is missing, that others may read, or that is another worker's too."""
    with pytest.raises(FileError, match=r"workers\.password_file: .* has no file e5-2650"):
        worker_passwords(folder, (*NAMES, "e5-2650"))
    write(folder / "e5-2650", "secret of c2558")
    with pytest.raises(FileError, match="c2558 and e5-2650 have the same password"):
        worker_passwords(folder, (*NAMES, "e5-2650"))
    (folder / "builder").chmod(0o640)
    with pytest.raises(FileError, match="builder has the mode 0640"):
        worker_passwords(folder, NAMES)


def test_who_has_none_yet_gets_one(folder: Path) -> None:
    """And nobody else: what is there stays as it is."""
    before = worker_passwords(folder, NAMES)
    assert make_passwords(folder, ("new", *NAMES, "newer")) == ["new", "newer"]
    found = worker_passwords(folder, ("new", *NAMES, "newer"))

    assert {name: found[name] for name in NAMES} == before
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in found} == {0o600}
    assert {path.name for path in folder.iterdir()} == set(found)
    assert make_passwords(folder, tuple(found)) == []


def test_of_a_file_that_all_share_nothing_is_made(folder: Path) -> None:
    assert make_passwords(folder / "c2558", (*NAMES, "new")) == []
    assert make_passwords(folder / "none", (*NAMES, "new")) == []
    assert {path.name for path in folder.iterdir()} == set(NAMES)


def test_a_password_that_cannot_be_written_gets_a_sentence(folder: Path) -> None:
    """And leaves nothing behind."""
    with pytest.raises(FileError, match=r"workers\.password_file: .*/no/such cannot be written"):
        make_passwords(folder, ("no/such",))
    assert {path.name for path in folder.iterdir()} == set(NAMES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_one_that_root_makes_belongs_to_whom_the_folder_belongs_to(folder: Path) -> None:
    os.chown(folder, 12345, 54321)
    make_passwords(folder, ("new",))
    status = (folder / "new").stat()

    assert (status.st_uid, status.st_gid) == (12345, 54321)


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """A new service whose lab file has got another worker since."""
    folder = tmp_path / "service"
    assert CliRunner().invoke(cli.main, ["init", str(folder)]).exit_code == 0
    lab = folder / "lab.toml"
    text = lab.read_text()
    assert 'name = "router1"' in text
    lab.write_text(text.replace('name = "router1"', 'name = "router1"\nworker = "another"'))
    return folder


def told(folder: Path) -> str:
    """What is said of passwords before a start."""
    [found] = [one.found for one in control.examine(folder) if "password" in one.what + one.found]
    return found


def test_a_check_makes_what_is_missing_and_says_so(service: Path) -> None:
    assert told(service) == f"{service}/workers, new for another"
    assert (service / "workers" / "another").read_text().strip()
    assert told(service) == f"{service}/workers"


def test_of_several_masters_none_makes_one_for_itself(service: Path) -> None:
    """The others would not know it."""
    settings = service / control.SETTINGS
    text = settings.read_text()
    line = text[text.index("# database = ") :].partition("\n")[0]
    text = text.replace(line, 'database = "postgresql+psycopg://nobody@nowhere.invalid/x"')
    masters = 'database = "postgresql://nobody@nowhere.invalid/y"\nrouter = "ws://nowhere.invalid"'
    settings.write_text(f"{text}\n[masters]\n{masters}\n")

    assert f"{service}/workers has no file another" in told(service)
    assert not (service / "workers" / "another").exists()


class Apart(RealMaster):
    """A master whose workers have a password each."""

    timeout = 120

    def come(self, name: str, password: str) -> Path:
        """A worker of that name starts with that password; its log."""
        place = self.folder / f"{name} with {password}"
        port = self.master.workers.registrations[name].getPBPort()
        made = ["create-worker", "--quiet", str(place), f"127.0.0.1:{port}", name, password]
        subprocess.run([*RUN, *made], check=True)
        process = subprocess.Popen(
            [*RUN, "start", "--nodaemon", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return place / "twistd.log"

    @pytest.mark.slow
    @case
    async def test_no_worker_comes_as_another(self: Any) -> None:
        """With its own password it comes, under another name it does not."""
        folder = self.folder / "workers"
        folder.mkdir()
        for name in NAMES:
            write(folder / name, f"secret-of-{name}")
        workers = replace(self.settings.workers, password_file=folder)
        found = wiring.workers(replace(self.settings, workers=workers), self.lab)
        self.builders = self.testbeds = ()
        place = {"port": "tcp:0:interface=127.0.0.1"}
        await self.start(more_workers=found, protocols={"pb": place})
        there = self.master.botmaster.builders.values

        def attached() -> set[str]:
            return {one.worker.workername for builder in there() for one in builder.workers}

        log = self.come("c2558", "secret-of-builder")
        await self.until(lambda: log.is_file() and "nauthorized" in log.read_text())
        assert attached() == set()
        assert self.flushLoggedErrors(UnauthorizedLogin)
        self.come("builder", "secret-of-builder")
        self.come("c2558", "secret-of-c2558")
        await self.until(lambda: attached() == {*NAMES})
        self.flushLoggedErrors(UnauthorizedLogin)  # it has tried again
