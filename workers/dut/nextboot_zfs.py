"""nextboot(8) with a root on ZFS, of FreeBSD 13.0 and later.

loader(8) cannot write to ZFS. nextboot(8) puts the order into the label of the pool (nextboot.sh,
lines 100 to 112 of 13.2), and the loader resets it there before it starts the kernel
(stand/libsa/zfs/zfs.c, lines 888 to 898; stand/lua/config.lua, lines 438 to 479).
"""

from __future__ import annotations

from pathlib import Path

from netbisect.bisect.model.entities import Kernel
from netbisect.workers.dut.base import BootMethod
from netbisect.workers.dut.kernel_folder import KernelContents
from netbisect.workers.dut.nextboot_ufs import NextbootUfs
from netbisect.workers.dut.running_kernel import RunningKernel

_PARTS = ("/sbin/nextboot", "/boot/lua/config.lua")
"""What writes the label, and what reads it."""
QUESTION = ("grep", "-c", "nvstore", *_PARTS)
"""Tells for each of `_PARTS` in how many lines it knows of the label."""


class NextbootZfs(NextbootUfs):
    """The order is in the label of the pool."""

    def deploy(
        self, running: RunningKernel, kernel: Kernel, archive: Path
    ) -> tuple[str, KernelContents]:
        """Copies the kernel to /boot; refuses another root, and a system before 13.0."""
        if not running.root.startswith("zfs:"):
            raise self.unfit(f"has its root on {running.root or 'an unknown device'}, not on ZFS")
        why = lacking(self.machine.ask(QUESTION)[0])
        if why:
            raise self.unfit(why)
        return BootMethod.deploy(self, running, kernel, archive)


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
