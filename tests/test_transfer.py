"""Kernels on their way: nothing that was not checked gets into the master's store."""

from __future__ import annotations

from pathlib import Path

import pytest

from netbisect.bisect.model import Kernel
from netbisect.steps.transfer import accept
from netbisect.workers.artefact import ARCHIVE, ArtefactStore


@pytest.fixture
def built(tmp_path: Path) -> tuple[ArtefactStore, Kernel]:
    store = ArtefactStore(tmp_path / "builder")
    return store, put(store, tmp_path, "text")


def put(store: ArtefactStore, folder: Path, text: str) -> Kernel:
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    (stage / "kernel").write_text(text)
    log = folder / "log"
    log.write_text("")
    return store.put(
        stage,
        lambda key, size: Kernel("a" * 40, "GENERIC", "amd64", "id", key, "v", size, 1.0, 1.0),
        log,
    )


def uploaded(store: ArtefactStore, kernel: Kernel, folder: Path) -> Path:
    incoming = folder / "incoming"
    (store.directory / kernel.key).rename(incoming)
    return incoming


def test_a_kernel_with_the_right_content_is_kept(
    built: tuple[ArtefactStore, Kernel], tmp_path: Path
) -> None:
    """It appears under its key, and nothing is left where it was uploaded to."""
    store, kernel = built
    incoming = uploaded(store, kernel, tmp_path)
    (tmp_path / "master").mkdir()

    assert accept(incoming, tmp_path / "master", kernel.key, 10) == ""
    assert ArtefactStore(tmp_path / "master").get(kernel.key).is_file()
    assert not incoming.exists()


def test_a_damaged_kernel_is_refused(built: tuple[ArtefactStore, Kernel], tmp_path: Path) -> None:
    """The reason names both keys, and nothing is kept."""
    store, kernel = built
    incoming = uploaded(store, kernel, tmp_path)
    archive = incoming / ARCHIVE
    archive.write_bytes(archive.read_bytes()[:-20])
    (tmp_path / "master").mkdir()

    assert "cannot be kept" in accept(incoming, tmp_path / "master", kernel.key, 10)
    assert list((tmp_path / "master").iterdir()) == []


def test_another_kernel_is_refused(built: tuple[ArtefactStore, Kernel], tmp_path: Path) -> None:
    """What the builder announced and what arrived must be the same."""
    store, kernel = built
    incoming = uploaded(store, kernel, tmp_path)
    (tmp_path / "master").mkdir()
    said = accept(incoming, tmp_path / "master", "0" * 64, 10)

    assert said == f"what was uploaded has the key {kernel.key[:12]}, expected 000000000000"


def test_the_oldest_kernels_make_room(tmp_path: Path) -> None:
    """Only so many are kept; the newest ones."""
    builder, master = ArtefactStore(tmp_path / "builder"), tmp_path / "master"
    master.mkdir()
    keys = []
    for number in range(4):
        kernel = put(builder, tmp_path, f"text {number}")
        keys.append(kernel.key)
        assert accept(uploaded(builder, kernel, tmp_path), master, kernel.key, 2) == ""

    assert {path.name for path in master.iterdir()} == set(keys[-2:])
