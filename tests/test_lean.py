"""What a Buildbot worker need not load."""

from __future__ import annotations

import subprocess
import sys


def said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


_SPARE = "from netbisect.workers import lean; lean.spare_websockets(); import sys; "


def test_a_worker_does_without_websockets() -> None:
    program = "from buildbot_worker.bot import Worker; print(Worker.__name__, 'autobahn' in "
    assert said(f"{_SPARE}{program}sys.modules)") == "Worker False"
    assert said(f"import sys; {program}sys.modules)") == "Worker True", "it is of no use any more"


def test_a_worker_that_is_to_speak_over_them_loads_them_then() -> None:
    program = (
        "from buildbot_worker import pb; "
        "one = pb.BuildbotWebSocketClientFactory('ws://127.0.0.1:9989'); "
        "one.protocol = pb.BuildbotWebSocketClientProtocol; "
        "print(type(one).__name__, type(one.protocol()).__name__, 'autobahn' in sys.modules)"
    )
    assert said(f"{_SPARE}{program}") == (
        "BuildbotWebSocketClientFactory BuildbotWebSocketClientProtocol True"
    )


def test_who_has_loaded_them_keeps_them() -> None:
    program = (
        "import buildbot_worker.msgpack as before; from netbisect.workers import lean; "
        "lean.spare_websockets(); import sys; "
        "print(sys.modules['buildbot_worker.msgpack'] is before)"
    )
    assert said(program) == "True"


def test_a_worker_does_without_tls() -> None:
    program = (
        "from twisted.internet import reactor; from buildbot_worker.bot import Worker; "
        "print(Worker.__name__, 'cryptography' in sys.modules); "
    )
    assert said(f"{_SPARE}lean.spare_tls(); {program}") == "Worker False"
    assert said(f"{_SPARE}{program}") == "Worker True", "it is of no use any more"
