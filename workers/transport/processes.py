"""Information about processes: /proc on Linux, procstat(1) on FreeBSD, ps(1)."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

_CWD = re.compile(r"^\s*\d+ .*\scwd\s+v\s+d(?:\s+\S+){4}\s+(/.*)$", re.MULTILINE)
"""Line of the working directory in `procstat -f`."""
_SECONDS = 30.0
"""Limit for procstat(1) and ps(1), which hang on a dead file server."""


def has_working_directory(process: int, folder: Path) -> bool:
    """Whether a process has that working directory; True if unknown.

    A stored process ID proves nothing: after a reboot it belongs to another process.
    """
    try:
        place = _working_directory(process)
    except FileNotFoundError:
        return False  # it has ended
    except (OSError, subprocess.TimeoutExpired):
        return True
    return place is None or Path(place) == folder.resolve()


def _working_directory(process: int) -> str | None:
    if platform.system() == "Linux":
        return str(Path(f"/proc/{process}/cwd").readlink())
    command = ["procstat", "-f", str(process)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    return working_directory_in(done.stdout)


def working_directory_in(output: str) -> str | None:
    """The working directory from `procstat -f`, or None."""
    found = _CWD.search(output)
    return found[1] if found else None


def processes_with_environment(variable: str, value: str) -> list[int]:
    """IDs of processes started with this environment variable, whose value has no white space.

    Raises subprocess.SubprocessError if ps(1) fails or hangs.
    """
    done = subprocess.run(
        ["ps", "axeww", "-o", "pid=", "-o", "command="],
        env={name: kept for name, kept in os.environ.items() if name != variable},
        capture_output=True,
        check=True,
        timeout=_SECONDS,
        start_new_session=True,  # a signal to the caller's process group does not end it
    )
    mark = f" {variable}={value} ".encode()
    lines = (line + b" " for line in done.stdout.splitlines())
    return [int(line.split(None, 1)[0]) for line in lines if mark in line]
