"""`netbisect request`: Ctrl-C during --wait, and refused calls."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from programs import netbisect


def test_ctrl_c_ends_the_wait_without_a_verdict(own_service: Path) -> None:
    """Exit status 1 would be a regression."""
    place = ["--folder", str(own_service)]
    done = netbisect("request", "compare", "main~1", "main", "--testbed", "c2558", *place)
    assert done.exit_code == 0, done.output
    code = (  # a shell starts programs in the background without SIGINT
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from netbisect.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "request", "show", "1", "--wait", *place]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("request 1: ")
        waiting.send_signal(signal.SIGINT)
        said = waiting.stderr.read()

    assert waiting.returncode == 130
    assert said.strip() == "Interrupted. Request 1 continues: `netbisect request show 1 --wait`."
    assert "open" in netbisect("request", "show", "1", *place).output


def test_refused_call_is_one_sentence_with_status_3(own_service: Path) -> None:
    done = netbisect("request", "audit", "--after", 2**31, "--folder", own_service)

    assert (done.exit_code, done.output) == (
        3,
        "Error: after: expected a number from 0 to 2147483647\n",
    )
