"""One build at a time in a builder's directory.

Two locks distinguish a running build from the remains of a killed one:

builder.lock    held by the building process; contains its description
lock            also held by make and its children; contains their session ID. If it is taken
                while `builder.lock` is free, the build was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.builder import Builder
from netbisect.workers.transport import locks
from netbisect.workers.transport.errors import LabFault

_END_SECONDS = 20.0
"""Seconds for the processes of a killed build to end."""
_KILLS = 20
_BETWEEN_KILLS = 0.05
"""Seconds."""


@contextlib.contextmanager
def build_lock(builder: Builder, what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Locks the builder's directory; yields the lock's descriptor for commands to inherit.

    Waits up to `build_timeout` for another build; ends the processes of a killed one. `what`
    describes the build for waiting processes.

    Raises:
        LabFault: another build, or processes that do not end.
    """
    builder.directory.mkdir(parents=True, exist_ok=True)
    with (
        (builder.directory / "builder.lock").open("a+") as own,
        (builder.directory / "lock").open("a+") as shared,
    ):
        where = f" in {builder.directory}"
        who = locks.hold(own, f"building {what}", builder.build_timeout, say, where)
        if who:
            raise LabFault(Fault.BUILDER, f"builder {builder.name}: {who}")
        _end_leftover(builder, shared, say)
        yield shared.fileno()


def end_session(session: int) -> None:
    """Kills all processes of a session; bmake gives each job its own process group."""
    for _ in range(_KILLS):  # while they are being killed they may start others
        command = ["pkill", "-KILL", "-s", str(session)]
        try:
            if subprocess.run(command, check=False, capture_output=True).returncode != 0:
                return
        except OSError:  # a host without pkill: what has stayed in the first group, at least
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)
            return
        time.sleep(_BETWEEN_KILLS)


def _end_leftover(builder: Builder, shared: TextIO, say: Callable[[str], None]) -> None:
    """The session ID is not reused while a process holds the lock."""
    if locks.take(shared):
        return
    say(f"processes of a killed build still run in {builder.directory}: ending them")
    end = time.monotonic() + _END_SECONDS
    while not locks.take(shared):
        session = locks.content(shared)
        if session.isdigit():
            end_session(int(session))
        if time.monotonic() > end:
            raise LabFault(
                Fault.BUILDER,
                f"builder {builder.name}: processes of a killed build in {builder.directory} "
                f"(session {session or 'unknown'}) do not end",
            )
        time.sleep(locks.LOOK)
