"""Answers of the REST interface are written by the thread of the reactor.

Buildbot writes them from another one (https://github.com/buildbot/buildbot/issues/9065).
"""

from __future__ import annotations

import json

from buildbot.util import unicode2bytes
from buildbot.www import rest
from twisted.internet import reactor, threads
from twisted.web.server import Request

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(rest.V2RootResource, "_write_json_data", "2fc52687cee9")


def write_json(request: Request, encoder: json.JSONEncoder, data: object) -> None:
    """Encodes in the calling thread, writes in the reactor's."""
    body = unicode2bytes("".join(encoder.iterencode(data)))

    def write() -> None:
        if rest._is_request_finished(request):  # noqa: SLF001 - as the function it replaces
            return
        request.setHeader(b"content-length", str(len(body)).encode())
        if request.method != b"HEAD":
            request.write(body)

    threads.blockingCallFromThread(reactor, write)
