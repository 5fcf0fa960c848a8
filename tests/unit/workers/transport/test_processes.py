"""Information about processes from other programs."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest
from builds import script

from netbisect.workers.transport import processes


def test_programs_that_hang_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("procstat", "ps"):
        script(tmp_path / name, "exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")  # programs that hang
    monkeypatch.setattr(platform, "system", lambda: "FreeBSD")
    monkeypatch.setattr(processes, "_SECONDS", 0.2)
    assert processes.has_working_directory(os.getpid(), tmp_path), "it is unknown"
    with pytest.raises(subprocess.TimeoutExpired):
        processes.processes_with_environment("NETBISECT_DEMO", "x")
