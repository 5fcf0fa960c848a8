"""The artefact store: kernels under the hash of their own bytes."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect import wire
from netbisect.bisect.model import Kernel
from netbisect.workers.artefact import ArtefactError, ArtefactStore, key_of, pack


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """An installed kernel directory."""
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


def fact(key: str, size: int, seconds: float = 1.0) -> Kernel:
    return Kernel("rev", "GENERIC", "amd64", "id", key, "n1-rev", size, 0.0, seconds)


def test_the_key_depends_on_the_content_alone(stage: Path, tmp_path: Path) -> None:
    """Not on times, owners, umask or the order in which files were written."""
    one = pack(stage, tmp_path / "one.tar.gz")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("pf.ko", "kernel"):
        (other / name).write_bytes((stage / name).read_bytes())
        (other / name).chmod((stage / name).stat().st_mode)
        os.utime(other / name, (1, 1))
    assert pack(other, tmp_path / "two.tar.gz") == one
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_another_byte_is_another_key(stage: Path, tmp_path: Path) -> None:
    one = pack(stage, tmp_path / "one.tar.gz")
    (stage / "pf.ko").write_bytes(b"pg")
    assert pack(stage, tmp_path / "two.tar.gz") != one


def test_what_was_put_is_got(stage: Path, log: Path, tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "kernels")
    kernel = store.put(stage, fact, log)
    archive = store.get(kernel.key)
    assert kernel.size == archive.stat().st_size
    with tarfile.open(archive) as tar:
        assert sorted(tar.getnames()) == ["kernel", "pf.ko"]
    assert wire.loads((archive.parent / "kernel.json").read_text()) == kernel
    assert (archive.parent / "build.log").read_text() == log.read_text()


def test_the_same_bytes_again_keep_one_folder_with_the_newest_fact(
    stage: Path, log: Path, tmp_path: Path
) -> None:
    store = ArtefactStore(tmp_path / "kernels")
    first = store.put(stage, fact, log)
    second = store.put(stage, lambda key, size: fact(key, size, seconds=9.0), log)
    assert first.key == second.key
    assert [path.name for path in store.directory.iterdir()] == [first.key]
    assert wire.loads((store.directory / first.key / "kernel.json").read_text()) == second


def test_all_or_nothing(stage: Path, log: Path, tmp_path: Path) -> None:
    """When the description fails, the store is as it was."""
    store = ArtefactStore(tmp_path / "kernels")

    def fail(key: str, size: int) -> Kernel:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put(stage, fail, log)
    assert list(store.directory.iterdir()) == []


def test_a_kernel_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError) as caught:
        ArtefactStore(tmp_path).get("0123456789abcdef")
    assert str(caught.value) == f"there is no kernel 0123456789ab in {tmp_path}"


def test_a_truncated_archive_is_refused(stage: Path, log: Path, tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path)
    archive = store.archive(store.put(stage, fact, log).key)
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(ArtefactError, match="ended before the end-of-stream marker"):
        store.get(archive.parent.name)


def test_an_archive_with_other_content_is_refused(stage: Path, log: Path, tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path)
    archive = store.archive(store.put(stage, fact, log).key)
    archive.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ArtefactError, match="its content has the key"):
        store.get(archive.parent.name)


@given(place=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_no_flipped_bit_goes_unseen(
    place: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the damage does to gzip, the store speaks; the key stays if the content does."""
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
