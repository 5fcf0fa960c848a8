"""Builds of revisions: kernels and failures."""

from __future__ import annotations

import functools
import multiprocessing.context
import os
import re
import sys
import time
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path

import pytest
from builds import built, failed, script
from lab_fixtures import RunningLab
from programs import captured, runs
from waiting import wait_until

from netbisect.bisect.model.entities import Failure, Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import SampleTree
from netbisect.workers.build import logged_process
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.builder import Builder, Overlay, Source

WITH_FIX = f"{KERNEL_CONFIG}+mend"


def build_in_process(
    builder: Builder, repository: Path, revision: str, output: Path
) -> multiprocessing.context.ForkProcess:
    """Starts a build in another process, which writes its messages and then the result."""

    def build() -> None:
        with output.open("w") as stream:
            say = functools.partial(print, file=stream, flush=True)
            say(KernelBuild(builder, Source(str(repository)), revision, KERNEL_CONFIG, say).run())

    process = multiprocessing.get_context("fork").Process(target=build)
    process.start()
    return process


def make_replacement(tmp_path: Path, text: str) -> tuple[str, ...]:
    return (str(script(tmp_path / "make.sh", text)),)


def test_layout_of_a_revision_is_a_separate_kernel(
    builder: Builder, sample_tree: SampleTree
) -> None:
    """Each layout has the same code at other addresses."""
    revision = sample_tree.revisions[4]
    ordinary = built(builder, sample_tree, revision)
    first, second = (built(builder, sample_tree, f"{revision}#{layout}") for layout in (1, 2))
    again = built(builder, sample_tree, revision)

    assert [one.revision for one in (first, second)] == [f"{revision}#1", f"{revision}#2"]
    assert [one.layout for one in (ordinary, first, second)] == [0, 1, 2]
    assert len({one.identity for one in (ordinary, first, second)}) == 3
    assert {one.version for one in (first, second)} == {ordinary.version}
    assert (again.identity, again.layout) == (ordinary.identity, 0)


def git(tree: SampleTree, *arguments: str) -> str:
    command = ["git", "--git-dir", str(tree.repository), *arguments]
    return captured(command, check=True).stdout


def unbuildable(tree: SampleTree) -> str:
    return next(one for one in tree.revisions if tree.roles.get(one) == "unbuildable")


def overlay(tree: SampleTree, patch: Path, text: str) -> tuple[Overlay]:
    patch.write_text(text)
    one = tree.revisions[0]
    return (Overlay("mend", patch, one, one),)


def test_broken_revision_is_built_with_its_overlay(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """The configuration of the kernel names the overlay, which the next build removes."""
    revision = unbuildable(sample_tree)
    fix = git(sample_tree, "diff", revision, f"{revision}^")
    overlays = overlay(sample_tree, tmp_path / "mend.patch", fix)
    messages: list[str] = []
    kernel = built(builder, sample_tree, revision, WITH_FIX, overlays, say=messages.append)

    assert (kernel.revision, kernel.config) == (revision, WITH_FIX)
    assert f"applying mend to {revision[:12]}" in messages
    failed(builder, sample_tree, revision)
    failure = failed(builder, sample_tree, sample_tree.revisions[0], WITH_FIX, overlays)
    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    assert failure.why.startswith("the overlay mend does not apply: error: ")


def test_version_with_an_overlay_may_be_dirty(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """newvers.sh of FreeBSD appends `-dirty` to the version of a changed tree."""
    revision = sample_tree.revisions[4]
    version = "sys/conf/newvers.sh"
    old = git(sample_tree, "show", f"{revision}:{version}")
    new = old.replace('"n${count}-${hash}"', '"n${count}-${hash}-dirty"')
    sides = [text.splitlines(keepends=True) for text in (old, new)]
    patch = "".join(unified_diff(*sides, f"a/{version}", f"b/{version}"))
    overlays = overlay(sample_tree, tmp_path / "mend.patch", patch)
    kernel = built(builder, sample_tree, revision, WITH_FIX, overlays)

    assert kernel.version == f"n5-{revision[:12]}-dirty"


def test_a_compile_error_skips_the_revision_with_the_first_error(running_lab: RunningLab) -> None:
    revision = unbuildable(running_lab.tree)
    failure = running_lab.build(running_lab.tree.revisions.index(revision))
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    assert failure.why == "sys/net/route.c:3:10: fatal error: 'net/route_nhop.h' file not found"
    assert "1 error generated." in failure.log
    assert failure.revision == revision


def test_a_wrong_checkout_is_detected(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """The replacement of make builds the parent instead. A missing make is a fault of the host."""
    revision = sample_tree.revisions[4]
    text = 'git checkout -q HEAD~1; make "$@"; status=$?; git checkout -q -; exit $status'
    wrong = replace(builder, make=make_replacement(tmp_path, text))
    failure = failed(wrong, sample_tree, revision)
    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.RETRY)
    parent = sample_tree.revisions[3][:12]
    assert failure.why == (
        f"the kernel that was built says it is n4-{parent}, not {revision[:12]}: "
        "a stale object directory or a wrong checkout"
    )
    failure = failed(replace(builder, make=("bmake-of-nowhere",)), sample_tree, revision)
    assert failure.reaction is Reaction.INFRA
    assert failure.why == "builder amd64: bmake-of-nowhere cannot be run: No such file or directory"


def test_the_log_of_an_endless_output_is_limited(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the beginning and the end of the output."""
    monkeypatch.setattr(logged_process, "MOST_BYTES", 100_000)
    text = "echo the beginning; yes | head -c 5000000; echo 'a.c:1: error: no such thing'; exit 1"
    builder = replace(builder, make=make_replacement(tmp_path, text))
    failure = failed(builder, sample_tree, sample_tree.revisions[4])

    assert failure.why.endswith("a.c:1: error: no such thing")
    assert failure.log.endswith("y\na.c:1: error: no such thing")
    [log] = (builder.directory / "logs").iterdir()
    output = log.read_text()
    assert "\nthe beginning\ny\n" in output
    commands = output.count("\n$ ") + 1
    floods = re.findall(r"\n\[netbisect: ([0-9]+) more bytes left out\]\n", output)
    assert floods
    assert all(4_899_000 < int(omitted) < 5_000_000 for omitted in floods)
    assert len(output) < commands * 1000 + len(floods) * 100_100


def test_the_oldest_logs_are_removed_first(
    builder: Builder, sample_tree: SampleTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the log is stored with the kernel."""
    monkeypatch.setattr(logged_process, "KEPT_BYTES", 10_000)
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    logs = builder.directory / "logs"
    logs.mkdir(parents=True)
    for name, age, size in (("old", 300, 4000), ("large", 200, 9000), ("new", 100, 4000)):
        path = logs / f"{name}.log"
        path.write_bytes(bytes(size))
        os.utime(path, (time.time() - age,) * 2)
    revision = sample_tree.revisions[4]
    kernel = built(builder, sample_tree, revision)

    assert {one.name for one in logs.iterdir()} == {
        f"{revision[:12]}-{KERNEL_CONFIG}.log",
        "new.log",
    }
    log = (builder.kernels / kernel.key / "build.log").read_text()
    assert "KODIR=/boot/kernel NO_ROOT=yes\n" in log


@pytest.mark.long
def test_a_build_at_its_time_limit_is_stopped_with_all_processes(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    make = make_replacement(tmp_path, f"'{sys.executable}' {job(tmp_path)} & wait")
    builder = replace(builder, make=make, build_timeout=3)
    failure = failed(builder, sample_tree, sample_tree.revisions[4])
    assert failure.reaction is Reaction.RETRY
    assert failure.why == "the build had not ended after 3 s"
    assert failure.log.endswith("netbisect: no end in sight, stopped")
    process = int((tmp_path / "pid").read_text())
    wait_until(lambda: not runs(process))


def job(folder: Path) -> Path:
    """A program that runs in its own process group, like jobs of bmake."""
    program = folder / "job.py"
    program.write_text(
        "import os, time\nos.setpgid(0, 0)\n"
        f"with open({str(folder / 'pid')!r}, 'w') as file:\n    file.write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    return program
