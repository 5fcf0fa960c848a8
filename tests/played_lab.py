"""A service whose conductor is played by the test: testbeds answer at once with what they are told.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netbisect.bisect import plan
from netbisect.bisect.model import Boot, Conditions, Finding, Kernel, Prices, Sample, Visit
from netbisect.bisect.subject import commit_of
from netbisect.steps import cli
from netbisect.steps.casework import Casework
from netbisect.steps.kernels import as_ordered
from netbisect.steps.memory import ledger_of
from netbisect.steps.settings import load
from netbisect.store.records import Asked, DecisionStage, Outcome

TESTBED = """
[[testbeds]]
name = "{name}"
arch = "amd64"
kernel_config = "GENERIC"
line_rate_pps = 14_880_000
scenarios = ["inet4-forwarding", "inet4-pf-stateful", "inet4-ipfw-stateful", "inet6-forwarding"]
dut = {{ address = "d", ingress = {{ interface = "a" }}, egress = {{ interface = "b" }} }}
generator = {{ address = "g", port = {{ interface = "a" }} }}
receiver = {{ address = "g", port = {{ interface = "b" }} }}
"""
LAB = """
[source]
repository = "{tree}"
review_url = "{reviews}"
[[builders]]
name = "builder"
arch = "amd64"
directory = "build"
"""
SETTINGS = """
branches = {branches}
[mail]
to = ["people@lab.invalid"]
sender = "netbisect@lab.invalid"
"""
DIFF = "--- sys/{name}.c\t(revision 1)\n+++ sys/{name}.c\t(working copy)\n@@ -1 +1 @@\n-a\n+b\n"


@dataclass
class PlayedHouse:
    """A service whose testbeds answer with what was measured; the conductor is played."""

    folder: Path
    tapes: dict[tuple[str, str, str], Iterator[float]] = field(default_factory=dict)
    """By testbed, image and scenario: the boots to come."""
    images: dict[str, str] = field(default_factory=dict)
    """What was called so then, by the name of the patch or the subject of the commit."""
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.settings, self.lab = load(self.folder / "netbisect.toml")
        self.ledger = ledger_of(self.settings)
        self.casework = Casework(self.settings, self.lab)

    def request(self, *arguments: str) -> Result:
        done = CliRunner().invoke(
            cli.main, ["request", *arguments, "--folder", str(self.folder), "--who", "ann"]
        )
        assert done.exit_code == 0, done.output
        return done

    def refused(self, *arguments: str) -> str:
        done = CliRunner().invoke(
            cli.main, ["request", *arguments, "--folder", str(self.folder), "--who", "ann"]
        )
        assert done.exit_code == 3, done.output
        return done.output

    def show(self, number: int) -> dict[str, Any]:
        done = CliRunner().invoke(
            cli.main, ["request", "show", str(number), "--json", "--folder", str(self.folder)]
        )
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def readme(self, number: int, part: str) -> str:
        place = self.settings.reports / f"request-{number}" / part / "README.md"
        return place.read_text()

    def play(self, testbed: str, scenario: str, image: str, rates: Iterable[float]) -> None:
        """What this testbed says of an image from now on."""
        self.tapes[testbed, image, scenario] = iter(rates)

    def run(self) -> None:
        """Does as the conductor does, until nothing is asked any more."""
        while questions := self.ledger.open_questions():
            for asked in questions:
                self._advance(asked)

    def measure(self, asked: Asked) -> None:
        """Answers a question, and nothing follows from that."""
        while (answer := self._move(asked)) is None:
            pass
        with self.ledger.closing(asked, answer):
            pass

    def _advance(self, asked: Asked) -> None:
        answer = self._move(asked)
        if answer is not None:
            self.casework.conclude(self.ledger, asked, answer)

    def _move(self, asked: Asked) -> Finding | None:
        """Builds or boots what is wanted next; or the answer."""
        evidence = self.casework.kernels.evidence(self.ledger, asked)
        move = plan.next_move(asked.question, evidence, Prices())
        if not isinstance(move, Visit):
            return move
        testbed = self.lab.testbed(asked.question.testbed)
        config = self.casework.kernels.config_of(testbed, move.revision)
        built = move.revision in evidence.kernels
        stage = DecisionStage.TRIAL if built else DecisionStage.KERNEL
        decision = self.ledger.intend(
            asked.id,
            stage,
            move.revision,
            testbed.name,
            config=config,
            arch="amd64",
            why=move.why,
        )
        if built:
            self._boot(asked, decision.id, move.revision, evidence.kernels[move.revision].key)
        else:
            self._build(decision.id, move.revision, config)
        self.ledger.finish(decision.id, Outcome.OK)
        return None

    def _build(self, decision: int, revision: str, config: str) -> None:
        """As a worker tells it, which knows commits, and patches by the configuration."""
        name = f"{revision} {config}"
        commit = commit_of(revision)
        kernel = Kernel(
            commit, config, "amd64", f"image {name}", f"key {name}", commit, 1, 1.0, 600.0
        )
        self.ledger.record(as_ordered(self.ledger, kernel, decision), decision)

    def _boot(self, asked: Asked, decision: int, revision: str, key: str) -> None:
        number = next(self.count)
        testbed, now = asked.question.testbed, 1e9 + 300.0 * number
        boot = Boot(f"boot {number}", testbed, key, commit_of(revision), now, 180.0)
        self.ledger.record(as_ordered(self.ledger, boot, decision), decision)
        for scenario in asked.question.scenarios:
            rate = next(self.tapes[testbed, self._image(revision), scenario])
            self.ledger.record(Conditions("same", testbed, scenario, {}), decision)
            self.ledger.record(
                Sample(
                    f"{scenario} {number}", boot.id, testbed, scenario, rate, 14.88e6, (), (), (),
                    "same", now + 200, 30.0,
                ),
                decision,
            )  # fmt: skip

    def _image(self, revision: str) -> str:
        """What was called so then."""
        commit = self.casework.history.commit(commit_of(revision))
        mark = revision.removeprefix(commit.revision)
        return self.images.get(f"{commit.subject}{mark}", commit.subject)


@pytest.fixture
def reviews() -> Iterator[str]:
    """A review server that has every review."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = DIFF.format(name=self.path.strip("/")).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{{review}}"
        server.shutdown()


def git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def build(folder: Path, reviews: str, commits: Mapping[str, Sequence[int]]) -> PlayedHouse:
    """A service's folder.

    Args:
        folder: Empty.
        reviews: Address of a review server.
        commits: By branch, `main` first: numbers of Subversion, which are their subjects.
    """
    tree = folder / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet", "--initial-branch=main")
    for branch, numbers in commits.items():
        if branch != "main":
            git(tree, "checkout", "--quiet", "--orphan", branch)
        for number in numbers:
            path = "head" if branch == "main" else branch
            text = f"{number}\n\nsvn path=/{path}/; revision={number}"
            git(tree, "commit", "--quiet", "--allow-empty", "--message", text)
    names = ("l5630", "c2558", "e5-2650")
    beds = "".join(TESTBED.format(name=name) for name in names)
    (folder / "lab.toml").write_text(LAB.format(tree=tree, reviews=reviews) + beds)
    branches = json.dumps([*commits])
    (folder / "netbisect.toml").write_text(SETTINGS.format(branches=branches))
    return PlayedHouse(folder)
