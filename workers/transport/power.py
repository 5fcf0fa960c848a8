"""Runs the power switch command."""

from __future__ import annotations

import io
import signal
import subprocess

from netbisect.workers.config.testbed import Power
from netbisect.workers.transport.lifetime import await_killed, signal_group
from netbisect.workers.transport.limited_output import OutputReader

_SHOWN = 500
"""Kept bytes of the command's output."""


def cycle(power: Power) -> str:
    """Runs the command; returns "" or the reason of failure.

    A command that hangs is killed with its children.
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
    kept = io.BytesIO()
    reader = OutputReader(process, kept, _SHOWN)
    try:
        process.wait(power.timeout)
    except subprocess.TimeoutExpired:
        return f"it had not ended after {power.timeout} s"
    finally:
        if process.poll() is None:
            signal_group(process, signal.SIGKILL)
            await_killed(process)
        reader.finish()
    if process.returncode == 0:
        return ""
    text = kept.getvalue().decode(errors="replace").strip() or "no output"
    return f"exit status {process.returncode}: {text}"
