"""Turns a revision into a kernel in the artefact store.

The clone, the object directory and the finished kernels live in the builder's directory:

    source/     clone, checked out at the revision being built
    obj/        MAKEOBJDIRPREFIX, kept between builds
    obj-layout/ the same, for builds with a layout of their own
    stage/      where installkernel puts the last kernel
    kernels/    the artefact store
    patches/    patches that revisions were asked to be built with
    logs/       the log of the last build of each revision, up to a limit for all of them
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Dud, Kernel, split_kernel_name
from netbisect.bisect.subject import OVERLAY_MARK
from netbisect.workers.artefact import ArtefactStore
from netbisect.workers.checkout import Checkout
from netbisect.workers.faults import LabFault
from netbisect.workers.identity import identity_of, version_of
from netbisect.workers.lab import Builder, Source
from netbisect.workers.logged import LoggedCommands
from netbisect.workers.make import Make
from netbisect.workers.patches import PatchStore, is_mark
from netbisect.workers.userland import Needs, Userland


class KernelBuild:
    """One build of one revision on one builder.

    The configuration may name overlays of the lab file, as `GENERIC+fix-igb`, and patches of the
    builder's folder, as `GENERIC+D5180-1a2b3c4d`; the kernel says that it is of that
    configuration.
    """

    def __init__(
        self,
        builder: Builder,
        source: Source,
        revision: str,
        config: str,
        say: Callable[[str], None],
        layout: int = 0,
        needs: Needs | None = None,
    ) -> None:
        """Nothing is done yet.

        Args:
            builder: where to build.
            source: what to build from.
            revision: full hash of the commit; with `#3` behind it, that commit in layout 3, and
                the kernel says so.
            config: kernel configuration.
            say: takes what happens on the way.
            layout: when not 0, the seed of an order in which the linker takes the objects: the
                same code at other addresses.
            needs: programs that may have to travel with the kernel; none when absent.

        Raises:
            FileError: the configuration names an overlay that the lab file has not.
            PatchError: it names a patch that the builder has not.
        """
        self.builder = builder
        self.source = source
        self.name = revision
        self.revision, own = split_kernel_name(revision)
        layout = layout or own
        self.layout = layout
        self.config = config
        self.conf, *fixes = config.split(OVERLAY_MARK)
        self.overlays = [source.overlay(name) for name in fixes if not is_mark(name)]
        patches = PatchStore(builder.patches)
        self.patches = [(patches.load(name), patches.get(name)) for name in fixes if is_mark(name)]
        self.say = say
        suffix = f"-layout{layout}" if layout else ""
        self.log = builder.directory / "logs" / f"{revision[:12]}-{config}{suffix}.log"
        self.kernels = ArtefactStore(builder.kernels)
        self.commands = LoggedCommands(builder, self.log, say)
        self.checkout = Checkout(builder.directory / "source", source, self.commands, say)
        self.make = Make(builder, self.checkout, self.conf, self.commands, say, layout)
        self.userland = Userland(self.checkout, self.make, needs or {}, say)

    def run(self) -> Kernel | Dud:
        """The kernel, or why there is none."""
        with self.commands.alone():
            return self._run()

    # ---------------------------------------------------------------------------- the stages

    def _run(self) -> Kernel | Dud:
        started = time.time()
        self.commands.begin()
        try:
            self.checkout.check_out(self.revision)
            for overlay in self.overlays:
                self.checkout.apply(overlay, self.revision)
            for patch, path in self.patches:
                self.checkout.apply_patch(patch, path, self.revision)
            stage = self._make_kernel()
            return self._keep(stage, started)
        except LabFault as fault:
            return fault.dud(self.name, started, log=self.commands.tail())

    def _make_kernel(self) -> Path:
        stage = self.builder.directory / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        self.make.kernel()
        return self.make.install(stage)

    def _keep(self, stage: Path, started: float) -> Kernel:
        image = stage / "kernel"
        version = version_of(image) if image.is_file() else ""
        clean = version.removesuffix("-dirty") if self.overlays or self.patches else version
        commit = clean.rpartition("-")[2]
        if not commit or not self.revision.startswith(commit):
            raise LabFault.of(
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
