"""nextboot(8) with a root on ZFS, of FreeBSD 13.0 and later.

loader(8) cannot write to ZFS. nextboot(8) puts the order into the label of the pool (nextboot.sh,
lines 100 to 112 of 13.2), and the loader resets it there before it starts the kernel
(stand/libsa/zfs/zfs.c, lines 888 to 898; stand/lua/config.lua, lines 438 to 479).
"""

from __future__ import annotations

from netbisect.workers.dut.base import not_on_zfs
from netbisect.workers.dut.nextboot_ufs import NextbootUfs
from netbisect.workers.dut.running_kernel import RunningKernel

_PARTS = ("/sbin/nextboot", "/boot/lua/config.lua")
"""The program that writes the label, and the script that reads it."""
QUESTION = ("grep", "-c", "nvstore", *_PARTS)
"""Counts the lines of each part that mention the label."""


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
