"""Passwords of workers: one for all, or a folder with one for each."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from real_master import RealMaster, case
from twisted.cred.error import UnauthorizedLogin

from netbisect.steps import builders as wiring
from netbisect.steps.secret_files import worker_passwords
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
