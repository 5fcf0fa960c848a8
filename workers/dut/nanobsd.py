"""Two root partitions, as on NanoBSD and BSDRP: one known-good, one for tests.

gptboot(8) boots the test partition once when it has the attribute `bootonce`, and removes its
`bootme` before the boot. Every other boot is of the good partition, which keeps `bootme` and is
never written to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from netbisect.workers.config.dut import Dut
from netbisect.workers.dut.base import BootMethod, nextboot_conf
from netbisect.workers.dut.running_kernel import RunningKernel
from netbisect.workers.transport.errors import CommandError
from netbisect.workers.transport.ssh import Connections

_MOUNT = "/tmp/netbisect.root"  # noqa: S108 - on the DUT, whose only user is root
_FSCK_TIMEOUT = 300.0
_PARTITION = re.compile(r"\s+\d+\s+\d+\s+(?P<disk>\S+?)p(?P<index>\d+)\s+(?P<label>\S+)")
"""A line of `gpart show -lp`: begin, length, provider, label."""


class NanoBsdBoot(BootMethod):
    """Kernels and nextboot.conf are on the test partition."""

    def __init__(self, dut: Dut, connections: Connections) -> None:
        super().__init__(dut, connections)
        assert dut.nanobsd is not None
        self._layout = dut.nanobsd

    def misfit(self, running: RunningKernel) -> str:
        """Refuses a root on neither partition."""
        good, test = self._layout.good, self._layout.test
        if _label(running.root) in (good, test):
            return ""
        root = running.root or "an unknown device"
        return f"has its root on {root}, which is neither of the partitions {good} and {test}"

    def boot_once(self, folder: str, environment: Mapping[str, str]) -> None:
        """Writes nextboot.conf to the test partition and sets `bootonce`."""
        with self.writable(self.root()) as boot:
            self.write_atomically(f"{boot}/nextboot.conf", nextboot_conf(folder, environment))
        good, test = self._partitions()
        self.machine.run(_gpart("set", "bootme", *good), _gpart("set", "bootonce", *test), ["sync"])

    def prove(self, running: RunningKernel, folder: str) -> str:
        """Compares the root partition, then the file."""
        if running.root and _label(running.root) != self._layout.test:
            return f"the root file system is {running.root}, expected {self._layout.test}"
        return super().prove(running, folder)

    def runs_known_good(self, running: RunningKernel) -> bool:
        """Whether partition and folder are the good ones."""
        return _label(running.root) == self._layout.good and super().runs_known_good(running)

    def clean_up(self) -> None:
        """Removes the boot attributes of the test partition."""
        good, test = self._partitions()
        self.machine.run(
            _gpart("set", "bootme", *good),
            _gpart("unset", "bootonce", *test),
            _gpart("unset", "bootme", *test),
        )

    @contextlib.contextmanager
    def writable(self, root: str) -> Iterator[str]:
        """Mounts the test partition for writing, whichever partition is the root."""
        run, try_run = self.machine.run, self.machine.try_run
        if _label(root) == self._layout.test:
            run(["mount", "-uw", "/"])
            try:
                yield self.boot
            finally:
                # Fails while a deleted file is in use; harmless on a test system.
                try_run(["mount", "-ur", "/"])
            return
        device = f"/dev/gpt/{self._layout.test}"
        try_run(["umount", _MOUNT])  # left by an interrupted trial
        try:
            # A panic leaves a file system dirty that was mounted for writing.
            run(["fsck_ffs", "-p", device], timeout=_FSCK_TIMEOUT)
            run(["mkdir", "-p", _MOUNT], ["mount", device, _MOUNT])
        except CommandError as error:
            raise self.unfit(f"cannot mount {device}: {error.output.strip()}") from error
        try:
            yield f"{_MOUNT}/boot"
        finally:
            run(["sync"], ["umount", _MOUNT])

    def _partitions(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Index and disk of the good and of the test partition."""
        found = {
            match["label"]: (match["index"], match["disk"])
            for line in self.machine.run(["gpart", "show", "-lp"]).splitlines()
            if (match := _PARTITION.match(line))
        }
        for label in (self._layout.good, self._layout.test):
            if label not in found:
                known = ", ".join(name for name in found if name != "(null)") or "none"
                raise self.unfit(f"has no GPT partition labelled {label}; labels: {known}")
        return found[self._layout.good], found[self._layout.test]


def _gpart(verb: str, attribute: str, index: str, disk: str) -> list[str]:
    return ["gpart", verb, "-a", attribute, "-i", index, disk]


def _label(root: str) -> str:
    """Label of the partition with the root file system, from vfs.root.mountfrom."""
    return root.rpartition("/")[2]
