"""The pages: Buildbot's own, one of ours in its menu, and the reports."""

from __future__ import annotations

from importlib import metadata, resources
from pathlib import Path
from typing import Any

from buildbot.www.plugin import Application
from twisted.web import resource, static
from twisted.web.server import Request

from netbisect.steps.settings import Settings
from netbisect.steps.web import board, machine
from netbisect.steps.web.answers import Guarded, not_found, send

NAME = "netbisect"


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


class Reports(Guarded):
    """The report pages, as files."""

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        """One page."""
        return Report(self.application, path.decode(errors="replace"))


class Report(Guarded):
    """One report page."""

    isLeaf = True

    def __init__(self, application: Application, name: str) -> None:
        super().__init__(application)
        self.name = name

    def render_GET(self, request: Request) -> int:
        """The file, when there is one."""
        return self.guarded(request, self._answer)

    async def _answer(self, request: Request) -> None:
        page = report(self.settings.reports, self.name)
        if page is None:
            not_found(request, f"There is no report {self.name}.")
        else:
            send(request, "text/html", page)


def report(folder: Path, name: str) -> str | None:
    """A page of that folder and of no other place; None when it is not there."""
    page = {path.name: path for path in folder.glob("*.html")}.get(name)
    return None if page is None else page.read_text(errors="replace")


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
        for name, child in (
            (b"dashboard", board.Shown(self)),
            (b"overview.json", machine.Overview(self)),
            (b"data", machine.Data(self)),
            (b"feed.atom", machine.Feed(self)),
            (b"badges", machine.Badges(self)),
            (b"reports", Reports(self)),
        ):
            self.resource.putChild(name, child)  # type: ignore[arg-type]


ep = Pages()
