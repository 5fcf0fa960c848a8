"""Transfer of kernels from build hosts to the master, and from there to testbeds."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from buildbot.plugins import steps, util
from buildbot.process.buildstep import BuildStep
from buildbot.process.remotetransfer import FileReader
from buildbot.process.results import FAILURE, SUCCESS
from buildbot.steps.worker import CompositeStepMixin
from twisted.internet import defer
from twisted.python.failure import Failure

from netbisect.bisect.model.revision_key import OVERLAY_MARK, PATCH_MARK
from netbisect.steps.master.lab_step import KERNEL_PROPERTY
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.watchdog import run_in_thread
from netbisect.store.db.database import StoreError
from netbisect.workers.build.artifacts import ARCHIVE, FACT, LOG, ArtefactError, ArtefactStore
from netbisect.workers.build.patches import PatchError, PatchStore
from netbisect.workers.config.validation import format_size

INCOMING = ".incoming-"
"""Prefix of the names of folders with incomplete uploads."""
_BLOCK = 1 << 18
"""Bytes per message to a worker."""
_PUBLISH = f'mkdir -p "$2" && mv "$1/{ARCHIVE}" "$2" && mv "$1/{FACT}" "$2" && rmdir "$1"'
"""Shell command that moves a received kernel; the fact, which comes last, marks a complete one."""


def incoming_folder(store: Path) -> util.Interpolate:
    """Folder for the upload of a build; the number of a build is unique in its builder only."""
    return util.Interpolate(f"{store}/{INCOMING}%(prop:buildername)s-%(prop:buildnumber)s")


def reason(error: object) -> str:
    """The message of a remote error, without the type of the error and the traceback."""
    return re.sub(r"\Ab'[\w.]+': ", "", str(error)).partition("\n")[0]


class _ReasonMixin:
    """Adds the reason for a failed transfer, such as a full disk, to the summary of the step."""

    def addLogWithFailure(self, why: Failure, logprefix: str = "") -> Any:
        """Called by Buildbot for an exception."""
        self.descriptionDone = [f"{self.name}: {reason(why.value)}"]  # type: ignore[attr-defined]
        return super().addLogWithFailure(why, logprefix)  # type: ignore[misc]


class _MultipleFileUpload(_ReasonMixin, steps.MultipleFileUpload):
    pass


class AcceptKernel(BuildStep):
    """Moves an uploaded kernel into the master's store if its content has the right key."""

    name = "accept kernel"
    renderables = ("incoming",)

    def __init__(self, *, incoming: Any, settings: Settings) -> None:
        self.incoming = incoming
        self.settings = settings
        super().__init__(haltOnFailure=True)

    async def run(self) -> int:
        """Checks and moves the kernel in a thread, and prunes the store."""
        key = self.getProperty(KERNEL_PROPERTY)
        store = self.settings.kernels
        fault = await run_in_thread("storing a kernel", accept, Path(self.incoming), store, key)
        if fault:
            await self.addCompleteLog("problem", fault + "\n")
            self.descriptionDone = [fault]
            return int(FAILURE)
        self.descriptionDone = [await prune_kernels(self.settings, key) or "kernel stored"]
        return int(SUCCESS)


def accept(incoming: Path, store: Path, key: str) -> str:
    """Moves `incoming` to `store`/`key`; returns an error message or ""."""
    try:
        ArtefactStore(store).adopt(incoming, key)
    except ArtefactError as error:
        return f"the kernel cannot be stored: {error}"
    except OSError as error:
        return f"the kernel cannot be stored: {error.strerror}: {error.filename}"
    return ""


async def prune_kernels(settings: Settings, *keep: str) -> str:
    """Removes kernels until the rest fits, except `keep` and those of open jobs.

    Returns a line for the log, "" if there was room; an error fails no build.
    """
    try:
        needed = await database_thread(settings).do(lambda ledger: ledger.jobs.needed_kernels())
        return await run_in_thread("pruning kernels", prune, settings, needed.union(keep))
    except (StoreError, OSError) as error:
        return f"the kernels could not be pruned: {error}"


def prune(settings: Settings, needed: Collection[str]) -> str:
    """Like `prune_kernels`, in the calling thread."""
    pruned = ArtefactStore(settings.kernels).prune(settings.kernel_bytes, needed)
    if pruned.refused:
        return pruned.refused
    if pruned.size > settings.kernel_bytes:
        return (
            f"the kernels of open jobs take {format_size(pruned.size)}, "
            f"kernel_space is {settings.kernel_space}"
        )
    return f"{len(pruned.removed)} kernels removed" if pruned.removed else ""


def upload_steps(source: Any, settings: Settings) -> list[BuildStep]:
    """Steps that upload the kernel under `source` on the worker to the master's store."""
    incoming = incoming_folder(settings.kernels)
    return [
        _MultipleFileUpload(
            name="upload kernel",
            workersrcs=[
                util.Interpolate("%(kw:at)s/" + name, at=source) for name in (ARCHIVE, FACT, LOG)
            ],
            masterdest=incoming,
            haltOnFailure=True,
        ),
        AcceptKernel(incoming=incoming, settings=settings),
    ]


class _SendingStep(_ReasonMixin, CompositeStepMixin, BuildStep):
    haltOnFailure = True
    logEnviron = False  # what pathExists expects of a step

    async def _send(self, path: Path, destination: str) -> None:
        """Sends a file; raises BuildStepFailed."""
        with path.open("rb") as stream:
            arguments = {
                "workdir": self.workdir,
                "workerdest": destination,
                "reader": FileReader(stream),
                "blocksize": _BLOCK,
                "maxsize": None,
                "mode": None,
            }
            await self.runRemoteCommand("downloadFile", arguments)


class FetchKernel(_SendingStep):
    """Downloads the kernel of property `kernel` to the worker, unless it has the kernel.

    `store` is that of the master and `place` that of the worker. The folder `emptied` on the
    worker, with the logs of an earlier trial, is removed.
    """

    name = "fetch kernel"
    _transfers: ClassVar[WeakValueDictionary[tuple[str, str], defer.DeferredLock]] = (
        WeakValueDictionary()
    )
    """By worker and key: testbeds of one worker must not write the same files at once."""

    def __init__(self, *, store: Path, place: str, emptied: str) -> None:
        self.kernels = ArtefactStore(store)
        self.place = place
        self.emptied = emptied
        super().__init__()

    async def run(self) -> int:
        await self.addLogForRemoteCommands("stdio")
        await self.runRmdir(self.emptied, abandonOnFailure=False)
        key = self.getProperty(KERNEL_PROPERTY)
        self.kernels.use(key)
        name = self.getProperty("workername"), key
        async with self._transfers.setdefault(name, defer.DeferredLock()):
            # Workers of one host may share the folder of kernels, but not this one.
            return int(await self._fetch(key, f"{self.place}/{INCOMING}{key}-{name[0]}"))

    async def _fetch(self, key: str, incoming: str) -> int:
        if await self.pathExists(f"{self.place}/{key}/{FACT}"):
            self.descriptionDone = ["kernel is present"]
            return SUCCESS
        try:
            if fault := await run_in_thread("checking a kernel", self.kernels.discard_damaged, key):
                self.descriptionDone = [f"the kernel is to be built again: {fault}"]
                return FAILURE
            for name in (ARCHIVE, FACT):
                await self._send(self.kernels.directory / key / name, f"{incoming}/{name}")
            move = ["sh", "-c", _PUBLISH, "sh", incoming, f"{self.place}/{key}"]
            await self.runRemoteCommand("shell", {"workdir": self.workdir, "command": move})
        except (ArtefactError, OSError) as error:
            self.descriptionDone = [str(error)]
            return FAILURE
        self.descriptionDone = ["kernel sent"]
        return SUCCESS


class SendPatches(_SendingStep):
    """Sends the patches of a kernel from the master to the build host."""

    name = "send patches"
    renderables = ("place",)

    def __init__(self, *, store: Path, place: Any) -> None:
        self.store = PatchStore(store)
        self.place = place
        super().__init__()

    async def run(self) -> int:
        """Sends them each time, which repairs incomplete files; they are small."""
        _, *fixes = self.getProperty("kernel_config").split(OVERLAY_MARK)
        try:
            sources = [self.store.get(mark) for mark in fixes if PATCH_MARK.match(mark)]
        except (PatchError, OSError) as error:
            self.descriptionDone = [str(error)]
            return int(FAILURE)
        await self.addLogForRemoteCommands("stdio")
        for path in sources:
            await self._send(path, f"{self.place}/{path.name}")
        return int(SUCCESS)
