"""nextboot(8), with a root on UFS or on ZFS.

loader(8) can write to UFS, not to ZFS. On ZFS, nextboot(8) of FreeBSD 13.0 and later puts the order
into the label of the pool (nextboot.sh, lines 100 to 112 of 13.2), and the loader resets it there
before it starts the kernel (stand/libsa/zfs/zfs.c, lines 888 to 898; stand/lua/config.lua, lines
438 to 479).
"""

from __future__ import annotations

from collections.abc import Mapping

from netbisect.workers.dut.base import BootMethod, not_on_zfs
from netbisect.workers.dut.running_kernel import RunningKernel

_PARTS = ("/sbin/nextboot", "/boot/lua/config.lua")
"""The program that writes the label, and the script that reads it."""
QUESTION = ("grep", "-c", "nvstore", *_PARTS)
"""Counts the lines of each part that mention the label."""


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


class NextbootZfs(NextbootUfs):
    """The order is in the label of the pool."""

    def misfit(self, running: RunningKernel) -> str:
        """Refuses another root, and a system before 13.0."""
        return not_on_zfs(running) or lacking(self.machine.ask(QUESTION)[0])


def lacking(output: str) -> str:
    """Why the order cannot be kept in the label, by the answer to `QUESTION`; "" if it can."""
    counts = dict(line.rpartition(":")[::2] for line in output.splitlines())
    missing = [part for part in _PARTS if counts.get(part, "0") == "0"]
    if not missing:
        return ""
    return (
        f"keeps no order in the label of its pool: {' and '.join(missing)} know nothing of it; "
        "expected FreeBSD 13.0 or later, with the loader of the same version"
    )
