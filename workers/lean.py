"""Spares the process of a Buildbot worker what it does not use: 26 MB of some 50.

Buildbot's worker loads a protocol over WebSockets, autobahn, and Twisted loads TLS, whether they
speak it or not. In the `buildbot.tac` of a worker, before everything else:

    from netbisect.workers import lean

    lean.spare_websockets()
    lean.spare_tls()  # unless it is to speak TLS
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, cast

_MODULE = "buildbot_worker.msgpack"
_NAMES = (
    "BuildbotWebSocketClientFactory",
    "BuildbotWebSocketClientProtocol",
    "ProtocolCommandMsgpack",
)


def spare_websockets() -> None:
    """From now on a worker loads that protocol when it is to speak it, and not before."""
    if _MODULE not in sys.modules:
        stand_in = ModuleType(_MODULE)
        for name in _NAMES:
            setattr(stand_in, name, _Later(name))
        sys.modules[_MODULE] = stand_in


def spare_tls() -> None:
    """From now on this process does without TLS: Twisted goes without, where there is no OpenSSL.

    It has no effect where that is loaded.
    """
    cast("dict[str, object]", sys.modules).setdefault("OpenSSL", None)  # an import finds none


class _Later:
    """Something of that module, which is loaded when it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of another
        if isinstance(getattr(sys.modules.get(_MODULE), self._name, None), _Later):
            del sys.modules[_MODULE]
        return getattr(importlib.import_module(_MODULE), self._name)(*arguments, **named)
