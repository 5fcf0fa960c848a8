"""nextboot(8) with a root file system that loader(8) can write to: UFS."""

from __future__ import annotations

from collections.abc import Mapping

from netbisect.workers.dut.base import BootMethod
from netbisect.workers.dut.running_kernel import RunningKernel


class NextbootUfs(BootMethod):
    """loader(8) disables nextboot.conf before it starts the kernel."""

    def misfit(self, running: RunningKernel) -> str:
        """Refuses a root on ZFS."""
        if not running.root.startswith("zfs:"):
            return ""
        return (
            f"has its root on ZFS ({running.root}), where a kernel that panics would be booted "
            "again and again: set deploy to nextboot-zfs or bootenv, or use UFS"
        )

    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Runs nextboot(8), which replaces nextboot.conf atomically."""
        settings = [part for one in environment.items() for part in ("-e", "=".join(one))]
        self.machine.run(["nextboot", *settings, "-k", folder], ["sync"])

    def clean_up(self) -> None:
        """Deletes nextboot.conf."""
        self.machine.try_run(["nextboot", "-D"])
