"""Patches of reviews: fetching, checking and applying."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import programs
import pytest
from builds import built, diff, failed
from lab_fixtures import LabCommand, RunningLab

from netbisect.bisect.model.entities import Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import SampleTree
from netbisect.workers.build import phabricator as review
from netbisect.workers.build.patches import Patch, PatchError, PatchStore, read, read_file
from netbisect.workers.cli import output
from netbisect.workers.config.builder import Builder
from tests.integration.workers.build.test_build import git


class _Phabricator:
    """A review server with responses by path and a record of the requests."""

    def __init__(self) -> None:
        self.responses: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.record: list[str] = []
        self.template = ""

    def add(self, path: str, data: bytes) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/plain")
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)

        self.responses[path] = answer


@pytest.fixture
def phabricator() -> Iterator[_Phabricator]:
    server = _Phabricator()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.record.append(self.path)
            answer = server.responses.get(self.path)
            if answer is None:
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, *_: object) -> None:
            """Disables logging."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.template = f"http://127.0.0.1:{listening.server_port}/{{review}}?download=true"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        listening.shutdown()
        thread.join()


SECRET = "the-secret-of-another-service"


def _redirect(place: str, body: bytes = b"") -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302, SECRET)
        handler.send_header("Location", place)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_the_diff_of_a_review_is_fetched(phabricator: _Phabricator) -> None:
    """Redirects within the server are followed, as Phabricator needs."""
    phabricator.responses["/D5180?download=true"] = _redirect("/file/data/x/D5180.diff")
    phabricator.add("/file/data/x/D5180.diff", diff().encode())

    assert review.fetch("D5180", phabricator.template) == read("D5180", diff().encode())
    assert phabricator.record == ["/D5180?download=true", "/file/data/x/D5180.diff"]


def test_a_redirect_to_another_server_is_not_followed(phabricator: _Phabricator) -> None:
    """The error quotes neither the target nor the response."""
    port = phabricator.template.split(":")[2].split("/")[0]
    for place in (
        f"http://localhost:{port}/{SECRET}",
        f"http://127.0.0.1:9/{SECRET}",
        f"http://127.0.0.1/{SECRET}",
        f"https://127.0.0.1:{port}/{SECRET}",
        f"//127.0.0.2:{port}/{SECRET}",
        f"ftp://127.0.0.1:{port}/{SECRET}",
        f"file:///etc/{SECRET}",
        f"http://127.0.0.1:{port}@127.0.0.2/{SECRET}",
        f"http://[::1/{SECRET}",
        f"http://127.0.0.1:x/{SECRET}",
    ):
        phabricator.responses["/D1?download=true"] = _redirect(place)
        with pytest.raises(PatchError, match=r"^D1: 127\.0\.0\.1:") as caught:
            review.fetch("D1", phabricator.template)
        assert SECRET not in str(caught.value)
    assert [one for one in phabricator.record if SECRET in one] == []


def test_errors_do_not_quote_the_response(phabricator: _Phabricator) -> None:
    """Users must not read through errors what only the master can access."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(answers.pop().encode())
        handler.close_connection = True

    phabricator.responses["/D1?download=true"] = respond
    answers = [
        f"{SECRET}\r\n\r\n",
        f"HTTP/1.1 {SECRET}\r\n\r\n",
        f"HTTP/1.1 500 {SECRET}\r\n\r\n{SECRET}",
        f"HTTP/1.1 200 OK\r\n\r\n{SECRET}\n",
        f"HTTP/1.1 200 OK\r\n\r\n--- /etc/{SECRET}\n+++ /etc/{SECRET}\n",
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Length: {SECRET}\r\n\r\n{SECRET}",
    ]
    while answers:
        with pytest.raises(PatchError, match=r"^D1: ") as caught:
            review.fetch("D1", phabricator.template)
        assert SECRET not in str(caught.value)


def test_invalid_review_names_are_not_requested(phabricator: _Phabricator) -> None:
    for name in ("5180", "D0", "D", "D5180/../D1", "d5180", "D5180\n", "D1 2", ""):
        with pytest.raises(PatchError, match="expected the name of a review, such as D5180"):
            review.fetch(name, phabricator.template)
    assert phabricator.record == []


def test_endless_or_truncated_responses_are_reported(phabricator: _Phabricator) -> None:
    """A truncated diff may still be a valid diff; bodies of redirects are not read."""

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(diff().encode())
        try:
            while True:
                handler.wfile.write(b"x" * (1 << 20))
        except OSError:
            handler.close_connection = True

    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(diff().encode())

    for answer, message in (
        (endless, "D1: expected a diff of at most 10 MiB"),
        (half, f"sent {len(diff())} bytes and not the rest"),
        (_redirect("/D1?download=true", b"x" * 1000), r"^D1: .*:\d+ redirects more than 4 times"),
    ):
        phabricator.responses["/D1?download=true"] = answer
        with pytest.raises(PatchError, match=message):
            review.fetch("D1", phabricator.template)


def test_a_slow_response_times_out(
    phabricator: _Phabricator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sends nothing, or a few bytes at a time."""
    ended = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler, byte: bytes = b"\n") -> None:
        handler.send_response(200)
        handler.end_headers() if byte == b"\n" else handler.flush_headers()
        try:
            while not ended.wait(0.02):
                handler.wfile.write(byte)
        except OSError:
            handler.close_connection = True

    phabricator.responses["/D1?download=true"] = trickle
    phabricator.responses["/D2?download=true"] = lambda handler: trickle(handler, b"x")
    phabricator.responses["/D3?download=true"] = lambda _: ended.wait(300) and None
    monkeypatch.setattr(review, "_LONGEST", 0.2)
    try:
        for name in ("D1", "D2"):
            with pytest.raises(PatchError, match=f"{name}: .* not sent all of it after 0.2 s"):
                review.fetch(name, phabricator.template)
        monkeypatch.setattr(review, "_LONGEST", 120)
        monkeypatch.setattr(review, "_SILENCE", 0.2)
        with pytest.raises(PatchError, match=r"D3: .* cannot be reached: timed out"):
            review.fetch("D3", phabricator.template)
    finally:
        ended.set()


def faster(tree: SampleTree, *options: str) -> bytes:
    """The diff from the first revision to revision 20."""
    return git(tree, "diff", *options, tree.revisions[0], tree.revisions[20]).encode()


def with_patch(builder: Builder, patch: Patch) -> str:
    return f"{KERNEL_CONFIG}+{PatchStore(builder.patches).put(patch)}"


def test_revision_with_a_patch_has_a_separate_configuration(
    builder: Builder, sample_tree: SampleTree
) -> None:
    """The patched kernel equals that of the later revision. The diff has no prefixes."""
    patch = read("D5180", faster(sample_tree, "--no-prefix"))
    first, later = sample_tree.revisions[0], sample_tree.revisions[20]
    patched = built(builder, sample_tree, first, with_patch(builder, patch))
    plain = built(builder, sample_tree, first)
    expected = built(builder, sample_tree, later)

    assert (patched.revision, patched.config) == (first, f"{KERNEL_CONFIG}+{patch.mark}")
    assert patched.identity == expected.identity != plain.identity
    patch = read("D5180", diff().encode())
    failure = failed(builder, sample_tree, first, with_patch(builder, patch))
    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    message = f"the patch {patch.mark} does not apply to {first[:12]}: error: "
    assert failure.why.startswith(message)


def test_links_of_the_tree_are_not_followed(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """Git rejects the patch, so that the revision is skipped."""
    (tmp_path / "outside").mkdir()
    repository = tmp_path / "linked.git"
    work = tmp_path / "work"
    subprocess.run(["git", "clone", "-q", str(sample_tree.repository), str(work)], check=True)
    (work / "sys" / "out").symlink_to(tmp_path / "outside")
    for command in (["add", "."], ["commit", "-qm", "a link"], ["branch", "-M", "main"]):
        programs.git(work, *command)
    work.rename(repository)
    head = programs.git(repository, "rev-parse", "HEAD")
    text = "--- /dev/null\n+++ b/sys/out/evil\n@@ -0,0 +1 @@\n+evil\n"
    failure = failed(builder, repository, head, with_patch(builder, read("D1", text.encode())))

    assert "is beyond a symbolic link" in failure.why
    assert list((tmp_path / "outside").iterdir()) == []


def test_build_command_applies_review_and_patch(
    running_lab: RunningLab, phabricator: _Phabricator, tmp_path: Path, lab_command: LabCommand
) -> None:
    """`netbisect-lab build --review D5180 --patch FILE` applies the review before the file."""
    tree = running_lab.tree
    lab = tmp_path / "lab.toml"
    lab.write_text(
        running_lab.files.lab.read_text().replace(
            "[source]", f'[source]\nreview_url = "{phabricator.template}"'
        )
    )
    (tmp_path / "ssh").symlink_to(running_lab.files.ssh_config.parent)
    phabricator.add("/D5180?download=true", faster(tree))
    more = tmp_path / "more.diff"
    more.write_text(git(tree, "diff", tree.revisions[20], tree.revisions[24]))
    command = ["build", "--builder", "amd64", "--revision", tree.revisions[0]]
    command += ["--config", KERNEL_CONFIG, "--review", "D5180"]
    status, fact, _ = lab_command(lab, *command, "--patch", str(more))
    kernel = json.loads(fact)
    marks = [read("D5180", faster(tree)).mark, read_file(more).mark]

    assert status == 0
    assert kernel["config"] == "+".join([KERNEL_CONFIG, *marks])
    status, _, errors = lab_command(lab, *command, "--review", "D9")
    assert status == output.EXIT_USAGE
    assert "netbisect-lab: D9: 127.0.0.1" in errors
