"""Patches: parsing, validation, storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from builds import FILE, diff
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.build.patches import (
    MOST_BYTES,
    PatchError,
    PatchStore,
    level_of,
    read,
    read_file,
)

TOPS = ("Makefile", "sys", "share", "tools")
PATCH = read("D5180", diff().encode())


def test_line_endings_of_windows_are_accepted() -> None:
    """Line endings are converted; a missing newline at the end is added."""
    text = diff().encode()
    assert read("D1", text.replace(b"\n", b"\r\n")) == read("D1", text)
    assert read("D1", text[:-1]) == read("D1", text)


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        (f"a/{FILE}", f"b/{FILE}", 1),
        (FILE, f"{FILE}\t(working copy)", 0),
        (f"head/{FILE}\t(revision 295285)", f"head/{FILE}\t(working copy)", 1),
        (f"stable/12/{FILE}", f"stable/12/{FILE}", 2),
        ("/dev/null", f"head/{FILE}", 1),
        (f"stable/12/{FILE}", "stable/12/new/file.c", 2),
        ("a/NEWS", "b/NEWS", 1),
        ("NEWS", "NEWS", 0),
    ],
)
def test_prefixes_of_paths_are_removed(old: str, new: str, level: int) -> None:
    """Prefixes are those of git and Subversion, from the top of the tree or from a branch."""
    assert level_of(read("D1", diff(old, new).encode()), TOPS) == level


PAGE = "\n <!DOCTYPE html><html><head><title>Login</title></head></html>\n"
HOSTILE = {
    "empty": ("", "no name of a file"),
    "text": ("There is no such review.\n", "no name of a file"),
    "HTML": (PAGE, "found a page of HTML: there is no such review, or only those who log in"),
    "HTML with a byte order mark": (f"\ufeff{PAGE}", "found a page of HTML"),
    "binary": ("\x00\x01\x02" + diff(), "found binary data"),
    "large": (diff() + "x" * MOST_BYTES, "expected a diff of at most 10 MiB"),
    "parent directory": (diff("a/../../etc/passwd"), "expected names of files inside the tree"),
    "parent directory in a later file": (
        diff() + diff("a/sys/../../../x"),
        "found one that is not",
    ),
    "absolute": (diff("/etc/passwd", "/etc/passwd"), "found one that is not"),
    "quoted": (diff('"a/\\056\\056/x"'), "expected names of files inside the tree"),
    ".git": (diff("a/.git/hooks/post-checkout"), "found one that is not"),
    ".GIT": (diff("a/.GIT/config"), "found one that is not"),
    "rename to a parent directory": (
        "diff --git a/x b/x\nsimilarity index 100%\nrename from x\nrename to ../x\n",
        "found one that is not",
    ),
    "copy of an absolute path": (
        "copy from /etc/master.passwd\ncopy to sys/x\n",
        "found one that is not",
    ),
    "mode of a file in a parent directory": (
        "diff --git a/../x b/../x\nold mode 100644\nnew mode 100755\n",
        "",
    ),
    "symbolic link": (
        f"diff --git a/l b/l\nnew file mode 120000\n{diff('/dev/null', 'b/l')}",
        "found a symbolic link",
    ),
    "changed link": (
        f"diff --git a/l b/l\nindex 0a1b..2c3d 120000\n{diff('a/l', 'b/l')}",
        "found a symbolic link",
    ),
    "submodule": (
        f"diff --git a/m b/m\nnew file mode 160000\n{diff('/dev/null', 'b/m')}",
        "found a submodule",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_invalid_patch_is_rejected(name: str, tmp_path: Path) -> None:
    """Patches of reviews and of files have the same errors."""
    text, why = HOSTILE[name]
    with pytest.raises(PatchError) as caught:
        read("D5180", text.encode())
    assert str(caught.value).startswith("D5180: ")
    assert why in str(caught.value)
    (tmp_path / "x.diff").write_bytes(text.encode())
    with pytest.raises(PatchError) as caught:
        read_file(tmp_path / "x.diff")
    assert str(caught.value).startswith(f"{tmp_path / 'x.diff'}: ")
    with pytest.raises(PatchError, match=r"none\.diff cannot be read: No such file or directory"):
        read_file(tmp_path / "none.diff")


@given(st.binary(max_size=400), st.sampled_from([b"", b"--- ", b"diff --git ", b"rename to "]))
def test_paths_of_any_accepted_patch_are_inside_the_tree(junk: bytes, start: bytes) -> None:
    """Arbitrary bytes raise PatchError or have relative paths without `..`."""
    try:
        patch = read("D1", start + junk)
    except PatchError:
        return
    for path in patch.paths:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
    level_of(patch, TOPS)


def test_missing_or_damaged_patch_is_reported(tmp_path: Path) -> None:
    """Storing the patch again repairs it."""
    store = PatchStore(tmp_path)
    with pytest.raises(PatchError, match=f"there is no patch {PATCH.mark} in "):
        store.get(PATCH.mark)
    assert store.put(PATCH) == store.put(PATCH) == PATCH.mark
    assert [path.name for path in tmp_path.iterdir()] == [f"{PATCH.mark}.patch"]
    (tmp_path / f"{PATCH.mark}.patch").write_bytes(PATCH.data[:-10])
    with pytest.raises(PatchError, match=f"its content is not the patch {PATCH.mark}"):
        store.get(PATCH.mark)
    store.put(PATCH)
    assert store.load(PATCH.mark) == PATCH


def test_interrupted_write_leaves_no_partial_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            PatchStore(tmp_path).put(PATCH)

    with pytest.raises(PatchError, match="there is no patch"):
        PatchStore(tmp_path).get(PATCH.mark)
    assert PatchStore(tmp_path).put(PATCH) == PATCH.mark
