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

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect.model import Dud, Kernel, Reaction, Stage
from netbisect.workers.artefact import ArtefactStore
from netbisect.workers.checkout import Checkout
from netbisect.workers.faults import LabFault
from netbisect.workers.identity import identity_of, version_of
from netbisect.workers.lab import OVERLAY_MARK, Builder, Source
from netbisect.workers.logged import LoggedCommands

_SHUFFLE = "-Wl,--shuffle-sections=.text*={}"
"""LLD's: with the seed, the order of the objects' code; nothing else depends on it."""
_LINKED = (".ko", ".kld", ".full", ".debug")


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
        self.commands = LoggedCommands(builder, self.log, say)
        self.checkout = Checkout(self.tree, source, self.commands, say)

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
            stage = self._make_kernel()
            return self._keep(stage, started)
        except LabFault as fault:
            return fault.dud(self.revision, started, log=self.commands.tail())

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
            status = self.commands.run([*make, *target], environment, cwd=self.tree)
            if status is None:
                limit = self.builder.build_timeout
                raise LabFault(
                    Stage.BUILD, Reaction.RETRY, f"the build had not ended after {limit} s"
                )
            if status != 0:
                raise LabFault(Stage.BUILD, Reaction.SKIP, self.commands.first_error())
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
