"""Fixes of Buildbot 4.3.0 without a hook for them; other versions only create their database."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator
from itertools import islice
from typing import Any, TypeVar

import buildbot
import jwt
from buildbot.data import base, masters
from buildbot.db import logs, model
from buildbot.process.builder import Builder
from buildbot.process.buildstep import BuildStep
from buildbot.process.remotetransfer import DirectoryWriter, FileWriter
from buildbot.process.workerforbuilder import AbstractWorkerForBuilder
from buildbot.steps.transfer import _TransferBuildStep
from buildbot.util import unicode2bytes
from buildbot.wamp import connector
from buildbot.www import auth, rest, sse
from twisted.internet import defer, reactor, threads
from twisted.python import log
from twisted.web.server import Request

from netbisect.steps.service.watchdog import exit_for_restart

T = TypeVar("T")
_VERSION = "4.3.0"
_BATCH = 1000
"""Most lines of a log that are read at once."""
_is_current = model.Model.is_current
_clean_up = masters.Master._masterDeactivatedHousekeeping  # noqa: SLF001
_render_events = sse.EventResource.render
_start_build = Builder.maybeStartBuild
_transfer = _TransferBuildStep.runTransferCommand
_write, _close = FileWriter.remote_write, FileWriter.remote_close
_unpack = DirectoryWriter.remote_unpack
_user_info = auth.parse_user_info_from_token


def apply() -> None:
    """Replaces the functions of Buildbot."""
    model.Model.is_current = is_current
    if buildbot.version != _VERSION:
        log.msg(f"Buildbot {buildbot.version}: the fixes for {_VERSION} are skipped")
        return
    masters.Master._masterDeactivatedHousekeeping = clean_up  # noqa: SLF001
    sse.EventResource.render = render_events
    logs._async_iter_on_pool = iterate_on_pool  # noqa: SLF001
    Builder.maybeStartBuild = maybe_start_build
    connector.MasterService.onLeave = on_leave
    rest.V2RootResource._write_json_data = staticmethod(write_json)  # noqa: SLF001
    auth.parse_user_info_from_token = user_info
    # The end of a transfer does not wait for its own kind of interruption: both finish its log,
    # which raises an exception, and the build is not cancelled.
    _TransferBuildStep.interrupt = BuildStep.interrupt
    _TransferBuildStep.runTransferCommand = run_transfer
    FileWriter.remote_write = keeping_error(_write)
    FileWriter.remote_close = keeping_error(_close)
    DirectoryWriter.remote_unpack = keeping_error(_unpack)


def keeping_error(method: Callable[..., None]) -> Callable[..., None]:
    """A method for workers that keeps its first error for `run_transfer`, such as a full disk.

    A worker with Twisted 26.10 fails to return an error of the master: the step would wait for it.
    """

    def keep(self: FileWriter, *arguments: Any) -> None:
        try:
            method(self, *arguments)
        except Exception as error:  # noqa: BLE001 - also of a truncated archive
            self.error = getattr(self, "error", error)

    return keep


@defer.inlineCallbacks
def run_transfer(
    self: _TransferBuildStep, command: Any, writer: Any = None
) -> Generator[defer.Deferred[Any], Any, int]:
    """Runs an upload or download; raises the error of the master's side of an upload."""
    result: int = yield _transfer(self, command, writer)
    error = getattr(writer, "error", None)
    if error is not None:
        writer.purge()
        raise error
    return result


@defer.inlineCallbacks
def is_current(self: model.Model) -> Generator[defer.Deferred[Any], Any, bool]:
    """Whether the database has the schema of this Buildbot; a new database gets it first.

    `buildbot upgrade-master` would import Buildbot and load the configuration once more.
    """
    if not (yield self.db.pool.do(self.table_exists, "alembic_version")):
        yield self.upgrade()
    return bool((yield _is_current(self)))


@base.updateMethod
@defer.inlineCallbacks
def clean_up(
    self: masters.Master, masterid: int, name: str
) -> Generator[defer.Deferred[Any], Any, None]:
    """Releases the requests claimed by a dead master, and has all masters start their builds.

    Buildbot releases the claims of the master that cleans up instead.
    """
    requests = self.master.db.buildrequests
    claimed = yield requests.getBuildRequests(complete=False, claimed=masterid)
    yield _clean_up(self, masterid, name)
    numbers = [request.buildrequestid for request in claimed]
    yield requests._unclaim_buildrequests_for_master(numbers, masterid)  # noqa: SLF001
    # The workers may be connected to any master.
    yield self.master.data.rtypes.buildrequest.generateEvent(numbers, "unclaimed")


def on_leave(self: connector.MasterService, details: Any) -> None:
    """Ends the process when the router is lost; Buildbot stops only its services."""
    if not self.leaving:
        exit_for_restart(f"the router of the masters was lost ({details.reason})")


def render_events(self: sse.EventResource, request: Request) -> int | None:
    """Streams events; in Buildbot a parameter raises an exception, whose traceback is logged."""
    request.args = {}
    return _render_events(self, request)


async def iterate_on_pool(
    generator_sync: Callable[[], Generator[T, None, None]],
    *,
    reactor: Any,
    provider_threadpool: Any = None,
    max_backlog: int = 1,
    **_: Any,
) -> AsyncGenerator[T, None]:
    """Runs a generator on a thread pool, in batches; no thread waits for the reader.

    In Buildbot an aborted download of a log blocks its thread for ever. A small master has a single
    thread for this: no log can be read, no build ends, and the master does not stop. Fixed
    upstream, not released.
    """
    pool, items = provider_threadpool or reactor.getThreadPool(), generator_sync()
    size = max_backlog if max_backlog > 0 else _BATCH
    while batch := await threads.deferToThreadPool(
        reactor, pool, lambda: list(islice(items, size))
    ):
        for item in batch:
            yield item


@defer.inlineCallbacks
def maybe_start_build(
    self: Builder, workerforbuilder: AbstractWorkerForBuilder, requests: list[Any]
) -> Generator[defer.Deferred[Any], Any, bool]:
    """Starts a build; False if its worker was lost since it was chosen.

    In Buildbot the request stays claimed for ever. `builders.LabBuild` handles a worker that is
    lost later.
    """
    try:
        return bool((yield _start_build(self, workerforbuilder, requests)))
    except AttributeError:  # of None instead of the worker
        if workerforbuilder.worker is not None:
            raise
        return False


def write_json(request: Request, encoder: json.JSONEncoder, data: object) -> None:
    """Encodes in the calling thread, writes in the reactor's.

    Buildbot writes from another one (https://github.com/buildbot/buildbot/issues/9065).
    """
    body = unicode2bytes("".join(encoder.iterencode(data)))

    def write() -> None:
        if rest._is_request_finished(request):  # noqa: SLF001
            return
        request.setHeader(b"content-length", str(len(body)).encode())
        if request.method != b"HEAD":
            request.write(body)

    threads.blockingCallFromThread(reactor, write)


def user_info(token: str, session_secret: str) -> dict[str, Any]:
    """The user of a cookie; KeyError if it is invalid, for which Buildbot logs a traceback."""
    try:
        jwt.decode(token, session_secret, algorithms=[auth.SESSION_SECRET_ALGORITHM])
    except jwt.exceptions.InvalidTokenError as error:
        raise KeyError(str(error)) from error
    return _user_info(token, session_secret)
