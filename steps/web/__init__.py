"""The pages: Buildbot's own, one of ours in its menu, and the reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from buildbot.www.authz import Forbidden
from buildbot.www.plugin import Application
from twisted.internet import defer
from twisted.python import log
from twisted.web import resource, server, static
from twisted.web.server import Request

from netbisect.steps.memory import memory
from netbisect.steps.overview import overview
from netbisect.steps.settings import Settings

NAME = "netbisect"
_FORBIDDEN, _NOT_FOUND, _FAILED = 403, 404, 500


def www(settings: Settings) -> dict[str, Any]:
    """The configuration of the web server."""
    return {
        "port": f"tcp:{settings.web.port}:interface={settings.web.interface}",
        "plugins": {
            NAME: {"settings": settings},
            "waterfall_view": {},
            "grid_view": {},
        },
        "avatar_methods": [],  # no mail address leaves the lab for a picture
    }


class _Guarded(resource.Resource):
    """Pages of plugins are not covered by Buildbot's rules: whoever may read masters may read."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self.application = application

    def _render(self, request: Request, work: Callable[[Request], Any]) -> int:
        def refuse(failure: Any) -> None:
            forbidden = failure.check(Forbidden)
            if not forbidden:
                log.err(failure, "netbisect's pages")
            request.setResponseCode(_FORBIDDEN if forbidden else _FAILED)
            request.finish()

        defer.ensureDeferred(self._guarded(request, work)).addErrback(refuse)
        return int(server.NOT_DONE_YET)

    async def _guarded(self, request: Request, work: Callable[[Request], Any]) -> None:
        master = self.application.master
        await master.www.assertUserAllowed(request, ("masters",), "get", {})
        await work(request)


class Overview(_Guarded):
    """`overview.json`."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with `overview`."""
        return self._render(request, self._answer)

    async def _answer(self, request: Request) -> None:
        data = await memory(self.application.config["settings"]).do(overview)
        request.setHeader(b"content-type", b"application/json")
        request.write(json.dumps(data).encode())
        request.finish()


class Reports(_Guarded):
    """The report pages, as files."""

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        """One page."""
        return Report(self.application, path.decode(errors="replace"))


class Report(_Guarded):
    """One report page."""

    isLeaf = True

    def __init__(self, application: Application, name: str) -> None:
        super().__init__(application)
        self.name = name

    def render_GET(self, request: Request) -> int:
        """The file, when there is one."""
        return self._render(request, self._answer)

    async def _answer(self, request: Request) -> None:
        page = report(self.application.config["settings"].reports, self.name)
        if page is None:
            request.setResponseCode(_NOT_FOUND)
            request.setHeader(b"content-type", b"text/plain; charset=utf-8")
            request.write(f"There is no report {self.name}.\n".encode())
        else:
            request.setHeader(b"content-type", b"text/html; charset=utf-8")
            request.write(page)
        request.finish()


def report(folder: Path, name: str) -> bytes | None:
    """A page of that folder and of no other place; None when it is not there."""
    page = {path.name: path for path in folder.glob("*.html")}.get(name)
    return None if page is None else page.read_bytes()


class Pages(Application):
    """What buildbot.www finds through the entry point."""

    def __init__(self) -> None:  # not the base's: it wants a file VERSION beside this one
        self.description = NAME
        self.version = metadata.version(NAME)
        self.static_dir = resources.files("netbisect.steps.web") / "static"
        self.resource = static.File(str(self.static_dir))
        self.ui = True

    def setConfiguration(self, config: dict[str, Any]) -> None:
        """Adds our own resources."""
        super().setConfiguration(config)
        for name, child in ((b"overview.json", Overview(self)), (b"reports", Reports(self))):
            self.resource.putChild(name, child)  # type: ignore[arg-type]


ep = Pages()
