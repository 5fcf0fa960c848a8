"""A boot environment for tests, beside the good one, on a root on ZFS.

`bectl activate -t` has loader(8) boot it once: the order is in the label of the pool, and is reset
before the kernel starts (lib/libbe/be.c, be_activate() and be_deactivate(); 13.0 and later). The
environment is made as a clone of the running one if it does not exist, and can be destroyed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from netbisect.workers.dut.base import BootMethod, not_on_zfs, settings_file
from netbisect.workers.dut.running_kernel import RunningKernel

NAME = "netbisect"
"""Name of the boot environment."""
_LIST = ("bectl", "list", "-H")
_MOUNT = "/tmp/netbisect.root"  # noqa: S108 - on the DUT, whose only user is root


class BootEnvironment(BootMethod):
    """Kernels and their settings are in a boot environment of their own."""

    def misfit(self, running: RunningKernel) -> str:
        """Refuses a root that is not on ZFS, or in no boot environment."""
        return not_on_zfs(running) or lacking(running.root, self.machine.ask(_LIST)[0])

    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Writes the settings of that boot, and selects the environment for it."""
        with self.writable(self.root()) as boot:
            self.machine.run(["mkdir", "-p", f"{boot}/loader.conf.d"])  # the loader reads all in it
            settings = settings_file({"kernel": folder, **environment})
            self.write_atomically(f"{boot}/loader.conf.d/netbisect.conf", settings)
        self.machine.run(["bectl", "activate", "-t", NAME], ["sync"])

    def prove(self, running: RunningKernel, folder: str) -> str:
        """Compares the boot environment, then the file."""
        if not _is_test(running.root):
            return f"the root file system is {running.root}, expected the environment {NAME}"
        return super().prove(running, folder)

    def runs_known_good(self, running: RunningKernel) -> bool:
        """Whether another boot environment and the good folder run."""
        return not _is_test(running.root) and super().runs_known_good(running)

    def clean_up(self) -> None:
        """Cancels the temporary activation."""
        self.machine.try_run(["bectl", "activate", "-T", NAME])

    @contextlib.contextmanager
    def writable(self, root: str) -> Iterator[str]:
        """Mounts the boot environment, which is made if need be, unless it is the root."""
        if _is_test(root):
            yield self.boot
            return
        rows = self.machine.run(_LIST).splitlines()
        if not any(row.split("\t")[0] == NAME for row in rows):
            self.machine.run(["bectl", "create", NAME])
        self.machine.try_run(["bectl", "umount", NAME])  # left by an interrupted trial
        self.machine.run(["mkdir", "-p", _MOUNT], ["bectl", "mount", NAME, _MOUNT])
        try:
            yield f"{_MOUNT}/boot"
        finally:
            self.machine.run(["sync"], ["bectl", "umount", NAME])


def lacking(root: str, listed: str) -> str:
    """Why bectl(8) cannot be used on a root on ZFS, by the output of `bectl list -H`; "" if it can.

    It fails without output, and with the exit status of a lost connection, if libbe_init() does;
    a missing bectl(8) has no output either.
    """
    if listed:
        return ""
    return (
        f"has its root on {root}, and `bectl list` fails or shows no boot environment: "
        "expected FreeBSD 13.0 or later, a root such as zroot/ROOT/default, and the property "
        "bootfs of the pool; or use nextboot-zfs"
    )


def _is_test(root: str) -> bool:
    """Whether vfs.root.mountfrom, such as zfs:zroot/ROOT/default, is the one for tests."""
    return root.startswith("zfs:") and root.rpartition("/")[2] == NAME
