"""The build step on a real FreeBSD source tree.

    NETBISECT_FREEBSD_SRC=/usr/src python -m pytest -s tests/system/test_freebsd_source.py

The tree is a git repository, whose HEAD is built, or a plain folder; it is not changed. On systems
other than FreeBSD, clang, ld.lld and the other requirements of make.py must be installed. The test
takes many minutes and temporarily needs several gigabytes in the temporary folder.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from programs import IDENTITY, captured, git

pytestmark = pytest.mark.freebsd_source

SOURCE = os.environ.get("NETBISECT_FREEBSD_SRC", "")
CHANGED = "sys/netinet/ip_fastfwd.c"
FOLDERS = {"first": "first", "second": "a-folder-with-a-longer-name"}
LINE = "ip->ip_ttl -= IPTTLDEC;"
CONFIG = """\
include MINIMAL
ident ROUTER
device virtio
device virtio_pci
device vtnet
device virtio_blk
device netmap
device iflib
device em
device miibus
device hwpmc
"""
LAB = """\
[source]
repository = "{repository}"
kernel_configs = "kernel-configs"

[[builders]]
name = "first"
arch = "amd64"
directory = "first"
jobs = {jobs}
{cross}

[[builders]]
name = "second"
arch = "amd64"
directory = "a-folder-with-a-longer-name"
jobs = {jobs}
{cross}

[[testbeds]]
name = "one"
arch = "amd64"
kernel_config = "ROUTER"
line_rate_pps = 1_488_095
drivers = ["em"]
scenarios = ["inet4-forwarding", "inet4-pf-stateful", "inet4-ipfw-stateful"]
dut = {{ address = "a", ingress = {{ interface = "em0" }}, egress = {{ interface = "em1" }} }}
generator = {{ address = "b", port = {{ interface = "em0" }} }}
receiver = {{ address = "c", port = {{ interface = "em0" }} }}
"""


@dataclass
class Built:
    """The result of `netbisect-lab build`."""

    status: int
    fact: dict[str, Any]
    stages: dict[str, float]
    """Duration in seconds of each stage by its message on standard error."""
    compiled: int
    """Number of compiled objects."""

    def reached(self, word: str) -> bool:
        return any(stage.startswith(word) for stage in self.stages)


@dataclass
class Checkout:
    folder: Path
    repository: Path

    def git(self, *arguments: str, feed: str | None = None) -> str:
        index = {**os.environ, "GIT_INDEX_FILE": str(self.folder / "index")}
        return git(self.repository, *arguments, env=index, input=feed)

    def commit(self, parent: str, old: str, new: str) -> str:
        """Creates a commit that replaces a text in one file; returns its hash."""
        text = self.git("show", f"{parent}:{CHANGED}") + "\n"
        assert text.count(old) >= 1, f"{CHANGED} of this tree has no {old!r}"
        blob = self.git("hash-object", "-w", "--stdin", feed=text.replace(old, new, 1))
        self.git("read-tree", parent)
        self.git("update-index", "--cacheinfo", f"100644,{blob},{CHANGED}")
        tree = self.git("write-tree")
        created = self.git("commit-tree", tree, "-p", parent, "-m", f"{new}\n")
        self.git("branch", "-f", f"story-{created[:12]}", created)
        return created

    def build(self, revision: str, builder: str = "first") -> Built:
        code = "import sys; from netbisect.workers.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "--lab", str(self.folder / "lab.toml"), "build"]
        command += ["--builder", builder, "--revision", revision, "--config", "ROUTER"]
        lines: list[tuple[float, str]] = []
        began = time.time()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            lines.extend((time.monotonic(), line.strip()) for line in process.stderr)
            fact = json.loads(process.stdout.read())
        lines.append((time.monotonic(), ""))
        stages = {text: lines[at + 1][0] - when for at, (when, text) in enumerate(lines[:-1])}
        objects = (self.folder / FOLDERS[builder] / "obj").rglob("sys/ROUTER/**/*.o")
        compiled = [path for path in objects if path.stat().st_mtime >= began]
        built = Built(process.returncode, fact, stages, len(compiled))
        print(f"\n{builder} {revision[:12]}: exit status {built.status}")
        for text, seconds in stages.items():
            print(f"  {seconds:7.1f} s  {text}")
        print(f"  {built.compiled} objects compiled")
        print(f"  {fact.get('identity') or fact.get('why')}")
        return built


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Checkout]:
    if not SOURCE:
        pytest.skip("NETBISECT_FREEBSD_SRC is not set")
    source = Path(SOURCE).resolve()
    cross = ""
    if platform.system() != "FreeBSD":
        linker = shutil.which("ld.lld")
        if linker is None:
            pytest.skip("ld.lld is not installed")
        cross = f'cross_bindir = "{Path(linker).resolve().parent}"'
    folder = tmp_path / "lab"
    repository = folder / "src.git"
    folder.mkdir()
    if captured(["git", "-C", source, "rev-parse", "HEAD"]).returncode == 0:
        clone = ["git", "clone", "-q", "--bare", "--shared", str(source), str(repository)]
        subprocess.run(clone, check=True)
    else:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
        work = ["git", *IDENTITY, "--git-dir", str(repository), "--work-tree", str(source)]
        subprocess.run([*work, "add", "--all", "--force", "."], check=True)
        subprocess.run([*work, "commit", "-q", "-m", "A tree"], check=True)
    configs = folder / "kernel-configs"
    configs.mkdir()
    (configs / "ROUTER").write_text(CONFIG)
    lab = LAB.format(repository=repository, jobs=os.cpu_count() or 1, cross=cross)
    (folder / "lab.toml").write_text(lab)
    yield Checkout(folder, repository)
    shutil.rmtree(folder)


def test_freebsd_source_is_built_incrementally(place: Checkout) -> None:
    """Only a changed line changes the identity; builds are incremental, even after a failure."""
    base = place.git("rev-parse", "HEAD")
    comment = place.commit(base, "Copyright (c)", "Copyright (C)")
    line = place.commit(comment, LINE, "ip->ip_ttl -= IPTTLDEC + 1;")
    broken = place.commit(line, "ip->ip_ttl -= IPTTLDEC + 1;", "ip->ip_tll -= IPTTLDEC + 1;")
    fixed = place.commit(broken, "ip->ip_tll -= IPTTLDEC + 1;", LINE)

    first = place.build(base)
    assert first.status == 0
    again = place.build(base)
    assert again.fact["identity"] == first.fact["identity"]
    assert again.fact["key"] == first.fact["key"]

    commented = place.build(comment)
    assert commented.fact["identity"] == first.fact["identity"]
    assert commented.fact["version"] != first.fact["version"]

    done = place.build(line)
    assert done.status == 0
    assert done.fact["identity"] != first.fact["identity"]
    for one in (again, commented, done):
        assert not one.reached("kernel-toolchain")
        assert one.compiled < first.compiled / 20

    failed = place.build(broken)
    assert failed.status == 3
    assert (failed.fact["stage"], failed.fact["reaction"]) == ("build", "skip")
    assert "error: no member named 'ip_tll' in 'struct ip'" in failed.fact["why"]
    assert CHANGED in failed.fact["why"]

    assert place.build(fixed).fact["identity"] == first.fact["identity"]
    assert place.build(base, "second").fact["identity"] == first.fact["identity"]
