"""The content-addressed store of kernels."""

from __future__ import annotations

import gzip
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import forked, kill_itself

from netbisect.bisect.model.entities import Kernel
from netbisect.workers.build.artifacts import ArtefactError, ArtefactStore, key_of, pack
from netbisect.workers.config.validation import format_size, parse_size
from netbisect.workers.dut.kernel_folder import read_contents


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "kernel").write_bytes(os.urandom(100_000))
    (stage / "kernel").chmod(0o755)
    (stage / "pf.ko").write_bytes(b"pf")
    return stage


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    log.write_text("cc -c pf.c\n")
    return log


def fact(key: str, size: int) -> Kernel:
    return Kernel("rev", "GENERIC", "amd64", "id", key, "n1-rev", size, 0.0, 1.0)


def test_archive_with_other_content_is_rejected(stage: Path, log: Path, tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path)
    archive = store.archive(store.put(stage, fact, log).key)
    key = archive.parent.name
    (stage / "pf.ko").write_bytes(b"pg")
    pack(stage, archive)
    with pytest.raises(ArtefactError, match="its content has the key"):
        read_contents(archive, key)
    for damage in (b"", b"no gzip", gzip.compress(b"no tar"), gzip.compress(b"\0" * 1024)):
        archive.write_bytes(damage)
        with pytest.raises(ArtefactError, match=r"kernel\.tar\.gz: "):
            read_contents(archive, key)
    (stage / "pf.ko").write_bytes(b"pf")
    assert store.put(stage, fact, log).key == key == key_of(archive)  # repaired


@given(place=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_flipped_bits_are_detected(
    place: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A flipped bit raises ArtefactError or changes the key, unless the content is unchanged."""
    folder = tmp_path_factory.mktemp("bits")
    (folder / "stage").mkdir()
    (folder / "stage" / "kernel").write_bytes(bytes(range(256)) * 4)
    archive = folder / "kernel.tar.gz"
    key = pack(folder / "stage", archive)
    data = bytearray(archive.read_bytes())
    content = gzip.decompress(data)
    data[place % len(data)] ^= 1 << bit
    archive.write_bytes(data)
    try:
        found = key_of(archive)
    except ArtefactError:
        return
    assert (found == key) == (gzip.decompress(data) == content)


@pytest.fixture
def full(tmp_path: Path, log: Path) -> tuple[ArtefactStore, list[str]]:
    """A store with five kernels of about a kilobyte, and their keys, least recently used first."""
    store = ArtefactStore(tmp_path / "kernels")
    keys = []
    for number in range(5):
        stage = tmp_path / f"stage {number}"
        stage.mkdir()
        (stage / "kernel").write_bytes(os.urandom(1000))
        key = store.put(stage, fact, log).key
        os.utime(store.directory / key / "kernel.json", (1e9 + number, 1e9 + number))
        keys.append(key)
    return store, keys


def stored(store: ArtefactStore) -> set[str]:
    return {path.name for path in store.directory.iterdir()}


def test_needed_and_leased_artefacts_are_kept(full: tuple[ArtefactStore, list[str]]) -> None:
    """They may exceed the limit. One whose archive root cannot open, a folder, is reported."""
    store, keys = full
    pruned = store.prune(0, keys[1:3])

    assert stored(store) == set(keys[1:3])
    assert pruned.size > 2000
    with store.lease(keys[1]):
        assert store.prune(0).removed == (keys[2],)
    assert store.prune(0).removed == (keys[1],)
    store.archive("other").mkdir(parents=True)
    (store.directory / "other" / "kernel.json").touch()
    why = f"{store.directory}/other cannot be removed to make room: Is a directory"
    assert (store.prune(0).refused, stored(store)) == (why, {"other"})


def test_interrupted_put_leaves_no_partial_kernel(
    stage: Path, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored kernels are complete; prune() removes partial ones."""
    store = ArtefactStore(tmp_path / "kernels")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", kill_itself)
        assert forked(store.put, stage, fact, log) == -signal.SIGKILL

    (work,) = store.directory.iterdir()
    assert work.name.startswith(".new-")
    assert store.prune(1 << 30).size == 0
    os.utime(work, (1e9, 1e9))
    assert store.prune(1 << 30).removed == ()
    assert stored(store) == set()
    assert store.archive(store.put(stage, fact, log).key).is_file()


def test_uploads_in_progress_are_kept(
    full: tuple[ArtefactStore, list[str]], stage: Path, log: Path
) -> None:
    """One of Buildbot is partial until kernel.json, which is written last; it stays for a day."""
    store, _ = full

    def fail(key: str, size: int) -> Kernel:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        store.put(stage, fail, log)
    assert [path for path in store.directory.iterdir() if path.name.startswith(".new-")] == []

    def slow(key: str, size: int) -> Kernel:
        (work,) = store.directory.glob(".new-*")
        os.utime(work, (1e9, 1e9))
        store.prune(0)
        assert work.is_dir()
        return fact(key, size)

    kernel = store.put(stage, slow, log)
    folder = store.directory / kernel.key
    (folder / "kernel.json").unlink()
    store.prune(1 << 30)
    assert stored(store) == {kernel.key}
    for path in (folder, *folder.iterdir()):
        os.utime(path, (1e9, 1e9))
    store.prune(1 << 30)
    assert stored(store) == set()


@given(st.integers(min_value=1, max_value=10**15))
def test_size_survives_a_round_trip(amount: int) -> None:
    """Printed sizes are rounded to a tenth of the unit."""
    assert parse_size(format_size(amount)) == pytest.approx(amount, rel=0.05)
