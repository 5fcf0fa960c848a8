"""master.cfg, loaded by Buildbot."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from buildbot.config.master import FileLoader, MasterConfig

from netbisect.steps.service import control

ROOT = Path(__file__).resolve().parents[2]


def test_the_janitor_removes_logs_after_log_days(
    service_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = service_folder / control.SETTINGS
    own = service_folder / "thirty-days.toml"
    own.write_text("log_days = 30\n" + settings.read_text())
    monkeypatch.setenv("NETBISECT_SETTINGS", str(own))
    shutil.copy(ROOT / "master.cfg", tmp_path)

    config: MasterConfig = FileLoader(str(tmp_path), "master.cfg").loadConfig()

    [janitor] = [one for one in config.builders if one.name == "__Janitor"]
    [step] = janitor.factory.steps
    assert step.step_class.__name__ == "LogChunksJanitor"
    assert step.kwargs == {"logHorizon": timedelta(days=30)}
    assert config.schedulers["__Janitor"].builderNames == ["__Janitor"]
