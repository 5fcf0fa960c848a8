"""The pages: Buildbot's own, one of ours in its menu, and the reports."""

from __future__ import annotations

import re
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from buildbot.www.plugin import Application
from twisted.cred.checkers import FilePasswordDB
from twisted.web import resource, static
from twisted.web.server import Request

from netbisect.reports import requests as telling
from netbisect.steps.login import auth_of, authz_of
from netbisect.steps.memory import history_of
from netbisect.steps.request_follow import follow
from netbisect.steps.request_form import BUILDER
from netbisect.steps.secret_files import read_password
from netbisect.steps.settings import Settings
from netbisect.steps.web import api, board, bodies, machine
from netbisect.steps.web.answers import Guarded, not_found, send
from netbisect.steps.web.request_files import RequestFiles, is_folder
from netbisect.store.database import AbsentError
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import load_lab

NAME = "netbisect"
_REQUEST = re.compile(r"request-([1-9][0-9]{0,8})\.html")


def www(settings: Settings) -> dict[str, Any]:
    """The configuration of the web server."""
    bodies.bound()  # the configuration has no place for it
    return {
        "port": f"tcp:{settings.web.port}:interface={settings.web.interface}",
        "plugins": {
            NAME: {"settings": settings},
            "waterfall_view": {},
            "grid_view": {},
        },
        **_hook(settings),
        "auth": auth_of(settings),
        "authz": authz_of(settings, BUILDER),
        "avatar_methods": [],  # no mail address leaves the lab for a picture
    }


def _hook(settings: Settings) -> dict[str, Any]:
    """`change_hook/poller`: whoever has the password may say that the tree has changed."""
    path = settings.web.hook_file
    if path is None:
        return {}
    read_password(path, "web.hook_file")
    return {
        "change_hook_dialects": {"poller": True},
        "change_hook_auth": [FilePasswordDB(str(path))],
    }


class Reports(Guarded):
    """The report pages, as files."""

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        """One page, or the folder of a request."""
        name = path.decode(errors="replace")
        if is_folder(name):
            return RequestFiles(self.application, (name,))
        return Report(self.application, name)


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
        number = _REQUEST.fullmatch(self.name)
        if page is None and number is not None:
            page = await self.ask(lambda ledger: self._live(ledger, int(number[1])))
        if page is None:
            not_found(request, f"There is no report {self.name}.")
        else:
            send(request, "text/html", page)

    def _live(self, ledger: Ledger, number: int) -> str | None:
        """How far a request is; None where there is none."""
        lab = load_lab(self.settings.lab)
        history = history_of(self.settings, lab)
        try:
            return telling.live(follow(ledger, self.settings, lab, history, number))
        except AbsentError:
            return None


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
            (b"metrics", machine.Metrics(self)),
            (b"feed.atom", machine.Feed(self)),
            (b"badges", machine.Badges(self)),
            (b"reports", Reports(self)),
            (b"api", api.Api(self)),
        ):
            self.resource.putChild(name, child)  # type: ignore[arg-type]


ep = Pages()
