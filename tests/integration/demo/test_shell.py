"""The simulated machines: shell, SSH, power and console."""

from __future__ import annotations

from lab_fixtures import RunningLab


def test_paths_stay_on_the_disk_of_the_machine(running_lab: RunningLab) -> None:
    for path in ("/../../../../etc/passwd", "/etc/passwd", "../../host_key"):
        assert "No such file" in running_lab.ssh("e5-2650-dut", f"cat {path}", status=1)
