"""`python -m netbisect.demo`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from netbisect.demo.__main__ import main
from netbisect.demo.service import DemoService


def test_down_says_what_it_stopped_and_removed(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    place.mkdir()
    (place / "netbisect-demo").touch()
    environment = {**os.environ, **DemoService(place).environment}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        done = CliRunner().invoke(main, ["down", "--place", str(place)])

    assert done.output == f"stopped 1 process of the demonstration; removed {place}\n"
    assert process.returncode != 0
    assert not place.exists()


def test_down_says_that_there_is_nothing(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    done = CliRunner().invoke(main, ["down", "--place", str(place)])

    assert done.output == f"stopped no process of the demonstration; there was no {place}\n"
    assert done.exit_code == 0
