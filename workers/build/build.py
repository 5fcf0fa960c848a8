"""Builds the kernel of a revision into the artefact store.

The builder's directory contains:

    source/     clone, checked out at the revision
    obj/        MAKEOBJDIRPREFIX, kept between builds
    obj-layout/ the same for builds with a link layout
    ccache/     cache of ccache if the home folder is read-only
    stage/      target of installkernel
    kernels/    artefact store
    patches/    submitted patches
    logs/       logs of builds, up to a limit
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect.model.entities import Failure, Kernel
from netbisect.bisect.model.evidence import split_kernel_name
from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.revision_key import OVERLAY_MARK, PATCH_MARK
from netbisect.workers.build.artifacts import ArtefactStore
from netbisect.workers.build.checkout import Checkout
from netbisect.workers.build.identity import identity_of, version_of
from netbisect.workers.build.logged_process import LoggedCommands
from netbisect.workers.build.make import Make
from netbisect.workers.build.patches import PatchStore
from netbisect.workers.build.userland import Needs, Userland
from netbisect.workers.config.builder import Builder, Source
from netbisect.workers.transport.errors import LabFault


class KernelBuild:
    """A build of one revision on one builder.

    The configuration may name overlays (`GENERIC+fix-igb`) and patches (`GENERIC+D5180-1a2b3c4d`);
    the kernel reports the whole name.
    """

    def __init__(
        self,
        builder: Builder,
        source: Source,
        revision: str,
        config: str,
        say: Callable[[str], None],
        needs: Needs | None = None,
    ) -> None:
        """Prepares a build.

        `revision` is a full hash, optionally with a layout, the seed of a link order: `HASH#3`.
        `needs` are the revisions of the DUTs' programs, by program.

        Raises:
            FileError: unknown overlay.
            PatchError: it names a patch that the builder has not.
        """
        self.builder = builder
        self.source = source
        self.name = revision
        self.revision, self.layout = split_kernel_name(revision)
        self.config = config
        self.conf, *fixes = config.split(OVERLAY_MARK)
        marks = [name for name in fixes if PATCH_MARK.match(name)]
        self.overlays = [source.overlay(name) for name in fixes if name not in marks]
        patches = PatchStore(builder.patches)
        self.patches = [(patches.load(mark), patches.get(mark)) for mark in marks]
        suffix = f"-layout{self.layout}" if self.layout else ""
        self.log = builder.directory / "logs" / f"{revision[:12]}-{config}{suffix}.log"
        self.kernels = ArtefactStore(builder.kernels)
        self.commands = LoggedCommands(builder, self.log, say)
        self.checkout = Checkout(builder.directory / "source", source, self.commands)
        self.make = Make(self.checkout, self.conf, self.layout)
        self.userland = Userland(self.checkout, self.make, needs or {})

    def run(self) -> Kernel | Failure:
        """The kernel, or the failure."""
        started = time.time()
        try:
            with self.commands.alone():
                return self._run()
        except LabFault as fault:
            return fault.failure(self.name, started)
        except OSError as error:  # a full disk, or a folder of another user
            where = error.filename or self.builder.directory
            why = f"builder {self.builder.name}: {where}: {error.strerror}"
            return LabFault(Fault.BUILDER, why).failure(self.name, started)

    def _run(self) -> Kernel | Failure:
        started = time.time()
        self.commands.begin()
        try:
            self.checkout.check_out(self.revision)
            for overlay in self.overlays:
                self.checkout.apply(overlay, self.revision)
            for patch, path in self.patches:
                self.checkout.apply_patch(patch, path, self.revision)
            stage = self.builder.directory / "stage"
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir(parents=True)
            self.make.kernel()
            return self._keep(self.make.install(stage), started)
        except LabFault as fault:
            return fault.failure(self.name, started, log=self.commands.tail())

    def _keep(self, stage: Path, started: float) -> Kernel:
        image = stage / "kernel"
        version = version_of(image) if image.is_file() else ""
        clean = version.removesuffix("-dirty") if self.overlays or self.patches else version
        commit = clean.rpartition("-")[2]
        if not commit or not self.revision.startswith(commit):
            raise LabFault(
                Fault.STALE_BUILD,
                f"the kernel that was built says it is {version or 'nothing'}, "
                f"not {self.revision[:12]}: a stale object directory or a wrong checkout",
            )
        identity = identity_of(stage)
        self.userland.add_to(stage)  # what the kernel is, it is without them
        return self.kernels.put(
            stage,
            lambda key, size: Kernel(
                revision=self.name,
                config=self.config,
                arch=self.builder.arch,
                identity=identity,
                key=key,
                version=version,
                size=size,
                at=started,
                seconds=time.time() - started,
                layout=self.layout,
            ),
            self.log,
        )
