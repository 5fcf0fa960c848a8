"""`netbisect request`: Ctrl-C during --wait, and refused calls."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from programs import netbisect

from netbisect.bisect.model.mail import Mail
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.settings import load_settings
from netbisect.steps.service.storage import open_service_ledger


def test_ctrl_c_ends_the_wait_without_a_verdict(own_service: Path) -> None:
    """The exit status is 130, because 1 means a regression."""
    place = ["--folder", str(own_service)]
    done = netbisect("request", "compare", "main~1", "main", "--testbed", "c2558", *place)
    assert done.exit_code == 0, done.output
    code = (  # a shell starts background programs with SIGINT ignored
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from netbisect.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "request", "show", "1", "--wait", *place]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("request 1: ")
        waiting.send_signal(signal.SIGINT)
        message = waiting.stderr.read()

    assert waiting.returncode == 130
    assert message.strip() == "Interrupted. Request 1 continues: `netbisect request show 1 --wait`."
    assert "open" in netbisect("request", "show", "1", *place).output


def test_the_list_has_more_requests_than_the_default_limit_of_the_api(own_service: Path) -> None:
    ledger = open_service_ledger(load_settings(own_service / SETTINGS))
    options: dict[str, Any] = {"who": "ann", "address": "", "via": "command", "priority": 150}
    body = {"subjects": [], "testbeds": []}
    for _ in range(101):
        ledger.requests.open(
            "compare", body, [], most_open=200, mail=lambda _: Mail("", ""), **options
        )

    done = netbisect("request", "list", "--json", "--folder", own_service)

    assert len(json.loads(done.output)) == 101
