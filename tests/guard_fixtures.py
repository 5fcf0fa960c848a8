"""The script that holds a key to what netbisect does, for tests of what it takes.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from netbisect.workers.lab import Lab
from netbisect.workers.ssh import Machine

GUARD = Path(str(files("netbisect.steps").joinpath("files", "guard.sh")))
RAN = "it was run"


def verdict(folder: Path, line: str, role: str = "dut", root: str = "", awk: str = "") -> str:
    """What the guard says of a line; it is run by a shell that only says so."""
    script = folder / "guard"
    if not script.exists():
        text = GUARD.read_text().replace('exec /bin/sh -c "$line"', f'echo "{RAN}"')
        text = text.replace("    logger ", "    : ")
        path = f"{folder}:/sbin:/bin:/usr/sbin:/usr/bin"
        script.write_text(text.replace("PATH=/sbin:/bin:", f"PATH={path}:"))
    if awk and not (folder / "awk").exists():
        (folder / "awk").symlink_to(awk)
    done = subprocess.run(
        ["sh", script, role, *([root] if root else [])],
        env={"SSH_ORIGINAL_COMMAND": line},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, bool(done.stdout)) in ((0, True), (126, False))
    return (done.stdout + done.stderr).strip()


def roles(lab: Lab) -> dict[str, list[tuple[str, str]]]:
    """By address of a machine: as what netbisect comes there, and to which root."""
    found: dict[str, list[tuple[str, str]]] = {}
    for bed in lab.testbeds:
        for address in (bed.generator.address, bed.receiver.address):
            found.setdefault(address, []).append(("traffic", ""))
        found.setdefault(bed.dut.address, []).append(("dut", ""))
        if bed.dut.pxe is not None:
            server = bed.dut.pxe.server
            found.setdefault(server, []).append(("server", str(bed.dut.pxe.root)))
    return found


@contextlib.contextmanager
def recorded() -> Iterator[set[tuple[str, str]]]:
    """Addresses of machines, and the lines that are sent to them while the block lasts."""
    found: set[tuple[str, str]] = set()
    run, running = Machine._running_line, Machine.running

    def note(machine: Machine, line: str) -> None:
        # A number of a boot is as good as another.
        found.add((machine.address, re.sub(r"\b[0-9a-f]{32}\b", 32 * "0", line)))

    def run_line(self: Machine, line: str, *more: Any, **others: Any) -> Any:
        note(self, line)
        return run(self, line, *more, **others)

    def run_long(self: Machine, command: Sequence[str], log: Path) -> Any:
        note(self, shlex.join(command))
        return running(self, command, log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "_running_line", run_line)
        patch.setattr(Machine, "running", run_long)
        yield found
