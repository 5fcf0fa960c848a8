"""Carries kernels from the host that built them to the master, and from there to the benches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from buildbot.plugins import steps, util
from buildbot.process.buildstep import BuildStep
from buildbot.process.results import FAILURE, SUCCESS
from buildbot.steps.worker import CompositeStepMixin
from twisted.internet import threads

from netbisect.steps.lab_step import KERNEL_PROPERTY
from netbisect.workers.artefact import ARCHIVE, FACT, LOG, ArtefactError, ArtefactStore, key_of

_HERE = "kernel_is_here"


class AcceptKernel(BuildStep):
    """Moves an uploaded kernel into the master's store when its content has the right key."""

    name = "accept kernel"
    renderables = ("incoming",)

    def __init__(self, *, incoming: Any, store: Path, keep: int) -> None:
        self.incoming = incoming
        self.store = store
        self.keep = keep
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """Checks and moves, in a thread."""
        key = self.getProperty(KERNEL_PROPERTY)
        fault = await threads.deferToThread(accept, Path(self.incoming), self.store, key, self.keep)
        if fault:
            await self.addCompleteLog("problem", fault + "\n")
            self.descriptionDone = [fault]
            return int(FAILURE)
        return int(SUCCESS)


def accept(incoming: Path, store: Path, key: str, keep: int) -> str:
    """Moves `incoming` to `store`/`key`, keeps the newest `keep`; "" or what is wrong with it."""
    try:
        found = key_of(incoming / ARCHIVE)
        if found != key:
            return f"what was uploaded has the key {found[:12]}, expected {key[:12]}"
        place = store / key
        if place.exists():
            shutil.rmtree(place)
        incoming.rename(place)
    except (OSError, ArtefactError) as error:
        return f"the kernel cannot be kept: {error}"
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    ArtefactStore(store).prune(keep)
    return ""


def upload_steps(source: Any, store: Path, keep: int) -> list[BuildStep]:
    """Steps that bring the kernel under `source` on the worker into the master's store."""
    incoming = util.Interpolate(f"{store}/.incoming-%(prop:builder)s-%(prop:buildnumber)s")
    return [
        steps.MultipleFileUpload(
            name="upload kernel",
            workersrcs=[
                util.Interpolate("%(kw:at)s/" + name, at=source) for name in (ARCHIVE, FACT, LOG)
            ],
            masterdest=incoming,
            haltOnFailure=True,
        ),
        AcceptKernel(incoming=incoming, store=store, keep=keep),
    ]


class LookForKernel(CompositeStepMixin, BuildStep):
    """Finds out whether the worker has the kernel already."""

    name = "look for kernel"

    def __init__(self, *, place: str) -> None:
        self.place = place
        self.logEnviron = False  # what pathExists expects of a step
        super().__init__(haltOnFailure=True, hideStepIf=True)

    async def run(self) -> int:
        """The fact file arrives last: where it is, the archive is whole."""
        await self.addLog("stdio")
        key = self.getProperty(KERNEL_PROPERTY)
        here = await self.pathExists(f"{self.place}/{key}/{FACT}")
        self.setProperty(_HERE, bool(here), self.name)
        return int(SUCCESS)


def download_steps(store: Path, place: str) -> list[BuildStep]:
    """Steps that bring the kernel in property `kernel` from the master to `place`."""

    def missing(step: BuildStep) -> bool:
        return not step.getProperty(_HERE)

    return [
        LookForKernel(place=place),
        *(
            steps.FileDownload(
                name=f"download {name}",
                mastersrc=util.Interpolate(f"{store}/%(prop:{KERNEL_PROPERTY})s/{name}"),
                workerdest=util.Interpolate(f"{place}/%(prop:{KERNEL_PROPERTY})s/{name}"),
                doStepIf=missing,
                hideStepIf=lambda _, step: not missing(step),
                haltOnFailure=True,
            )
            for name in (ARCHIVE, FACT)
        ),
    ]
