"""The files of requests on the web pages: what lies in `reports/request-N/`, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from buildbot.www.plugin import Application
from twisted.web import resource
from twisted.web.server import Request

from netbisect.steps.web.answers import Guarded, not_found, send_bytes

_FOLDER = re.compile(r"request-[1-9][0-9]{0,8}\Z")
_DEPTH = 2
"""Levels of folders, that of the request included."""
_TYPES = {
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".pps": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


def is_folder(name: str) -> bool:
    """Whether this is what the folder of a request is called."""
    return _FOLDER.match(name) is not None


class RequestFiles(Guarded):
    """A folder, or a file in it."""

    def __init__(self, application: Application, parts: tuple[str, ...]) -> None:
        super().__init__(application)
        self.parts = parts

    def getChild(self, path: bytes, request: Request) -> resource.Resource:
        """What is called so in this folder."""
        return RequestFiles(self.application, (*self.parts, path.decode(errors="replace")))

    def render_GET(self, request: Request) -> int:
        """The file, when there is one."""
        return self.guarded(request, self._answer)

    async def _answer(self, request: Request) -> None:
        path = find(self.settings.reports, self.parts)
        if path is None:
            not_found(request, f"There is no report {'/'.join(self.parts)}.")
            return
        send_bytes(request, _TYPES[path.suffix], path.read_bytes())


def find(folder: Path, parts: tuple[str, ...]) -> Path | None:
    """A file below that folder, by names that are there; None for everything else.

    Names are looked up among those that there are, so none leads out of the folder.
    """
    if not is_folder(parts[0]) or len(parts) > _DEPTH + 1:
        return None
    for name in parts:
        if not folder.is_dir():
            return None
        found = {path.name: path for path in folder.iterdir() if not path.is_symlink()}.get(name)
        if found is None or name.startswith("."):
            return None
        folder = found
    return folder if folder.is_file() and folder.suffix in _TYPES else None
