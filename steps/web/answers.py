"""What the pages have in common: who may read them, and how an answer is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from buildbot.www.authz import Forbidden
from buildbot.www.plugin import Application
from twisted.internet import defer
from twisted.python import log
from twisted.web import http, resource, server
from twisted.web.server import Request

from netbisect.steps.memory import memory
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger

_FORBIDDEN, _NOT_FOUND, _FAILED = 403, 404, 500
_HEADERS = {
    # No script of anybody's, nothing from elsewhere; styles and drawings lie in the pages.
    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    b"x-frame-options": b"SAMEORIGIN",  # for browsers that know no frame-ancestors
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
}
"""Of every answer."""


class Guarded(resource.Resource):
    """Pages of plugins are not covered by Buildbot's rules: whoever may read masters may read."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self.application = application

    @property
    def settings(self) -> Settings:
        """Of the service."""
        settings = self.application.config["settings"]
        assert isinstance(settings, Settings)
        return settings

    async def ask(self, work: Callable[[Ledger], Any]) -> Any:
        """What `work` finds in the ledger; it runs in the ledger's thread."""
        return await memory(self.settings).do(work)

    def guarded(self, request: Request, work: Callable[[Request], Any]) -> int:
        """Answers with what the coroutine `work` does, if whoever asks may read."""

        def refuse(failure: Any) -> None:
            forbidden = failure.check(Forbidden)
            if not forbidden:
                log.err(failure, "netbisect's pages")
            request.setResponseCode(_FORBIDDEN if forbidden else _FAILED)
            _protect(request)
            request.finish()

        async def careful() -> None:
            master = self.application.master
            await master.www.assertUserAllowed(request, ("masters",), "get", {})
            await work(request)

        defer.ensureDeferred(careful()).addErrback(refuse)
        return int(server.NOT_DONE_YET)


def _protect(request: Request) -> None:
    """Tells browsers what an answer is not to do, whatever got into it."""
    for name, value in _HEADERS.items():
        request.setHeader(name, value)


def send(request: Request, media_type: str, text: str, *, seconds: int = 0) -> None:
    """Sends a text, or says that it is what the reader has already.

    Args:
        request: That is answered.
        media_type: Of the text, which is sent as UTF-8.
        text: The answer.
        seconds: For which nobody needs to ask again; 0: ask every time.
    """
    content = text.encode("utf-8", "replace")
    send_bytes(request, f"{media_type}; charset=utf-8", content, seconds=seconds)


def send_bytes(request: Request, content_type: str, content: bytes, *, seconds: int = 0) -> None:
    """Sends a file, likewise; `content_type` is the whole header."""
    request.setHeader(b"content-type", content_type.encode())
    _protect(request)
    fresh = f"max-age={seconds}" if seconds else "no-cache"
    request.setHeader(b"cache-control", fresh.encode())
    digest = hashlib.sha256(content).hexdigest()[:32]
    if request.setETag(f'"{digest}"'.encode()) is not http.CACHED:
        request.setHeader(b"content-length", str(len(content)).encode())
        if request.method != b"HEAD":
            request.write(content)
    request.finish()


def not_found(request: Request, sentence: str) -> None:
    """Says that there is no such thing."""
    request.setResponseCode(_NOT_FOUND)
    send(request, "text/plain", f"{sentence}\n")
