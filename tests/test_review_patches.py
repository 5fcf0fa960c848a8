"""Review patches: fetched, checked, applied; each is a configuration of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import Dud, Kernel, Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import Tree
from netbisect.workers import cli, review
from netbisect.workers.build import KernelBuild
from netbisect.workers.lab import Builder, Overlay, Source
from netbisect.workers.patches import (
    MOST_BYTES,
    Patch,
    PatchError,
    PatchStore,
    is_mark,
    level_of,
    read,
    read_file,
)

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab

FILE = "sys/netinet/ip_input.c"
TOPS = ("Makefile", "sys", "share", "tools")


def diff(path: str = f"a/{FILE}", to: str = f"b/{FILE}") -> str:
    return f"--- {path}\n+++ {to}\n@@ -1 +1 @@\n-old\n+new\n"


# ------------------------------------------------------------------------------ what is taken


def test_a_patch_is_known_by_its_content() -> None:
    """The same one under the same name for ever; an updated review under another."""
    first = read("D5180", diff().encode())
    updated = read("D5180", diff().replace("new", "newer").encode())

    assert first.mark == read("D5180", diff().encode()).mark
    assert first.mark != updated.mark
    assert first.mark.startswith("D5180-")
    assert first.paths == (f"a/{FILE}", f"b/{FILE}")
    assert all(map(is_mark, (first.mark, read("patch", diff().encode()).mark)))
    assert not any(map(is_mark, ("fix-igb", "D5180", "GENERIC", "patch-0a1b2c3")))


def test_no_overlay_is_called_as_a_patch() -> None:
    """A configuration says which of the two it is with."""
    with pytest.raises(ValueError, match="patches given by hand are called so"):
        Overlay("patch-0a1b2c3d", Path("p"), "a" * 40, "a" * 40)


def test_a_patch_from_windows_is_the_patch() -> None:
    """Its lines end as those of the tree do; so does what has no end."""
    text = diff().encode()
    assert read("D1", text.replace(b"\n", b"\r\n")) == read("D1", text)
    assert read("D1", text[:-1]) == read("D1", text)


def test_a_patch_to_a_file_from_windows_stays_as_it_is() -> None:
    """Only some of its lines end so."""
    text = diff().replace("old\n", "old\r\n").replace("new\n", "new\r\n").encode()
    assert read("D1", text).data == text


def test_text_that_looks_like_a_name_is_text() -> None:
    """A line `-- /etc/passwd` that goes is `--- /etc/passwd` in a diff."""
    text = (
        f"--- a/{FILE}\n+++ b/{FILE}\n@@ -1,2 +1,2 @@\n--- /etc/passwd\n+++ /etc/passwd\n same\n"
        "\\ No newline at end of file\n"
    )
    assert read("D1", text.encode()).paths == (f"a/{FILE}", f"b/{FILE}")


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
def test_what_leads_to_the_tree_is_taken_off(old: str, new: str, level: int) -> None:
    """As git and Subversion write it, at the top of the tree or on a branch."""
    assert level_of(read("D1", diff(old, new).encode()), TOPS) == level


# ---------------------------------------------------------------------------- what is refused

PAGE = "\n <!DOCTYPE html><html><head><title>Login</title></head></html>\n"
HOSTILE = {
    "nothing": ("", "no name of a file"),
    "words": ("There is no such review.\n", "no name of a file"),
    "page": (PAGE, "found a page of HTML: there is no such review, or only those who log in"),
    "page with a mark": (f"\ufeff{PAGE}", "found a page of HTML"),
    "binary": ("\x00\x01\x02" + diff(), "found binary data"),
    "large": (diff() + "x" * MOST_BYTES, "a diff of at most 10 MiB expected"),
    "upwards": (diff("a/../../etc/passwd"), "names of files inside the tree expected"),
    "upwards later": (diff() + diff("a/sys/../../../x"), "found 'a/sys/../../../x'"),
    "absolute": (diff("/etc/passwd", "/etc/passwd"), "found '/etc/passwd'"),
    "quoted": (diff('"a/\\056\\056/x"'), "names of files inside the tree expected"),
    "git's own": (diff("a/.git/hooks/post-checkout"), "found 'a/.git/hooks/post-checkout'"),
    "git's own, shouted": (diff("a/.GIT/config"), "found 'a/.GIT/config'"),
    "renamed away": (
        "diff --git a/x b/x\nsimilarity index 100%\nrename from x\nrename to ../x\n",
        "found '../x'",
    ),
    "copied in": ("copy from /etc/master.passwd\ncopy to sys/x\n", "found '/etc/master.passwd'"),
    "mode of a file outside": ("diff --git a/../x b/../x\nold mode 100644\nnew mode 100755\n", ""),
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
def test_what_is_no_patch_for_a_tree_is_refused(name: str, tmp_path: Path) -> None:
    """With a sentence that says what was expected; from a file as from a review."""
    text, why = HOSTILE[name]
    with pytest.raises(PatchError) as caught:
        read("D5180", text.encode())
    assert str(caught.value).startswith("D5180: ")
    assert why in str(caught.value)
    (tmp_path / "x.diff").write_bytes(text.encode())
    with pytest.raises(PatchError) as caught:
        read_file(tmp_path / "x.diff")
    assert str(caught.value).startswith(f"{tmp_path / 'x.diff'}: ")


@given(st.binary(max_size=400), st.sampled_from([b"", b"--- ", b"diff --git ", b"rename to "]))
def test_junk_is_refused_or_stays_inside(junk: bytes, start: bytes) -> None:
    """Whatever comes: no traceback, and no name that leads out of the tree."""
    try:
        patch = read("D1", start + junk)
    except PatchError:
        return
    for path in patch.paths:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
    level_of(patch, TOPS)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=r"none\.diff cannot be read: No such file or directory"):
        read_file(tmp_path / "none.diff")


# --------------------------------------------------------------------------------- the store


@pytest.fixture
def patch() -> Patch:
    return read("D5180", diff().encode())


def test_what_was_put_is_got(tmp_path: Path, patch: Patch) -> None:
    """As often as one likes."""
    store = PatchStore(tmp_path / "patches")
    assert store.put(patch) == store.put(patch) == patch.mark
    assert store.load(patch.mark) == patch
    assert [path.name for path in store.directory.iterdir()] == [f"{patch.mark}.patch"]


def test_a_patch_that_is_not_there_or_not_whole_is_told(tmp_path: Path, patch: Patch) -> None:
    """Putting it again mends it."""
    store = PatchStore(tmp_path)
    with pytest.raises(PatchError, match=f"there is no patch {patch.mark} in "):
        store.get(patch.mark)
    store.put(patch)
    (tmp_path / f"{patch.mark}.patch").write_bytes(patch.data[:-10])
    with pytest.raises(PatchError, match=f"its content is not the patch {patch.mark}"):
        store.get(patch.mark)
    store.put(patch)
    assert store.load(patch.mark) == patch


def test_a_kill_while_a_patch_is_written_leaves_no_half_of_it(tmp_path: Path, patch: Patch) -> None:
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from netbisect.workers.patches import PatchStore, read\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"PatchStore(Path({str(tmp_path)!r})).put(read('D5180', {patch.data!r}))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False)

    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(PatchError, match="there is no patch"):
        PatchStore(tmp_path).get(patch.mark)
    assert PatchStore(tmp_path).put(patch) == patch.mark


# ----------------------------------------------------------------------------------- fetching


class _Phabricator:
    """Stands for a review server: what it says by path, and what it was asked."""

    def __init__(self) -> None:
        self.says: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        self.template = ""

    def give(self, path: str, data: bytes, kind: str = "text/plain", status: int = 200) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        self.says[path] = answer


@pytest.fixture
def phabricator() -> Iterator[_Phabricator]:
    server = _Phabricator()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            answer = server.says.get(self.path)
            if answer is None:
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.template = f"http://127.0.0.1:{listening.server_port}/{{review}}?download=true"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        listening.shutdown()
        thread.join()


def test_the_diff_of_a_review_is_fetched(phabricator: _Phabricator) -> None:
    """Also from where the server sends us, as Phabricator does."""

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/file/data/x/D5180.diff")
        handler.end_headers()

    phabricator.says["/D5180?download=true"] = elsewhere
    phabricator.give("/file/data/x/D5180.diff", diff().encode())

    assert review.fetch("D5180", phabricator.template) == read("D5180", diff().encode())
    assert phabricator.asked == ["/D5180?download=true", "/file/data/x/D5180.diff"]


@pytest.mark.parametrize("name", ["5180", "D0", "D", "D5180/../D1", "d5180", "D5180\n", "D1 2", ""])
def test_what_is_no_review_is_not_asked_for(phabricator: _Phabricator, name: str) -> None:
    with pytest.raises(PatchError, match="the name of a review expected, such as D5180"):
        review.fetch(name, phabricator.template)
    assert phabricator.asked == []


def test_a_server_without_the_review_is_told(phabricator: _Phabricator) -> None:
    """With its status, or for the page that it shows instead."""
    with pytest.raises(PatchError, match=r"D7: 127\.0\.0\.1:\d+ answers 404 Not Found"):
        review.fetch("D7", phabricator.template)
    phabricator.give("/D8?download=true", PAGE.encode(), "text/html")
    with pytest.raises(PatchError, match="D8: a diff expected, found a page of HTML"):
        review.fetch("D8", phabricator.template)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(PatchError, match=r"D7: 127\.0\.0\.1:9 cannot be asked: .*refused"):
        review.fetch("D7", "http://127.0.0.1:9/{review}")


def test_a_server_that_sends_too_much_is_not_listened_to(phabricator: _Phabricator) -> None:
    """It would go on for ever."""

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(diff().encode())
        try:
            while True:
                handler.wfile.write(b"x" * (1 << 20))
        except OSError:
            handler.close_connection = True

    phabricator.says["/D5180?download=true"] = endless
    with pytest.raises(PatchError, match="D5180: a diff of at most 10 MiB expected"):
        review.fetch("D5180", phabricator.template)


def test_a_server_that_stops_in_the_middle_is_told(phabricator: _Phabricator) -> None:
    """Half a diff is another diff."""

    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(diff().encode())

    phabricator.says["/D5180?download=true"] = half
    size = len(diff())
    with pytest.raises(PatchError, match=f"sent {size} bytes and not the rest"):
        review.fetch("D5180", phabricator.template)


def test_a_server_that_is_slow_is_given_up(
    phabricator: _Phabricator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it says nothing, or a little from time to time."""
    ended = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not ended.wait(0.02):
                handler.wfile.write(b"\n")
        except OSError:
            handler.close_connection = True

    phabricator.says["/D1?download=true"] = trickle
    phabricator.says["/D2?download=true"] = lambda _: ended.wait(10) and None
    monkeypatch.setattr(review, "_LONGEST", 0.2)
    monkeypatch.setattr(review, "_SILENCE", 0.2)
    try:
        with pytest.raises(PatchError, match=r"D1: .* has not sent all of it after 0\.2 s"):
            review.fetch("D1", phabricator.template)
        with pytest.raises(PatchError, match=r"D2: .* cannot be asked: timed out"):
            review.fetch("D2", phabricator.template)
    finally:
        ended.set()


@pytest.mark.parametrize(
    "url", ["reviews.example.org/{review}", "file:///{review}", "https://x/D1"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected http:// or https://, and \{review\} in it"):
        Source("/tree.git", review_url=url)


# ----------------------------------------------------------------------------------- building


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder("amd64", "amd64", tmp_path / "builder")


def git(tree: Tree, *arguments: str) -> str:
    command = ["git", "--git-dir", str(tree.repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def faster(tree: Tree, *options: str) -> bytes:
    """A diff that makes the first revision another one."""
    return git(tree, "diff", *options, tree.revisions[0], tree.revisions[20]).encode()


def build(builder: Builder, tree: Tree, revision: str, *patches: Patch) -> Kernel | Dud:
    store = PatchStore(builder.patches)
    config = "+".join([KERNEL_CONFIG, *map(store.put, patches)])
    return KernelBuild(
        builder, Source(str(tree.repository)), revision, config, lambda _: None
    ).run()


@pytest.mark.parametrize(
    "options",
    [(), ("--no-prefix",), ("--src-prefix=head/", "--dst-prefix=head/")],
    ids=["git", "svn", "head"],
)
def test_a_revision_with_a_patch_is_a_kernel_of_a_configuration_of_its_own(
    builder: Builder, sample_tree: Tree, options: tuple[str, ...]
) -> None:
    """It runs what the patch makes of it, and is never taken for the revision itself."""
    patch = read("D5180", faster(sample_tree, *options))
    first, later = sample_tree.revisions[0], sample_tree.revisions[20]
    patched = build(builder, sample_tree, first, patch)
    plain = build(builder, sample_tree, first)
    there = build(builder, sample_tree, later)

    assert isinstance(patched, Kernel), patched
    assert isinstance(plain, Kernel)
    assert isinstance(there, Kernel)
    assert (patched.revision, patched.config) == (first, f"{KERNEL_CONFIG}+{patch.mark}")
    assert patched.identity == there.identity != plain.identity


def test_what_subversion_says_of_properties_is_passed_over(
    builder: Builder, sample_tree: Tree
) -> None:
    """A new file, as Phabricator showed it in the days of Subversion."""
    text = (
        "Index: head/sys/netinet/new.c\n"
        "===================================================================\n"
        "--- /dev/null\n+++ head/sys/netinet/new.c\n@@ -0,0 +1,4 @@\n"
        "+int\n+new(void)\n+{\n+}\n\n"
        "Property changes on: head/sys/netinet/new.c\n"
        "___________________________________________________________________\n"
        "Added: svn:eol-style\n## -0,0 +1 ##\n+native\n\\ No newline at end of property\n"
    )
    kernel = build(builder, sample_tree, sample_tree.revisions[0], read("D1", text.encode()))
    assert isinstance(kernel, Kernel), kernel
    assert (builder.directory / "source" / "sys" / "netinet" / "new.c").is_file()


def test_a_patch_that_does_not_apply_makes_a_dud(builder: Builder, sample_tree: Tree) -> None:
    patch = read("D5180", diff().encode())
    dud = build(builder, sample_tree, sample_tree.revisions[0], patch)

    assert isinstance(dud, Dud)
    assert (dud.stage, dud.reaction) == (Stage.BUILD, Reaction.SKIP)
    first = sample_tree.revisions[0][:12]
    assert dud.why.startswith(f"the patch {patch.mark} does not apply to {first}: error: ")


def test_nothing_is_written_through_a_link_of_the_tree(
    builder: Builder, sample_tree: Tree, tmp_path: Path
) -> None:
    """Git refuses it, and so the revision is skipped."""
    (tmp_path / "outside").mkdir()
    repository = tmp_path / "linked.git"
    work = tmp_path / "work"
    subprocess.run(["git", "clone", "-q", str(sample_tree.repository), str(work)], check=True)
    (work / "sys" / "out").symlink_to(tmp_path / "outside")
    identity = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org"}
    identity |= {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}
    for command in (["add", "."], ["commit", "-qm", "a link"], ["branch", "-M", "main"]):
        subprocess.run(["git", *command], cwd=work, check=True, env={**os.environ, **identity})
    work.rename(repository)
    head = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(head, cwd=repository, check=True, capture_output=True, text=True)
    text = "--- /dev/null\n+++ b/sys/out/evil\n@@ -0,0 +1 @@\n+evil\n"
    patch = read("D1", text.encode())
    mark = PatchStore(builder.patches).put(patch)
    source = Source(str(repository))
    config = f"{KERNEL_CONFIG}+{mark}"
    dud = KernelBuild(builder, source, done.stdout.strip(), config, lambda _: None).run()

    assert isinstance(dud, Dud)
    assert "is beyond a symbolic link" in dud.why
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_patch_that_the_builder_has_not_is_told(builder: Builder, sample_tree: Tree) -> None:
    source = Source(str(sample_tree.repository))
    config = f"{KERNEL_CONFIG}+D5180-0a1b2c3d"
    with pytest.raises(PatchError, match="there is no patch D5180-0a1b2c3d in "):
        KernelBuild(builder, source, sample_tree.revisions[0], config, lambda _: None)


def test_by_hand(
    running_lab: RunningLab,
    phabricator: _Phabricator,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """`netbisect-lab build --review D5180 --patch FILE`: the review first, then the file."""
    tree = running_lab.tree
    lab = tmp_path / "lab.toml"
    lab.write_text(
        running_lab.files.lab.read_text().replace(
            "[source]", f'[source]\nreview_url = "{phabricator.template}"'
        )
    )
    (tmp_path / "ssh").symlink_to(running_lab.files.ssh_config.parent)
    phabricator.give("/D5180?download=true", faster(tree))
    more = tmp_path / "more.diff"
    more.write_text(git(tree, "diff", tree.revisions[20], tree.revisions[24]))
    command = ["--lab", str(lab), "build", "--builder", "amd64", "--revision", tree.revisions[0]]
    command += ["--config", KERNEL_CONFIG, "--review", "D5180"]
    status = cli.main([*command, "--patch", str(more)])
    kernel = json.loads(capfd.readouterr().out)
    marks = [read("D5180", faster(tree)).mark, read_file(more).mark]

    assert status == 0
    assert kernel["config"] == "+".join([KERNEL_CONFIG, *marks])
    assert cli.main([*command, "--review", "D9"]) == cli.EXIT_USAGE
    assert "netbisect-lab: D9: 127.0.0.1" in capfd.readouterr().err
