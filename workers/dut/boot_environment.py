"""A boot environment for tests, beside the good one, on a root on ZFS.

`bectl activate -t` has loader(8) boot it once: the order is in the label of the pool, and is reset
before the kernel starts (lib/libbe/be.c, be_activate() and be_deactivate(); 13.0 and later). The
environment is made as a clone of the running one when there is none, and can be destroyed at will.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from netbisect.bisect.model.entities import Kernel
from netbisect.workers.dut.base import BootMethod
from netbisect.workers.dut.kernel_folder import BootFolder, KernelContents, install_kernel
from netbisect.workers.dut.running_kernel import RunningKernel

NAME = "netbisect"
"""Of the boot environment."""
_MOUNT = "/tmp/netbisect.root"  # noqa: S108 - on the DUT, whose only user is root
_ORDER = "loader.conf.d/netbisect.conf"
"""Below /boot: the loader reads all files of that folder."""


class BootEnvironment(BootMethod):
    """Kernels and their settings are in a boot environment of their own."""

    def deploy(
        self, running: RunningKernel, kernel: Kernel, archive: Path
    ) -> tuple[str, KernelContents]:
        """Copies the kernel into the boot environment, which is made if need be."""
        if not running.root.startswith("zfs:"):
            raise self.unfit(f"has its root on {running.root or 'an unknown device'}, not on ZFS")
        rows = self.machine.run(["bectl", "list", "-H"]).splitlines()
        if not any(row.split("\t")[0] == NAME for row in rows):
            self.machine.run(["bectl", "create", NAME])
        with self._test_root(running.root) as boot:
            used = running.directory if _is_test(running.root) else ""
            place = BootFolder(self.machine, boot, self.dut.kept_kernels, used)
            return install_kernel(place, kernel, archive)

    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Writes the settings of that boot, and has it boot once."""
        settings = {"kernel": folder, **environment}
        text = "".join(f'{name}="{value}"\n' for name, value in settings.items()).encode()
        with self._test_root(self.machine.run(["kenv", "vfs.root.mountfrom"]).strip()) as boot:
            order = f"{boot}/{_ORDER}"
            self.machine.run(
                ["mkdir", "-p", f"{boot}/loader.conf.d"],
                ["tee", f"{order}.new"],
                ["mv", f"{order}.new", order],
                stdin=text,
            )
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
    def _test_root(self, root: str) -> Iterator[str]:
        """Mounts the boot environment, unless it is the root; yields the path of its /boot."""
        if _is_test(root):
            yield "/boot"
            return
        self.machine.try_run(["bectl", "umount", NAME])  # left by an interrupted trial
        self.machine.run(["mkdir", "-p", _MOUNT], ["bectl", "mount", NAME, _MOUNT])
        try:
            yield f"{_MOUNT}/boot"
        finally:
            self.machine.run(["sync"], ["bectl", "umount", NAME])


def _is_test(root: str) -> bool:
    """Whether vfs.root.mountfrom, such as zfs:zroot/ROOT/default, is the one for tests."""
    return root.startswith("zfs:") and root.rpartition("/")[2] == NAME
