"""Serves the files in `reports/request-N/`."""

from __future__ import annotations

import re
from pathlib import Path

from buildbot.www.plugin import Application
from twisted.web import resource
from twisted.web.server import Request

from netbisect.steps.web.responses import ProtectedResource, send_bytes, send_not_found

_FOLDER = re.compile(r"request-[1-9][0-9]{0,8}\Z")
_DEPTH = 2
"""Levels of folders, including that of the request."""
_TYPES = {
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".pps": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


class RequestFiles(ProtectedResource):
    """A folder, or a file in it."""

    isLeaf = False

    def __init__(self, application: Application, parts: tuple[str, ...]) -> None:
        super().__init__(application)
        self.parts = parts

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        name = path.decode(errors="replace")
        return RequestFiles(self.application, (*self.parts, name))

    async def respond(self, request: Request) -> None:
        path = find(self.settings.reports, self.parts)
        if path is None:
            send_not_found(request, "/".join(self.parts))
        else:
            send_bytes(request, _TYPES[path.suffix], path.read_bytes())


def find(folder: Path, parts: tuple[str, ...]) -> Path | None:
    """Returns a file below a folder, or None.

    Names are looked up in directory listings, so that no name leads out of the folder.
    """
    if not parts or not _FOLDER.match(parts[0]) or len(parts) > _DEPTH + 1:
        return None
    for name in parts:
        if not folder.is_dir() or name.startswith("."):
            return None
        found = {path.name: path for path in folder.iterdir() if not path.is_symlink()}
        if name not in found:
            return None
        folder = found[name]
    return folder if folder.is_file() and folder.suffix in _TYPES else None
