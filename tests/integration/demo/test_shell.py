"""The simulated machines: shell, SSH, power and console."""

from __future__ import annotations

import subprocess
import time

from lab_fixtures import RunningLab


def test_paths_stay_on_the_disk_of_the_machine(running_lab: RunningLab) -> None:
    for path in ("/../../../../etc/passwd", "/etc/passwd", "../../host_key"):
        assert "No such file" in running_lab.ssh("e5-2650-dut", f"cat {path}", status=1)


def test_reboot_drops_connections_and_memory(c2558: RunningLab) -> None:
    c2558.ssh("c2558-dut", "kenv before=1 && kldload pf && shutdown -r now")
    wait_until_up(c2558, "c2558-dut")
    assert "before" not in c2558.ssh("c2558-dut", "kenv")
    assert "pf.ko" not in c2558.ssh("c2558-dut", "kldstat")


def wait_until_up(lab: RunningLab, machine: str) -> None:
    """Down first, which takes a moment; then up."""
    command = ["ssh", "-F", str(lab.files.ssh_config), machine, "uname"]
    state = []
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        up = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if up and False in state:
            return
        state.append(up)
    raise AssertionError(f"{machine} was up and down as {state}")
