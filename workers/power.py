"""Switches a DUT off and on by the command of the lab file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from netbisect.workers.bounded import Ends, Listener
from netbisect.workers.lab import Power

_SAID = 500
"""Bytes of what a switch complains of: its beginning, and its end."""


def cycle(power: Power) -> str:
    """Runs the command; "" when it has done its work, or why it has not.

    One that hangs is ended with all that it has started.
    """
    try:
        process = subprocess.Popen(
            power.cycle,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"{power.cycle[0]} cannot be run: {error.strerror}"
    kept: list[bytes] = []
    listener = Listener(process, Ends(kept.append, _SAID))
    try:
        process.wait(power.timeout)
    except subprocess.TimeoutExpired:
        return f"it had not ended after {power.timeout} s"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        listener.finish()
    if process.returncode == 0:
        return ""
    text = b"".join(kept).decode(errors="replace").strip() or "it said nothing"
    return f"exit status {process.returncode}: {text}"
