"""Ways to boot a kernel once and come back: what they have in common, and the first of them.

A way is chosen by `deploy` in the lab file. All of them put a kernel into a folder of its own
below a /boot that the known-good kernel does not depend on, name it for one boot in
nextboot.conf with what shall stand in its environment, and can take that back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Kernel
from netbisect.workers.faults import LabFault
from netbisect.workers.kernel_folder import Contents, Place, put
from netbisect.workers.lab import Dut
from netbisect.workers.running import Running
from netbisect.workers.ssh import Machine


class Deployment(Protocol):
    """How a DUT is given a kernel for one boot.

    Every method may raise what `Machine.run` raises.
    """

    by_itself: bool
    """The machine sees to it that the order holds for one boot; otherwise `release` must."""

    def install(self, running: Running, kernel: Kernel, archive: Path) -> tuple[str, Contents]:
        """Brings the kernel there; the name of its folder below /boot, and what is in it.

        Raises:
            LabFault: there is no room, what arrived is not what was sent, or the machine is not
                set up for this way.
        """
        ...

    def arm(self, folder: str, environment: Mapping[str, str]) -> None:
        """Names that kernel, with more for its environment, for the next boot and no other."""
        ...

    def disarm(self) -> None:
        """Takes an order back that was not carried out; harmless when there is none."""
        ...

    def release(self) -> None:
        """Takes the order back from outside of the machine, which may be in any state."""
        ...

    def misplaced(self, running: Running, folder: str) -> str:
        """Why what runs is not the kernel in that folder; "" when it is."""
        ...

    def is_home(self, running: Running) -> bool:
        """Whether what runs is the known-good kernel where it belongs."""
        ...


def nextboot_text(folder: str, environment: Mapping[str, str]) -> bytes:
    """A nextboot.conf; loader(8) reads whether it is enabled in the first line alone."""
    settings = {"nextboot_enable": "YES", "kernel": folder, **environment}
    return "".join(f'{name}="{value}"\n' for name, value in settings.items()).encode()


def wrong_file(running: Running, folder: str) -> str:
    """Why what runs was not loaded from that folder; "" when it was."""
    wanted = f"/boot/{folder}/kernel"
    if running.bootfile == wanted:
        return ""
    return f"the running kernel is {running.bootfile}, ordered was {wanted}"


class NextBoot:
    """nextboot(8) on a root file system that loader(8) can write to: UFS."""

    by_itself = True

    def __init__(self, machine: Machine, dut: Dut) -> None:
        self._machine = machine
        self._dut = dut

    def install(self, running: Running, kernel: Kernel, archive: Path) -> tuple[str, Contents]:
        """Into /boot of the DUT."""
        if running.root.startswith("zfs:"):
            raise LabFault.of(
                Fault.UNFIT,
                f"{self._machine.address} has its root on ZFS ({running.root}), where a kernel "
                "that panics would be booted again and again: deploy by nanobsd or pxe, or give "
                "it a root on UFS",
            )
        place = Place(self._machine, "/boot", self._dut.kept_kernels, running.directory)
        return put(place, kernel, archive)

    def arm(self, folder: str, environment: Mapping[str, str]) -> None:
        """By its own command, which knows how to write the file so that it is whole or absent."""
        settings = [part for one in environment.items() for part in ("-e", "=".join(one))]
        self._machine.run(["nextboot", *settings, "-k", folder], ["sync"])

    def disarm(self) -> None:
        """By its own command."""
        self._machine.try_run(["nextboot", "-D"])

    def release(self) -> None:
        """Nothing to do: loader(8) has switched the order off before the kernel ran."""

    def misplaced(self, running: Running, folder: str) -> str:
        """By the file that was loaded."""
        return wrong_file(running, folder)

    def is_home(self, running: Running) -> bool:
        """By the folder it was loaded from."""
        return running.directory == self._dut.known_good
