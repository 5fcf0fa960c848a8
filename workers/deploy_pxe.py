"""A DUT that boots over the network and has its root on an NFS server.

loader(8) cannot write there, so nextboot.conf would be obeyed at every boot. It is removed on the
server as soon as the console shows that the kernel starts, or the DUT answers, and at the latest
before its power is cycled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from netbisect.bisect.model import Kernel
from netbisect.workers.deploy import nextboot_text, wrong_file
from netbisect.workers.kernel_folder import Contents, Place, put
from netbisect.workers.lab import Dut, Pxe
from netbisect.workers.running import Running
from netbisect.workers.ssh import Machine


class NetworkBoot:
    """Kernel and order lie below the DUT's root on the server."""

    by_itself = False

    def __init__(self, server: Machine, pxe: Pxe, dut: Dut) -> None:
        self._server = server
        self._dut = dut
        self._boot = f"{pxe.root.rstrip('/')}/boot"
        self._order = f"{self._boot}/nextboot.conf"

    def install(self, running: Running, kernel: Kernel, archive: Path) -> tuple[str, Contents]:
        """Into /boot below the DUT's root on the server."""
        place = Place(self._server, self._boot, self._dut.kept_kernels, running.directory)
        return put(place, kernel, archive)

    def arm(self, folder: str, environment: Mapping[str, str]) -> None:
        """Writes the order; it is there whole or not at all."""
        work = f"{self._order}.new"
        text = nextboot_text(folder, environment)
        self._server.run(["tee", work], ["mv", work, self._order], ["sync"], stdin=text)

    def disarm(self) -> None:
        """Removes the order on the server."""
        self._server.run(["rm", "-f", self._order, f"{self._order}.new"])

    def release(self) -> None:
        """As `disarm`: the machine has no part in it."""
        self.disarm()

    def misplaced(self, running: Running, folder: str) -> str:
        """By the file that was loaded."""
        return wrong_file(running, folder)

    def is_home(self, running: Running) -> bool:
        """By the folder it was loaded from."""
        return running.directory == self._dut.known_good
