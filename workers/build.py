"""Turns a revision into a kernel in the artefact store.

The clone, the object directory and the finished kernels live in the builder's directory:

    source/     clone, checked out at the revision being built
    obj/        MAKEOBJDIRPREFIX, kept between builds
    obj-layout/ the same, for builds with a layout of their own
    stage/      where installkernel puts the last kernel
    kernels/    the artefact store
    logs/       the log of the last build of each revision
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from netbisect.bisect.model import Dud, Kernel, Reaction, Stage
from netbisect.workers.artefact import ArtefactStore
from netbisect.workers.faults import LabFault
from netbisect.workers.identity import identity_of, version_of
from netbisect.workers.lab import OVERLAY_MARK, Builder, Overlay, Source


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_ERROR = re.compile(r"\b(error|ERROR): ")
"""Of the compiler, of config(8)."""
_STOP = re.compile(r"^\*\*\* ")
"""Of make."""
_SHUFFLE = "-Wl,--shuffle-sections=.text*={}"
"""LLD's: with the seed, the order of the objects' code; nothing else depends on it."""
_LINKED = (".ko", ".kld", ".full", ".debug")
_TAIL_LINES = 40
_GIT_TIMEOUT = 3600.0
"""Seconds; a first clone of a FreeBSD tree takes many minutes."""


class KernelBuild:
    """One build of one revision on one builder.

    The configuration may name overlays of the lab file, as `GENERIC+fix-igb`; the kernel says that
    it is of that configuration.
    """

    def __init__(
        self,
        builder: Builder,
        source: Source,
        revision: str,
        config: str,
        say: Callable[[str], None],
        layout: int = 0,
    ) -> None:
        """Nothing is done yet.

        Args:
            builder: where to build.
            source: what to build from.
            revision: full hash of the commit.
            config: kernel configuration.
            say: takes what happens on the way.
            layout: when not 0, the seed of an order in which the linker takes the objects: the
                same code at other addresses.

        Raises:
            FileError: the configuration names an overlay that the lab file has not.
        """
        self.builder = builder
        self.source = source
        self.revision = revision
        self.config = config
        self.conf, *overlays = config.split(OVERLAY_MARK)
        self.overlays = [source.overlay(name) for name in overlays]
        self.say = say
        self.tree = builder.directory / "source"
        self.layout = layout
        suffix = f"-layout{layout}" if layout else ""
        self.log = builder.directory / "logs" / f"{revision[:12]}-{config}{suffix}.log"
        self.kernels = ArtefactStore(builder.kernels)
        self._held: tuple[int, ...] = ()

    def run(self) -> Kernel | Dud:
        """The kernel, or why there is none."""
        with self._alone():
            return self._run()

    # ---------------------------------------------------------------------------- the stages

    def _run(self) -> Kernel | Dud:
        started = time.time()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        try:
            self._check_out()
            for overlay in self.overlays:
                self._apply(overlay)
            stage = self._make_kernel()
            return self._keep(stage, started)
        except LabFault as fault:
            return fault.dud(self.revision, started, log=self._tail())

    def _check_out(self) -> None:
        self.say(f"checking out {self.revision[:12]}")
        if not (self.tree / ".git").is_dir():
            shutil.rmtree(self.tree, ignore_errors=True)
            self.tree.parent.mkdir(parents=True, exist_ok=True)
            self._git(
                "clone", "--no-checkout", self.source.repository, str(self.tree), inside=False
            )
        if self._git_says("cat-file", "-t", f"{self.revision}^{{commit}}") != "commit":
            self._git("fetch", "--force", self.source.repository, "+refs/heads/*:refs/remotes/up/*")
            if self._git_says("cat-file", "-t", f"{self.revision}^{{commit}}") != "commit":
                raise LabFault(
                    Stage.CHECKOUT,
                    Reaction.RETRY,
                    f"revision {self.revision[:12]} is on no branch of {self.source.repository}",
                )
        self._git("checkout", "--quiet", "--force", "--detach", self.revision)
        self._git("clean", "-qfdx")
        found = self._git_says("rev-parse", "HEAD")
        if found != self.revision or self._git_says("status", "--porcelain"):
            raise LabFault(
                Stage.CHECKOUT,
                Reaction.RETRY,
                f"the tree in {self.tree} is not revision {self.revision[:12]} after the checkout",
            )

    def _apply(self, overlay: Overlay) -> None:
        self.say(f"applying {overlay.name} to {self.revision[:12]}")
        if self._logged(["git", "apply", str(overlay.patch)], {}, cwd=self.tree) != 0:
            raise LabFault(
                Stage.BUILD,
                Reaction.SKIP,
                f"the overlay {overlay.name} does not apply: {self._last_line()}",
            )

    def _make_kernel(self) -> Path:
        stage = self.builder.directory / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        common = [
            f"KERNCONF={self.conf}",
            f"TARGET={self.builder.arch}",
            f"TARGET_ARCH={self.builder.arch}",
            "WITH_REPRODUCIBLE_BUILD=yes",
            *self.builder.options,
        ]
        environment = self._environment()
        make = [*self.builder.make]
        self.say(f"buildkernel {self.revision[:12]} {self.config}")
        jobs = f"-j{self.builder.jobs}"
        install = [f"DESTDIR={stage}", "KODIR=/boot/kernel"]
        for target in ([jobs, "buildkernel", *common], ["installkernel", *common, *install]):
            status = self._logged([*make, *target], environment)
            if status is None:
                limit = self.builder.build_timeout
                raise LabFault(
                    Stage.BUILD, Reaction.RETRY, f"the build had not ended after {limit} s"
                )
            if status != 0:
                raise LabFault(Stage.BUILD, Reaction.SKIP, self._first_error())
        return stage / "boot" / "kernel"

    def _environment(self) -> dict[str, str]:
        """What make is given besides its arguments.

        A layout is asked for in the environment, because makefiles add to LDFLAGS there, and not
        to what stands on the command line; sys.mk takes off `-Wl,` where ld is called by itself.
        Such builds have objects of their own, or the next kernel would be linked as they were.
        """
        objects = self.builder.directory / ("obj-layout" if self.layout else "obj")
        environment = {"MAKEOBJDIRPREFIX": str(objects)}
        if self.layout:
            flags = [os.environ.get("LDFLAGS", ""), _SHUFFLE.format(self.layout)]
            environment["LDFLAGS"] = " ".join(filter(None, flags))
            for path in objects.rglob("*"):
                # make does not know that what is there was linked with another seed.
                if path.is_file() and (path.suffix in _LINKED or path.name == "kernel"):
                    path.unlink()
        return environment

    def _keep(self, stage: Path, started: float) -> Kernel:
        image = stage / "kernel"
        version = version_of(image) if image.is_file() else ""
        clean = version.removesuffix("-dirty") if self.overlays else version
        commit = clean.rpartition("-")[2]
        if not commit or not self.revision.startswith(commit):
            raise LabFault(
                Stage.BUILD,
                Reaction.RETRY,
                f"the kernel that was built says it is {version or 'nothing'}, "
                f"not {self.revision[:12]}: a stale object directory or a wrong checkout",
            )
        identity = identity_of(stage)
        return self.kernels.put(
            stage,
            lambda key, size: Kernel(
                revision=self.revision,
                config=self.config,
                arch=self.builder.arch,
                identity=identity,
                key=key,
                version=version,
                size=size,
                at=started,
                seconds=time.time() - started,
            ),
            self.log,
        )

    # ----------------------------------------------------------------------------- the tools

    def _git(self, *arguments: str, inside: bool = True) -> None:
        where = self.tree if inside else None
        status = self._logged(["git", *arguments], {}, cwd=where, limit=_GIT_TIMEOUT)
        if status != 0:
            raise LabFault(
                Stage.CHECKOUT,
                Reaction.RETRY,
                f"`git {arguments[0]}` failed for revision {self.revision[:12]}: "
                f"{self._last_line()}",
            )

    def _git_says(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.tree, capture_output=True, text=True, check=False
        ).stdout.strip()

    def _logged(
        self,
        command: list[str],
        environment: Mapping[str, str],
        *,
        cwd: Path | None = None,
        limit: float | None = None,
    ) -> int | None:
        """Runs a command with its output in the log; its exit status, None when it hung.

        It gets a process group of its own so that nothing of a hung build stays behind, and the
        default action for SIGINT: bmake's own bootstrap tests fail where SIGINT is ignored.
        """
        where = cwd or (self.tree if self.tree.is_dir() else None)
        with self.log.open("ab") as stream:
            stream.write(f"$ {shlex.join(command)}\n".encode())
            stream.flush()
            try:
                process = subprocess.Popen(
                    command,
                    cwd=where,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_default_interrupt,  # noqa: PLW1509 - no threads here
                    pass_fds=self._held,
                )
            except OSError as error:
                raise LabFault(
                    Stage.BUILD,
                    Reaction.QUARANTINE,
                    f"builder {self.builder.name}: {command[0]} cannot be run: {error.strerror}",
                ) from error
            self._note_group(process.pid)
            try:
                return process.wait(limit or self.builder.build_timeout)
            except subprocess.TimeoutExpired:
                stream.write(b"netbisect: no end in sight, stopped\n")
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds the builder's directory; ends what a killed build left running in it.

        The lock is inherited by make, so that it stands for as long as anything of that build
        still runs.
        """
        path = self.builder.directory / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                group = lock.read().strip()
                self.say(f"a build is still running in {self.builder.directory}: ending it")
                if group.isdigit():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(int(group), signal.SIGKILL)
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._held = (lock.fileno(),)
            try:
                yield
            finally:
                self._held = ()

    def _note_group(self, group: int) -> None:
        for descriptor in self._held:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(group).encode())

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def _tail(self) -> str:
        return "\n".join(self._lines()[-_TAIL_LINES:])

    def _last_line(self) -> str:
        lines = [line for line in self._lines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def _first_error(self) -> str:
        lines = self._lines()
        for pattern in (_ERROR, _STOP):
            for line in lines:
                if pattern.search(line):
                    return line.strip()
        return self._last_line()
