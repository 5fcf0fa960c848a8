"""A DUT with two root partitions, as NanoBSD and BSDRP have them: one good, one for tests.

The test partition is an upgrade partition with a system of its own. gptboot(8) boots it once when
it has the attribute `bootonce`, and takes `bootme` from it before it does; whatever becomes of
that boot, the next one is of the good partition, which keeps `bootme` and is never written to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Kernel
from netbisect.workers.deploy import nextboot_text, wrong_file
from netbisect.workers.faults import CommandError, LabFault
from netbisect.workers.kernel_folder import Contents, Place, put
from netbisect.workers.lab import Dut, NanoBsd
from netbisect.workers.running import Running
from netbisect.workers.ssh import Machine

_MOUNT = "/tmp/netbisect.root"  # noqa: S108 - on the DUT, whose only user is root
_FSCK_TIMEOUT = 300.0
_PARTITION = re.compile(r"\s+\d+\s+\d+\s+(?P<disk>\S+?)p(?P<index>\d+)\s+(?P<label>\S+)")
"""Of `gpart show -lp`: begin, length, provider, label."""


@dataclass(frozen=True, slots=True)
class _Partition:
    disk: str
    index: str


class TwoPartitions:
    """Kernel and order lie in the test partition."""

    by_itself = True

    def __init__(self, machine: Machine, layout: NanoBsd, dut: Dut) -> None:
        self._machine = machine
        self._layout = layout
        self._dut = dut

    def install(self, running: Running, kernel: Kernel, archive: Path) -> tuple[str, Contents]:
        """Into /boot of the test partition, which may be the one that runs."""
        label = _label(running)
        if label not in (self._layout.good, self._layout.test):
            raise self._unfit(
                f"has its root on {running.root or 'something unknown'}, which is neither of the "
                f"partitions {self._layout.good} and {self._layout.test}"
            )
        on_test = label == self._layout.test
        with self._test_root(here=on_test) as boot:
            there = running.directory if on_test else ""
            return put(Place(self._machine, boot, self._dut.kept_kernels, there), kernel, archive)

    def arm(self, folder: str, environment: Mapping[str, str]) -> None:
        """Writes the order into the test partition, which is then to be booted once."""
        text = nextboot_text(folder, environment)
        here = self._machine.run(["kenv", "vfs.root.mountfrom"]).strip()
        with self._test_root(here=here.rpartition("/")[2] == self._layout.test) as boot:
            order = f"{boot}/nextboot.conf"
            self._machine.run(["tee", f"{order}.new"], ["mv", f"{order}.new", order], stdin=text)
        good, test = self._partitions()
        self._machine.run(
            ["gpart", "set", "-a", "bootme", "-i", good.index, good.disk],
            ["gpart", "set", "-a", "bootonce", "-i", test.index, test.disk],
            ["sync"],
        )

    def disarm(self) -> None:
        """Takes from the test partition what it would be booted by."""
        good, test = self._partitions()
        self._machine.run(
            ["gpart", "set", "-a", "bootme", "-i", good.index, good.disk],
            ["gpart", "unset", "-a", "bootonce", "-i", test.index, test.disk],
            ["gpart", "unset", "-a", "bootme", "-i", test.index, test.disk],
        )

    def release(self) -> None:
        """Nothing to do: gptboot has taken `bootme` away before it loaded anything."""

    def misplaced(self, running: Running, folder: str) -> str:
        """By the file that was loaded, and the partition it came from."""
        if running.root and _label(running) != self._layout.test:
            return f"the root file system is {running.root}, ordered was {self._layout.test}"
        return wrong_file(running, folder)

    def is_home(self, running: Running) -> bool:
        """By partition and folder."""
        home = _label(running) == self._layout.good
        return home and running.directory == self._dut.known_good

    # ------------------------------------------------------------------------------- partitions

    @contextlib.contextmanager
    def _test_root(self, *, here: bool) -> Iterator[str]:
        """The /boot of the test partition, writable for as long as the block lasts."""
        run, try_run = self._machine.run, self._machine.try_run
        if here:
            run(["mount", "-uw", "/"])
            try:
                yield "/boot"
            finally:
                # A file that was deleted while in use may keep it writable; no matter for a test.
                try_run(["mount", "-ur", "/"])
            return
        device = f"/dev/gpt/{self._layout.test}"
        try_run(["umount", _MOUNT])  # left by a visit that was ended by force
        try:
            # A kernel that panics leaves it dirty when it had been mounted for writing.
            self._machine.run(["fsck_ffs", "-p", device], timeout=_FSCK_TIMEOUT)
            run(["mkdir", "-p", _MOUNT], ["mount", device, _MOUNT])
        except CommandError as error:
            raise self._unfit(f"cannot mount {device}: {error.said.strip()}") from error
        try:
            yield f"{_MOUNT}/boot"
        finally:
            run(["sync"], ["umount", _MOUNT])

    def _partitions(self) -> tuple[_Partition, _Partition]:
        """Good and test."""
        shown = self._machine.run(["gpart", "show", "-lp"])
        found = {
            match["label"]: _Partition(match["disk"], match["index"])
            for match in map(_PARTITION.match, shown.splitlines())
            if match
        }
        missing = [name for name in (self._layout.good, self._layout.test) if name not in found]
        if missing:
            known = ", ".join(name for name in found if name != "(null)") or "none"
            raise self._unfit(f"has no GPT partition with the label {missing[0]}; there is {known}")
        return found[self._layout.good], found[self._layout.test]

    def _unfit(self, why: str) -> LabFault:
        return LabFault.of(Fault.UNFIT, f"{self._machine.address} {why}")


def _label(running: Running) -> str:
    """Of the partition that the root file system is on."""
    return running.root.rpartition("/")[2]
