"""The interface of a boot method: one way to boot a test kernel once.

docs/boot-methods.md shows how to add one.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from netbisect.bisect.model.entities import Kernel
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.dut import Dut
from netbisect.workers.dut.kernel_folder import BootFolder, KernelContents, install_kernel
from netbisect.workers.dut.running_kernel import RunningKernel, read_running_kernel
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.ssh import Connections


class BootMethod(ABC):
    """Deploys a kernel and boots it once; every other boot loads the known-good kernel.

    A subclass must implement `boot_once` and `clean_up`. Every method may raise what `Machine.run`
    raises.
    """

    one_shot: ClassVar[bool] = True
    """Whether the machine itself limits the order to one boot; if not, override `fall_back`."""
    boot = "/boot"
    """Absolute path of the folder with test kernels, on `machine`."""

    def __init__(self, dut: Dut, connections: Connections) -> None:
        self.dut = dut
        self.machine = connections.machine(dut.address)

    def misfit(self, running: RunningKernel) -> str:  # noqa: ARG002 - for subclasses
        """Returns why the machine does not fit this method, or ""."""
        return ""

    @contextlib.contextmanager
    def writable(self, root: str) -> Iterator[str]:  # noqa: ARG002 - for subclasses
        """Makes the folder of test kernels writable within the block.

        Args:
            root: Root file system of the running kernel, as vfs.root.mountfrom.

        Yields:
            Absolute path of the folder, on `machine`.
        """
        yield self.boot

    def deploy(
        self, running: RunningKernel, kernel: Kernel, archive: Path
    ) -> tuple[str, KernelContents]:
        """Copies the kernel into a folder of its own.

        Returns:
            The name of that folder, and the hashes of its files.

        Raises:
            LabFault: the disk is full, a file arrived damaged, or the machine does not fit this
                method.
        """
        if why := self.misfit(running):
            raise self.unfit(why)
        with self.writable(running.root) as boot:
            place = BootFolder(self.machine, boot, self.dut.kept_kernels, running.directory)
            return install_kernel(place, kernel, archive)

    @abstractmethod
    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Selects the kernel in `folder` for the next boot only.

        Args:
            folder: Name below /boot, as returned by `deploy`.
            environment: Settings for kenv(1) of that boot.
        """

    def prove(self, running: RunningKernel, folder: str) -> str:
        """Returns why `running` is not the kernel in `folder`, or "" if it is."""
        expected = f"/boot/{folder}/kernel"
        if running.bootfile == expected:
            return ""
        return f"the running kernel is {running.bootfile}, expected {expected}"

    def runs_known_good(self, running: RunningKernel) -> bool:
        """Whether `running` is the known-good kernel."""
        return running.directory == self.dut.known_good

    def fall_back(self) -> None:  # noqa: B027 - optional
        """Makes the next boot load the known-good kernel, without help from the DUT."""

    @abstractmethod
    def clean_up(self) -> None:
        """Cancels a pending `boot_once`, if any."""

    def unfit(self, why: str) -> LabFault:
        """The fault of a machine that this method cannot boot."""
        return LabFault(Fault.UNFIT, f"{self.machine.address} {why}")

    def root(self) -> str:
        """Root file system of the running kernel, as vfs.root.mountfrom, or ""."""
        return read_running_kernel(self.machine).root

    def write_atomically(self, path: str, text: bytes) -> None:
        """Replaces a file on `machine`."""
        self.machine.run(["tee", f"{path}.new"], ["mv", f"{path}.new", path], ["sync"], stdin=text)


def not_on_zfs(running: RunningKernel) -> str:
    """Returns why a method for ZFS does not fit a machine, or ""."""
    root = running.root or "an unknown device"
    return "" if root.startswith("zfs:") else f"has its root on {root}, not on ZFS"


def settings_file(settings: Mapping[str, str]) -> bytes:
    """Settings in the form of loader.conf(5)."""
    return "".join(f'{name}="{value}"\n' for name, value in settings.items()).encode()


def nextboot_conf(folder: str, environment: Mapping[str, str]) -> bytes:
    """A nextboot.conf; loader(8) expects `nextboot_enable` in the first line."""
    return settings_file({"nextboot_enable": "YES", "kernel": folder, **environment})
