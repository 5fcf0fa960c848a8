"""Base class of the web resources: access check and responses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from buildbot.www.authz import Forbidden
from buildbot.www.plugin import Application
from twisted.internet import defer
from twisted.python import log
from twisted.web import http, resource, server
from twisted.web.server import Request

from netbisect.steps.service.compute import ComputeError
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.settings import Settings
from netbisect.store.db.database import DatabaseError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.toml import FileError

LAB_FILE = "The lab file is invalid; `netbisect check` says why."

_HEADERS = {
    # No inline scripts, nothing from other servers; styles and drawings are inline.
    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'; "
    b"script-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    b"x-frame-options": b"SAMEORIGIN",  # for browsers without frame-ancestors
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
}


class ProtectedResource(resource.Resource):
    """A resource for users with read access; Buildbot's rules do not cover plugins."""

    isLeaf = True

    def __init__(self, application: Application) -> None:
        super().__init__()
        self.application = application

    @property
    def settings(self) -> Settings:
        settings = self.application.config["settings"]
        assert isinstance(settings, Settings)
        return settings

    async def query(self, work: Callable[[Ledger], Any]) -> Any:
        return await database_thread(self.settings, "reads").do(work)

    async def respond(self, request: Request) -> None:
        raise NotImplementedError

    def render_GET(self, request: Request) -> int:
        defer.ensureDeferred(self._check_and_respond(request)).addErrback(fail, request)
        return int(server.NOT_DONE_YET)

    async def _check_and_respond(self, request: Request) -> None:
        await self.application.master.www.assertUserAllowed(request, ("masters",), "get", {})
        await self.respond(request)


def is_same_origin(request: Request, url: str) -> bool:
    """Whether a page of this service sent the request; False if the browser does not say so."""
    parts = urlsplit(url)
    origin = request.getHeader("origin") or ""
    return origin.lower() == f"{parts.scheme}://{parts.netloc}".lower()


def fail(failure: Any, request: Request) -> None:
    """Ends a request after an exception, with one sentence."""
    if failure.check(Forbidden):
        status, text = http.FORBIDDEN, "You are not allowed to see this page."
    else:
        log.err(failure, "netbisect's pages")
        status, text = http.INTERNAL_SERVER_ERROR, "The page failed; twistd.log has the reason."
    if failure.check(DatabaseError):
        status, text = http.SERVICE_UNAVAILABLE, "The database failed; twistd.log has the reason."
    if failure.check(ComputeError):
        status, text = http.SERVICE_UNAVAILABLE, "The page was not ready in time; try again later."
    if failure.check(FileError):
        status, text = http.SERVICE_UNAVAILABLE, LAB_FILE
    request.setResponseCode(status)
    send(request, "text/plain", f"{text}\n")


def has_gone(request: Request) -> bool:
    """Whether the client has closed the connection; a response would raise an exception."""
    return request._disconnected  # noqa: SLF001 - Twisted's public way is an event


def send(request: Request, media_type: str, text: str, *, seconds: int = 0) -> None:
    """Sends a text in UTF-8, or status 304; clients may cache it for so many seconds."""
    content = text.encode("utf-8", "replace")
    send_bytes(request, f"{media_type}; charset=utf-8", content, seconds=seconds)


def send_bytes(request: Request, content_type: str, content: bytes, *, seconds: int = 0) -> None:
    """Sends a file, unless the client has gone; `content_type` is the whole header."""
    if has_gone(request):
        return
    request.setHeader(b"content-type", content_type.encode())
    for name, value in _HEADERS.items():
        request.setHeader(name, value)
    caching = f"max-age={seconds}" if seconds else "no-cache"
    request.setHeader(b"cache-control", caching.encode())
    digest = hashlib.sha256(content).hexdigest()[:32]
    if request.setETag(f'"{digest}"'.encode()) is not http.CACHED:
        request.setHeader(b"content-length", str(len(content)).encode())
        if request.method != b"HEAD":
            request.write(content)
    request.finish()


def send_not_found(request: Request, name: str) -> None:
    """Sends status 404."""
    request.setResponseCode(http.NOT_FOUND)
    send(request, "text/plain", f"Not found: {name}\n")
