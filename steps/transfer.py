"""Carries kernels from the host that built them to the master, and from there to the benches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from buildbot.plugins import steps, util
from buildbot.process import remotetransfer
from buildbot.process.buildstep import BuildStep
from buildbot.process.remotecommand import RemoteCommand
from buildbot.process.results import FAILURE, SUCCESS
from buildbot.steps.worker import CompositeStepMixin
from twisted.internet import threads

from netbisect.steps.lab_step import KERNEL_PROPERTY
from netbisect.workers.artefact import ARCHIVE, FACT, LOG, ArtefactError, ArtefactStore, key_of

_BLOCK = 1 << 18
"""Bytes in one message to a worker."""


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


class FetchKernel(CompositeStepMixin, BuildStep):
    """Brings the kernel in property `kernel` to the worker, unless it is there already."""

    name = "fetch kernel"

    def __init__(self, *, store: Path, place: str) -> None:
        self.store = store
        self.place = place
        self.logEnviron = False  # what pathExists expects of a step
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """The fact file is sent last: where it is, the archive is whole."""
        await self.addLog("stdio")
        key = self.getProperty(KERNEL_PROPERTY)
        if await self.pathExists(f"{self.place}/{key}/{FACT}"):
            self.descriptionDone = ["kernel is there"]
            return int(SUCCESS)
        for name in (ARCHIVE, FACT):
            if not await self._send(self.store / key / name, f"{self.place}/{key}/{name}"):
                return int(FAILURE)
        return int(SUCCESS)

    async def _send(self, source: Path, target: str) -> bool:
        try:
            stream = source.open("rb")
        except OSError as error:
            self.descriptionDone = [f"{source} cannot be read: {error.strerror}"]
            return False
        with stream:
            arguments = {
                "maxsize": None,
                "reader": remotetransfer.FileReader(stream),
                "blocksize": _BLOCK,
                "workdir": self.workdir,
                "mode": None,
                "workerdest": target,
            }
            # A worker may tell no status at all when it is done.
            command = RemoteCommand("downloadFile", arguments, decodeRC={None: SUCCESS, 0: SUCCESS})
            await self.runCommand(command)
        if command.didFail():
            self.descriptionDone = [f"the worker cannot write {target}"]
            return False
        return True
