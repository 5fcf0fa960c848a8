"""Network boot (PXE) with the root file system on an NFS server.

loader(8) cannot write there, so it would obey nextboot.conf at every boot. The file is removed on
the server once the console shows the start of the kernel or the DUT answers, and always before a
power cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from netbisect.workers.config.dut import Dut
from netbisect.workers.dut.base import BootMethod, nextboot_conf
from netbisect.workers.dut.running_kernel import RunningKernel
from netbisect.workers.transport.ssh import Connections


class PxeBoot(BootMethod):
    """Kernels and nextboot.conf are below the DUT's root on the server."""

    one_shot = False

    def __init__(self, dut: Dut, connections: Connections) -> None:
        assert dut.pxe is not None
        self.dut = dut
        self.machine = connections.machine(dut.pxe.server)
        self.boot = f"{dut.pxe.root.rstrip('/')}/boot"
        self._order = f"{self.boot}/nextboot.conf"

    def misfit(self, running: RunningKernel) -> str:  # noqa: ARG002 - the server tells
        """Why the server cannot be used: it lacks the known-good kernel."""
        good, names = self.dut.known_good, self.machine.run(["ls", "-1t", self.boot]).splitlines()
        address = self.machine.address
        return "" if good in names else f"has no kernel {good} in {self.boot} on {address}"

    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Replaces nextboot.conf."""
        self.write_atomically(self._order, nextboot_conf(folder, environment))

    def clean_up(self) -> None:
        """Deletes nextboot.conf."""
        self.machine.run(["rm", "-f", self._order, f"{self._order}.new"])

    fall_back = clean_up  # the server works in any state of the DUT
