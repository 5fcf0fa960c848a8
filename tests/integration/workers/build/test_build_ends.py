"""Two builds in one directory, and builds that end by a signal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest
from builds import built, failed, script
from programs import runs
from waiting import wait_until

from netbisect.bisect.model.entities import Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import SampleTree
from netbisect.workers.config.builder import Builder
from tests.integration.workers.build.test_build import build_in_process, job, make_replacement


@contextlib.contextmanager
def building(
    builder: Builder, tree: SampleTree, revision: str, output: Path
) -> Iterator[ForkProcess]:
    process = build_in_process(builder, tree.repository, revision, output)
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        process.join()


def wait_for(path: Path, text: str, process: ForkProcess) -> None:
    def has_text() -> bool:
        assert process.is_alive()
        return path.exists() and text in path.read_text()

    wait_until(has_text)


def test_second_build_waits_for_the_first(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """A busy builder is not a fault of the revision."""
    text = (
        f'echo "$@" >> {tmp_path}/called\n'
        f'case "$*" in *buildkernel*)\n'
        f"while ! [ -e {tmp_path}/open ] && kill -0 $PPID; do sleep 0.05; done\n"
        'esac\nexec make "$@"'
    )
    gated = replace(builder, make=make_replacement(tmp_path, text))
    first, second = sample_tree.revisions[4:6]
    with building(gated, sample_tree, first, tmp_path / "first") as one:
        wait_for(tmp_path / "called", "buildkernel", one)
        failure = failed(replace(gated, build_timeout=1), sample_tree, second)
        with building(gated, sample_tree, second, tmp_path / "second") as two:
            wait_for(tmp_path / "second", "waiting", two)
            (tmp_path / "open").touch()
    busy = f"process {one.pid} has been building {first[:12]}-"
    assert failure.reaction is Reaction.INFRA
    assert failure.why.startswith(f"builder amd64: {busy}")
    assert failure.why.endswith("; it had not ended after 1 s")
    waiting, *_ = (tmp_path / "second").read_text().splitlines()
    assert re.fullmatch(
        rf"{busy}{KERNEL_CONFIG} since "
        rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC in {builder.directory}: waiting for its end",
        waiting,
    )
    for name, revision in (("first", first), ("second", second)):
        assert f"Kernel(revision='{revision}'" in (tmp_path / name).read_text()


def test_processes_of_a_killed_build_end_before_the_next_build(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """Two makes in one object directory would damage it."""
    pid = tmp_path / "pid"
    slow = replace(
        builder, make=make_replacement(tmp_path, f"'{sys.executable}' {job(tmp_path)} & wait")
    )
    with building(slow, sample_tree, sample_tree.revisions[4], tmp_path / "output") as process:
        try:
            wait_until(lambda: pid.exists() and pid.read_text().strip())
        finally:
            process.kill()
    left = int(pid.read_text())
    os.kill(left, 0)
    built(builder, sample_tree, sample_tree.revisions[5])
    wait_until(lambda: not runs(left))


def test_a_killed_make_is_no_failure_of_the_revision(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    """The kernel kills make or one of its jobs when memory runs out."""
    for target, number in (
        ("kernel-toolchain", signal.SIGKILL),
        ("buildkernel", signal.SIGTERM),
        ("installkernel", signal.SIGSEGV),
    ):
        text = f'case "$*" in *{target}*) kill -{int(number)} $$; esac; exec make "$@"'
        broken = replace(builder, make=make_replacement(tmp_path, text))
        failure = failed(broken, sample_tree, sample_tree.revisions[4])
        assert (failure.fault, failure.reaction) == ("builder", Reaction.INFRA)
        assert f"make.sh was ended by signal {int(number)} (" in failure.why
    for number in (signal.SIGKILL, signal.SIGTERM):
        python = script(tmp_path / "python.sh", f"kill -{int(number)} $$")
        broken = replace(builder, options=(f"PYTHON={python}",))
        failure = failed(broken, sample_tree, sample_tree.revisions[4])
        assert (failure.fault, failure.reaction) == ("builder", Reaction.INFRA)
    built(builder, sample_tree, sample_tree.revisions[4])


def test_a_killed_git_is_no_failure_of_the_revision(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    git = shutil.which("git")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    needs = {"pfctl": {sample_tree.revisions[0]}}
    for what in ("clone", "fetch", "cat-file", "checkout", "ls-tree", "show"):
        script(programs / "git", f'case " $* " in *" {what} "*) kill -9 $$; esac\nexec {git} "$@"')
        revision = "f" * 40 if what == "fetch" else sample_tree.revisions[4]
        failure = failed(builder, sample_tree, revision, needs=needs)
        assert (failure.fault, failure.reaction) == ("builder", Reaction.INFRA), what
        assert failure.why == "builder amd64: git was ended by signal 9 (Killed)"


def test_a_folder_that_cannot_be_written_is_no_failure_of_the_revision(
    builder: Builder, sample_tree: SampleTree, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    closed = replace(builder, directory=tmp_path / "file" / "builder")
    failure = failed(closed, sample_tree, sample_tree.revisions[4])
    assert (failure.fault, failure.reaction) == ("builder", Reaction.INFRA)
    assert failure.why == f"builder amd64: {closed.directory}: Not a directory"


def test_git_does_not_gc_in_the_background(builder: Builder, sample_tree: SampleTree) -> None:
    """It would keep the lock of the builder. The locks of a killed git are removed."""
    built(builder, sample_tree, sample_tree.revisions[4])
    git = builder.directory / "source" / ".git"
    for name in ("a", "b"):  # git counts the objects in this folder
        (git / "objects" / "17").mkdir(exist_ok=True)
        (git / "objects" / "17" / (38 * name)).touch()
    with (git / "config").open("a") as config:
        config.write("[gc]\n\tauto = 1\n")
    (git / "hooks").mkdir(exist_ok=True)
    script(git / "hooks" / "pre-auto-gc", "git config gc.autoDetach >detach; exit 1")
    lock = git / "refs" / "remotes" / "up" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    failure = failed(builder, sample_tree, "f" * 40)
    assert (failure.stage, failure.reaction) == (Stage.CHECKOUT, Reaction.RETRY)
    assert failure.why == f"revision {'f' * 12} is on no branch of {sample_tree.repository}"
    assert (git.parent / "detach").read_text() == "false\n"
