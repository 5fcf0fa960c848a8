"""The web server: Buildbot's pages, and a plugin with pages, reports and the API."""

from __future__ import annotations

import os
from importlib import metadata, resources
from typing import Any

from buildbot.www.plugin import Application
from twisted.cred.checkers import FilePasswordDB
from twisted.web import resource, static
from twisted.web.server import Request
from twisted.web.util import Redirect

from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import Settings
from netbisect.steps.web import api, body_limit, documents, pages
from netbisect.steps.web.login import make_auth, make_authz
from netbisect.steps.web.request_files import RequestFiles

NAME = "netbisect"
_hook_passwords = FilePasswordDB(os.devnull)
"""Passwords in `hook_file`. Buildbot keeps its first checker after SIGHUP."""


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
        "authz": make_authz(settings),
        "avatar_methods": [],  # sends no mail address to other servers
    }


def _hook(settings: Settings) -> dict[str, Any]:
    """`change_hook/poller`: makes the service poll the tree."""
    path = settings.web.hook_file
    if path is not None:
        read_password(path, "web.hook_file")
    return {
        "change_hook_dialects": {"poller": True} if path else {},
        "change_hook_auth": [_hook_passwords],
    }


class PluginFolder(static.File):
    """Below `plugins/netbisect`: files of the plugin, and the pages."""

    application: Application

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        found = super().getChild(path, request)
        # Buildbot asks for a style sheet of every plugin.
        if found is self.childNotFound and not (request.postpath or path.endswith(b".css")):
            return pages.page_resource(self.application, path.decode(errors="replace"))
        return found


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
        """Adds the resources, at the start and after SIGHUP."""
        super().setConfiguration(config)
        _hook_passwords.filename = str(config["settings"].web.hook_file or os.devnull)
        children: dict[bytes, resource.Resource] = {
            b"": Redirect(b"index.html"),
            b"search": pages.SearchResource(self),
            b"reports": RequestFiles(self, ()),
            b"api": api.ApiResource(self),
            **documents.resources(self),
        }
        for name, child in children.items():
            self.resource.putChild(name, child)  # type: ignore[arg-type]


ep = WebPlugin()
