"""Transfer of kernels to the master, and removal of old kernels."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_facts import bisect_job, intend

from netbisect.bisect.model.entities import Kernel, Noise
from netbisect.bisect.model.results import Unfinished
from netbisect.steps.master.transfer import accept, prune
from netbisect.steps.service.settings import MailSettings, Settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.workers.build.artifacts import ARCHIVE, ArtefactStore, key_of


@pytest.fixture
def built(tmp_path: Path) -> tuple[ArtefactStore, Kernel]:
    store = ArtefactStore(tmp_path / "builder")
    return store, put(store, tmp_path, "text")


def put(store: ArtefactStore, folder: Path, text: str, revision: str = "a" * 40) -> Kernel:
    stage, log = folder / "stage", folder / "log"
    stage.mkdir(exist_ok=True)
    (stage / "kernel").write_text(text)
    log.write_text("x" * 1000)
    return store.put(
        stage,
        lambda key, size: Kernel(revision, "GENERIC", "amd64", "id", key, "v", size, 1.0, 1.0),
        log,
    )


def uploaded(store: ArtefactStore, kernel: Kernel, folder: Path) -> Path:
    incoming = folder / "incoming"
    (store.directory / kernel.key).rename(incoming)
    return incoming


def test_a_kernel_that_matches_its_key_is_stored_and_no_other(
    built: tuple[ArtefactStore, Kernel], tmp_path: Path
) -> None:
    store, kernel = built
    master = tmp_path / "master"
    master.mkdir()
    incoming = uploaded(store, kernel, tmp_path)
    assert accept(incoming, master, "0" * 64) == (
        f"the kernel cannot be stored: {incoming / ARCHIVE}: its content has the key "
        f"{kernel.key[:12]}, expected 000000000000"
    )
    assert list(master.iterdir()) == []

    incoming = uploaded(store, put(store, tmp_path, "text"), tmp_path)
    assert accept(incoming, master, kernel.key) == ""
    assert key_of(ArtefactStore(master).archive(kernel.key)) == kernel.key
    assert not incoming.exists()


class _Search:
    """A store with kernels of eight revisions, and a search among the first five."""

    def __init__(self, folder: Path, url: str) -> None:
        self.settings = Settings(
            branches=("main",),
            mail=MailSettings(("a@example.org",), "b@example.org"),
            state=folder,
            database=url,
        )
        self.ledger = open_service_ledger(self.settings)
        self.store = ArtefactStore(self.settings.kernels)
        self.revisions = [letter * 40 for letter in "abcdefgh"]
        self.keys = [self.put(folder, revision) for revision in self.revisions]
        search = bisect_job(self.revisions[:5], -0.1, Noise(0.01, 0.01, 0.01))
        self.record = self.ledger.jobs.add(search, key="bisect")

    def put(self, folder: Path, revision: str) -> str:
        kernel = put(self.store, folder, revision, revision)
        self.ledger.facts.record(kernel)
        return kernel.key

    def stored(self) -> set[str]:
        return {path.name for path in self.settings.kernels.iterdir()}

    def prune(self, space: str) -> str:
        settings = replace(self.settings, kernel_space=space)
        return prune(settings, self.ledger.jobs.needed_kernels())


def test_kernels_are_removed_by_age_unless_an_open_job_needs_them(tmp_path: Path, url: str) -> None:
    search = _Search(tmp_path, url)
    for age, key in enumerate(search.keys):
        os.utime(search.settings.kernels / key / "kernel.json", (1e9 - age, 1e9 - age))
    files = [path for path in search.settings.kernels.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) // 8

    assert search.prune("1 GB") == ""
    assert len(search.stored()) == 8
    assert search.prune(f"{size * 7 + size // 2} B") == "1 kernels removed"
    assert search.stored() == set(search.keys[:7])
    intend(search.ledger, search.record, search.revisions[6])
    line = search.prune("1 B")
    assert search.stored() == {*search.keys[:5], search.keys[6]}
    assert line.startswith("the kernels of open jobs take ")
    assert line.endswith(" kB, kernel_space is 1 B")
    with search.ledger.jobs.closing(search.record, Unfinished("it is enough")):
        pass
    search.prune("1 B")
    assert not search.stored() & set(search.keys[:5])
