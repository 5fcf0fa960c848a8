"""Carries kernels from the host that built them to the master, and from there to the benches."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from buildbot.plugins import steps, util
from buildbot.process import remotetransfer
from buildbot.process.buildstep import BuildStep
from buildbot.process.remotecommand import RemoteCommand
from buildbot.process.results import FAILURE, SUCCESS
from buildbot.steps.worker import CompositeStepMixin
from twisted.internet import threads

from netbisect.bisect.subject import OVERLAY_MARK
from netbisect.steps.lab_step import KERNEL_PROPERTY
from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.workers.artefact import ARCHIVE, FACT, LOG, ArtefactError, ArtefactStore
from netbisect.workers.patches import PatchError, PatchStore, is_mark
from netbisect.workers.space import words_of

_BLOCK = 1 << 18
"""Bytes in one message to a worker."""


class AcceptKernel(BuildStep):
    """Moves an uploaded kernel into the master's store when its content has the right key."""

    name = "accept kernel"
    renderables = ("incoming",)

    def __init__(self, *, incoming: Any, settings: Settings) -> None:
        self.incoming = incoming
        self.settings = settings
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """Checks and moves, in a thread; then makes room."""
        key = self.getProperty(KERNEL_PROPERTY)
        store = self.settings.kernels
        fault = await threads.deferToThread(accept, Path(self.incoming), store, key)
        if fault:
            await self.addCompleteLog("problem", fault + "\n")
            self.descriptionDone = [fault]
            return int(FAILURE)
        self.descriptionDone = [await tidy(self.settings, key) or "kernel is kept"]
        return int(SUCCESS)


def accept(incoming: Path, store: Path, key: str) -> str:
    """Moves `incoming` to `store`/`key`; "" or what is wrong with it."""
    try:
        ArtefactStore(store).adopt(incoming, key)
    except ArtefactError as error:
        return f"the kernel cannot be kept: {error}"
    except OSError as error:
        return f"the kernel cannot be kept: {error.strerror}: {error.filename}"
    return ""


async def tidy(settings: Settings, *besides: str) -> str:
    """Makes room in the master's store; what open questions need stays, and `besides`.

    Returns:
        What went, or that there is not room enough, in words; "" when there was room.
    """
    needed = await memory(settings).do(lambda ledger: ledger.needed_kernels())
    return await threads.deferToThread(make_room, settings, needed.union(besides))


def make_room(settings: Settings, needed: Collection[str]) -> str:
    """As `tidy`, in the calling thread."""
    pruned = ArtefactStore(settings.kernels).prune(settings.kernel_bytes, needed)
    if pruned.size > settings.kernel_bytes:
        return (
            f"the kernels that are still needed take {words_of(pruned.size)}, "
            f"kernel_space is {settings.kernel_space}"
        )
    return f"made room: {len(pruned.removed)} kernels removed" if pruned.removed else ""


def upload_steps(source: Any, settings: Settings) -> list[BuildStep]:
    """Steps that bring the kernel under `source` on the worker into the master's store."""
    store = settings.kernels
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
        AcceptKernel(incoming=incoming, settings=settings),
    ]


class FetchKernel(CompositeStepMixin, BuildStep):
    """Brings the kernel in property `kernel` to the worker, unless it is there already.

    Args:
        store: Of the master.
        place: Of the worker's store.
        emptied: Folder of the worker that goes, lest an earlier visit's logs pass for this one's.
    """

    name = "fetch kernel"

    def __init__(self, *, store: Path, place: str, emptied: str) -> None:
        self.store = store
        self.place = place
        self.emptied = emptied
        self.logEnviron = False  # what pathExists expects of a step
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """The fact file is sent last: where it is, the archive is whole."""
        await self.addLog("stdio")
        await self.runRmdir(self.emptied, abandonOnFailure=False)
        key = self.getProperty(KERNEL_PROPERTY)
        ArtefactStore(self.store).use(key)
        if await self.pathExists(f"{self.place}/{key}/{FACT}"):
            self.descriptionDone = ["kernel is there"]
            return int(SUCCESS)
        for name in (ARCHIVE, FACT):
            if not await _send(self, self.store / key / name, f"{self.place}/{key}/{name}"):
                return int(FAILURE)
        return int(SUCCESS)


class SendPatches(BuildStep):
    """Brings the patches that a kernel is to be built with from the master to the build host."""

    name = "send patches"
    renderables = ("place",)

    def __init__(self, *, store: Path, place: Any) -> None:
        self.store = PatchStore(store)
        self.place = place
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """They are small, and sent each time: what an earlier try left half done is mended."""
        _, *fixes = self.getProperty("kernel_config").split(OVERLAY_MARK)
        for mark in filter(is_mark, fixes):
            try:
                source = self.store.get(mark)
            except (PatchError, OSError) as error:
                self.descriptionDone = [str(error)]
                return int(FAILURE)
            if not await _send(self, source, f"{self.place}/{source.name}"):
                return int(FAILURE)
        return int(SUCCESS)


async def _send(step: BuildStep, source: Path, target: str) -> bool:
    """Sends a file of the master to the worker; what went wrong is the step's description."""
    try:
        stream = source.open("rb")
    except OSError as error:
        step.descriptionDone = [f"{source} cannot be read: {error.strerror}"]
        return False
    with stream:
        arguments = {
            "maxsize": None,
            "reader": remotetransfer.FileReader(stream),
            "blocksize": _BLOCK,
            "workdir": step.workdir,
            "mode": None,
            "workerdest": target,
        }
        # A worker may tell no status at all when it is done.
        command = RemoteCommand("downloadFile", arguments, decodeRC={None: SUCCESS, 0: SUCCESS})
        await step.runCommand(command)
    if command.didFail():
        step.descriptionDone = [f"the worker cannot write {target}"]
        return False
    return True
