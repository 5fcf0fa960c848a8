"""The web server: Buildbot's pages, and a plugin with pages, reports and the API."""

from __future__ import annotations

import re
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from buildbot.www.plugin import Application
from twisted.cred.checkers import FilePasswordDB
from twisted.web import resource, static
from twisted.web.server import Request
from twisted.web.util import Redirect

from netbisect.reports.pages import requests
from netbisect.steps.queries.request_status import follow
from netbisect.steps.service.database_thread import open_history
from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import Settings
from netbisect.steps.web import api, body_limit, documents, pages
from netbisect.steps.web.login import make_auth, make_authz
from netbisect.steps.web.request_files import RequestFiles, is_folder
from netbisect.steps.web.request_form import BUILDER
from netbisect.steps.web.responses import ProtectedResource, send, send_not_found
from netbisect.store.db.database import NotFoundError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import load_lab

NAME = "netbisect"
_REQUEST = re.compile(r"request-([1-9][0-9]{0,8})\.html")


def www(settings: Settings) -> dict[str, Any]:
    """Returns Buildbot's configuration of the web server."""
    body_limit.install(settings.web.trusted_proxies)  # Buildbot has no option for it
    return {
        "port": f"tcp:{settings.web.port}:interface={settings.web.interface}",
        "plugins": {
            NAME: {"settings": settings},
            "waterfall_view": {},
            "grid_view": {},
        },
        **_hook(settings),
        "auth": make_auth(settings),
        "authz": make_authz(settings, BUILDER),
        "avatar_methods": [],  # sends no mail address to other servers
    }


def _hook(settings: Settings) -> dict[str, Any]:
    """`change_hook/poller`: makes the service poll the tree."""
    path = settings.web.hook_file
    if path is None:
        return {}
    read_password(path, "web.hook_file")
    return {
        "change_hook_dialects": {"poller": True},
        "change_hook_auth": [FilePasswordDB(str(path))],
    }


class ReportFolder(ProtectedResource):
    """`reports`."""

    isLeaf = False

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        name = path.decode(errors="replace")
        if is_folder(name):
            return RequestFiles(self.application, (name,))
        if name.startswith("alert-"):
            return Redirect(f"../{name}".encode())  # the address in mails of earlier releases
        return ReportPage(self.application, name)


class PluginFolder(static.File):
    """Below `plugins/netbisect`: files of the plugin, and the pages."""

    application: Application

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        name = path.decode(errors="replace")
        if pages.is_page(name):
            return pages.page_resource(self.application, name)
        return super().getChild(path, request)


class ReportPage(ProtectedResource):
    """A report page; that of an open request is rendered now."""

    def __init__(self, application: Application, name: str) -> None:
        super().__init__(application)
        self.name = name

    async def respond(self, request: Request) -> None:
        page = read_report(self.settings.reports, self.name)
        number = _REQUEST.fullmatch(self.name)
        if page is None and number is not None:
            page = await self.query(lambda ledger: self._render(ledger, int(number[1])))
        if page is None:
            send_not_found(request, self.name)
        else:
            send(request, "text/html", page)

    def _render(self, ledger: Ledger, number: int) -> str | None:
        lab = load_lab(self.settings.lab)
        history = open_history(self.settings, lab)
        try:
            return requests.live(follow(ledger, self.settings, lab, history, number))
        except NotFoundError:
            return None


def read_report(folder: Path, name: str) -> str | None:
    """Returns a page in `folder` itself, or None."""
    page = {path.name: path for path in folder.glob("*.html")}.get(name)
    return None if page is None else page.read_text(errors="replace")


class WebPlugin(Application):
    """Buildbot's entry point `buildbot.www`."""

    def __init__(self) -> None:  # the base class expects a file VERSION beside this one
        self.description = NAME
        self.version = metadata.version(NAME)
        self.static_dir = resources.files("netbisect.steps.web") / "static"
        self.resource = PluginFolder(str(self.static_dir))
        self.resource.application = self
        self.ui = True

    def setConfiguration(self, config: dict[str, Any]) -> None:
        """Adds the resources."""
        super().setConfiguration(config)
        children: dict[bytes, resource.Resource] = {
            b"": Redirect(b"index.html"),
            b"dashboard": Redirect(b"index.html"),  # the address in earlier releases
            b"search": pages.SearchResource(self),
            b"reports": ReportFolder(self),
            b"api": api.ApiResource(self),
            **documents.resources(self),
        }
        for name, child in children.items():
            self.resource.putChild(name, child)  # type: ignore[arg-type]


ep = WebPlugin()
