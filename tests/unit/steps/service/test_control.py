"""Starting a service."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netbisect.steps.service import control


def test_hanging_upgrade_is_killed_and_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / control.TAC)  # reading it blocks

    with pytest.raises(control.ServiceError, match=r"did not finish within 0\.5 s and was killed"):
        control._buildbot(tmp_path, {}, "upgrade-master", limit=0.5)
