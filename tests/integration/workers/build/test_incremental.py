"""Incremental builds: reuse of tools, objects and configuration."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builds import OPTIONS, script
from programs import git
from waiting import wait_until

from netbisect.bisect.model.entities import Failure, Kernel, Reaction, Stage
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.demo.tree.create import SampleTree
from netbisect.workers.build import build_host
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.config.builder import Builder, Source
from tests.integration.workers.build.test_build import build_in_process

FASTFWD = "sys/netinet/ip_fastfwd.c"
TOOL = "tools/build/kernel.py"


class RecordedBuilds:
    """A builder that records its calls of make, and a repository to add commits to."""

    def __init__(self, folder: Path, tree: SampleTree) -> None:
        self.folder = folder
        self.repository = folder / "tree.git"
        clone = ["git", "clone", "-q", "--bare", str(tree.repository), str(self.repository)]
        subprocess.run(clone, check=True)
        self.first = tree.revisions[4]
        self.next = tree.revisions[5]
        make = self.before_make("")
        self.builder = Builder(
            "amd64", "amd64", folder / "builder", make=(str(make),), options=OPTIONS
        )
        self.source = Source(str(self.repository))

    def before_make(self, text: str) -> Path:
        """Replaces make by a script that precedes it."""
        calls = self.folder / "calls"
        return script(self.folder / "make.sh", f'echo "$@" >> {calls}\n{text}\nexec make "$@"')

    def git(self, *arguments: str, feed: str | None = None) -> str:
        index = {**os.environ, "GIT_INDEX_FILE": str(self.folder / "index")}
        return git(self.repository, *arguments, env=index, input=feed)

    def commit(self, path: str, change: Callable[[str], str], parent: str = "") -> str:
        """Creates a commit on top of `parent`, by default the first revision."""
        parent = parent or self.first
        text = self.git("show", f"{parent}:{path}") + "\n"
        blob = self.git("hash-object", "-w", "--stdin", feed=change(text))
        self.git("read-tree", parent)
        self.git("update-index", "--cacheinfo", f"100644,{blob},{path}")
        created = self.git("commit-tree", self.git("write-tree"), "-p", parent, "-m", "A change")
        self.git("branch", f"b-{created}", created)
        return created

    def build(self, revision: str = "", config: str = KERNEL_CONFIG) -> Kernel | Failure:
        (self.folder / "calls").write_text("")
        revision = revision or self.first
        return KernelBuild(self.builder, self.source, revision, config, lambda _: None).run()

    def kernel(self, revision: str = "", config: str = KERNEL_CONFIG) -> Kernel:
        made = self.build(revision, config)
        assert isinstance(made, Kernel), made
        return made

    @property
    def targets(self) -> list[str]:
        wanted = ("kernel-toolchain", "buildkernel", "installkernel")
        words = (self.folder / "calls").read_text().split()
        return [word for word in words if word in wanted]

    def arguments(self, target: str) -> list[str]:
        calls = (self.folder / "calls").read_text().splitlines()
        return [call for call in calls if target in call.split()][-1].split()

    def compiled(self, revision: str = "", config: str = KERNEL_CONFIG) -> list[str]:
        log = self.builder.directory / "logs" / f"{(revision or self.first)[:12]}-{config}.log"
        return [line[6:] for line in log.read_text().splitlines() if line.startswith("cc -c ")]


@pytest.fixture
def builds(tmp_path: Path, sample_tree: SampleTree) -> RecordedBuilds:
    return RecordedBuilds(tmp_path, sample_tree)


def kill_in(builds: RecordedBuilds, target: str) -> None:
    """Kills a build and its make when make reaches a target."""
    flag = builds.folder / "flag"
    builds.before_make(
        f'for a; do test "$a" = {target} && echo $$ > {flag} && exec sleep 600; done'
    )
    output = builds.folder / "output"
    process = build_in_process(builds.builder, builds.repository, builds.first, output)
    wait_until(lambda: not process.is_alive() or (flag.exists() and flag.read_text().strip()))
    process.kill()
    process.join()
    os.kill(int(flag.read_text()), signal.SIGKILL)
    builds.before_make("")


def test_only_changed_objects_are_built(
    builds: RecordedBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later builds skip the toolchain and the configuration step.

    Objects of a killed build, which may be truncated, of another compiler, or from before the clock
    was set back are not used.
    """
    builds.kernel()
    assert builds.targets == ["kernel-toolchain", "buildkernel", "installkernel"]
    assert len(builds.compiled()) > 10
    assert "KERNFAST=1" not in builds.arguments("buildkernel")
    assert "WITHOUT_CLEAN=yes" in builds.arguments("buildkernel")
    revision = builds.commit(FASTFWD, lambda text: text.replace("{\n", "{\n\tx++;\n", 1))
    builds.kernel(revision)
    assert builds.targets == ["buildkernel", "installkernel"]
    assert builds.compiled(revision) == [FASTFWD]
    assert "KERNFAST=1" in builds.arguments("buildkernel")
    for path in (builds.builder.directory / "obj").rglob("*"):
        os.utime(path, (4e9, 4e9))
    builds.kernel()
    assert FASTFWD in builds.compiled()

    kill_in(builds, "buildkernel")
    builds.kernel()
    assert len(builds.compiled()) > 10
    assert builds.targets == ["buildkernel", "installkernel"]
    programs = builds.folder / "bin"
    programs.mkdir()
    script(programs / "cc", "echo cc version 99")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", "/proc/none")  # a user without a home folder
    builds.before_make(f'test "$CCACHE_DIR" = {builds.builder.directory}/ccache || exit 1')
    builds.kernel(builds.next)
    assert builds.targets[0] == "kernel-toolchain"
    assert len(builds.compiled(builds.next)) > 10


def test_a_compile_error_is_retried_without_old_objects(builds: RecordedBuilds) -> None:
    """The reported error is that of the second attempt; the next build reuses the objects.

    A build without old objects is not repeated. The configuration step, which may be the cause, is
    repeated.
    """
    broken = builds.commit(FASTFWD, lambda text: text + "}\n")
    assert isinstance(builds.build(broken), Failure)
    assert builds.targets == ["kernel-toolchain", "buildkernel"]
    builds.kernel()
    failure = builds.build(broken)
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.reaction) == (Stage.BUILD, Reaction.SKIP)
    assert f"{FASTFWD}:" in failure.why
    assert builds.targets == ["buildkernel", "kernel-toolchain", "buildkernel"]
    builds.git("branch", "-m", f"b-{broken}", f"b-{broken}/old")
    fixed = builds.commit(FASTFWD, lambda text: text.removesuffix("}\n"), broken)
    builds.kernel(fixed)
    assert builds.compiled(fixed) == [FASTFWD]
    assert "KERNFAST=1" not in builds.arguments("buildkernel")


def test_a_custom_configuration_is_built(builds: RecordedBuilds) -> None:
    """A change of the configuration file changes the kernel."""
    configs = builds.folder / "configs"
    configs.mkdir()
    (configs / "ROUTER").write_text("ident ROUTER\ndevice em\ndevice ix\n")
    builds.source = replace(builds.source, kernel_configs=configs)
    both = builds.kernel(config="ROUTER")
    assert "sys/dev/ixgbe/ix_txrx.c" in builds.compiled(config="ROUTER")
    (configs / "ROUTER").write_text("ident ROUTER\ndevice em\n")
    assert builds.kernel(config="ROUTER").identity != both.identity
    builds.kernel()
    assert not [one for one in builds.arguments("buildkernel") if one.startswith("KERNCONFDIR")]


FAILS = 'for a; do test "$a" = kernel-toolchain && { echo "x.c:1:1: error: no"; exit 1; }; done'


def test_failing_tools_on_a_working_builder_are_a_failure_of_the_revision(
    builds: RecordedBuilds,
) -> None:
    """The toolchain is built again without old objects."""
    builds.kernel()
    bump = builds.commit(TOOL, lambda text: text + "# more\n")
    builds.before_make(FAILS)
    failure = builds.build(bump)
    assert isinstance(failure, Failure)
    assert (failure.reaction, failure.why) == (
        Reaction.SKIP,
        "kernel-toolchain: x.c:1:1: error: no",
    )
    assert builds.targets == ["kernel-toolchain", "kernel-toolchain"]
    builds.before_make("")
    builds.kernel()


def test_ccache_is_used_if_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of the lab file disables it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_host.fast_options([]) == []
    ccache = script(tmp_path / "ccache", "")
    found = ["WITH_CCACHE_BUILD=yes", f"CCACHE_BIN={ccache}"]
    assert build_host.fast_options([]) == found
    assert build_host.fast_options(["WITHOUT_CCACHE_BUILD=yes"]) == []


def test_two_builders_build_at_once(builds: RecordedBuilds) -> None:
    """Each build waits until the other one has started."""
    first, second = builds.folder / "one", builds.folder / "two"
    processes = {}
    for own, other, revision in ((first, second, builds.first), (second, first, builds.next)):
        make = script(
            own.with_suffix(".sh"),
            f'for a; do if test "$a" = buildkernel; then touch {own}\n'
            f'while ! test -f {other}; do sleep 0.02; done; fi; done\nexec make "$@"',
        )
        place = own.with_suffix(".d")
        builder = replace(builds.builder, directory=place, make=(str(make),), build_timeout=60)
        output = own.with_suffix(".txt")
        processes[output] = build_in_process(builder, builds.repository, revision, output)
    for output, process in processes.items():
        process.join()
        assert "Kernel(revision=" in output.read_text()
