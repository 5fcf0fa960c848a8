"""Programs that must match the kernel and are shipped with it.

pfctl(8) and ipfw(8) pass structures to the kernel. If the headers of these structures differ
between the revision and the DUT's programs, matching programs are built, linked statically, and
installed beside the kernel.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.checkout import Checkout
from netbisect.workers.build.make import Make
from netbisect.workers.build.objects import fingerprint
from netbisect.workers.config.dut import TOOLS_FOLDER
from netbisect.workers.config.lab import Lab
from netbisect.workers.transport.errors import LabFault

_FIREWALLS = {"pf": "pfctl", "ipfw": "ipfw"}
_NETLINK = "sys/netlink"
_PLACES = {
    "pfctl": ("sbin/pfctl", ("sys/net/pfvar.h", "sys/netpfil/pf", _NETLINK)),
    "ipfw": (
        "sbin/ipfw",
        ("sys/netinet/ip_fw.h", "sys/netinet/ip_dummynet.h", "sys/netinet6/ip_fw_nat64.h"),
    ),
    "ifconfig": ("sbin/ifconfig", ("sys/net/if.h", "sys/sys/sockio.h", _NETLINK)),
    "netstat": ("usr.bin/netstat", ("sys/net/if.h", "sys/net/route.h", _NETLINK)),
}
"""Folder of each program in the tree, and headers of its structures."""
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

Needs = Mapping[str, Collection[str]]
"""Revisions of the DUTs' programs, by program."""


def needs_of(lab: Lab, arch: str, conf: str) -> dict[str, set[str]]:
    """Required programs of the testbeds with a kernel of this TARGET and KERNCONF.

    `conf` is without overlays and patches.

    Raises:
        FileError: unreadable scenario.
    """
    found: dict[str, set[str]] = {}
    for testbed in lab.testbeds:
        dut = testbed.dut
        if testbed.arch != arch or conf not in testbed.kernel_configs or not dut.userland:
            continue
        tools = dut.tools
        if tools is None:
            scenarios = lab.scenarios_of(testbed)
            tools = tuple(_FIREWALLS[one.firewall] for one in scenarios if one.firewall)
        for name in tools:
            found.setdefault(name, set()).add(dut.userland)
    return found


@dataclass(frozen=True, slots=True)
class Userland:
    """The programs of one build."""

    checkout: Checkout
    make: Make
    needs: Needs

    def add_to(self, stage: Path) -> None:
        """Builds the required programs into the kernel's folder.

        Raises:
            LabFault: build failure, or unknown revision of a DUT's programs.
        """
        names = self.differing()
        if names:
            self.checkout.say(f"the kernel needs its own programs: {', '.join(names)}")
            self.make.libraries()
        for name in names:
            built = self.make.program(_PLACES[name][0])
            (stage / TOOLS_FOLDER).mkdir(exist_ok=True)
            shutil.copy2(built, stage / TOOLS_FOLDER / name)

    def differing(self) -> list[str]:
        """Programs whose structures differ from those of a DUT."""
        return [
            name
            for name, revisions in sorted(self.needs.items())
            if any(self._interface_of(name) != self._interface_of(name, one) for one in revisions)
        ]

    def _interface_of(self, name: str, revision: str = "") -> str:
        """Fingerprint of a program's headers without comments, by default of the work tree."""
        paths = _PLACES[name][1]
        headers = (
            self._headers_in_tree(paths) if not revision else self._headers_at(revision, paths)
        )
        described = [
            f"{path} {b' '.join(_COMMENT.sub(b' ', data).split())!r}"
            for path, data in sorted(headers.items())
        ]
        return fingerprint(*described)

    def _headers_in_tree(self, paths: Collection[str]) -> dict[str, bytes]:
        tree = self.checkout.tree
        files = [
            file
            for path in paths
            for file in ((tree / path).rglob("*.h") if (tree / path).is_dir() else [tree / path])
        ]
        return {
            file.relative_to(tree).as_posix(): file.read_bytes() for file in files if file.is_file()
        }

    def _headers_at(self, revision: str, paths: Collection[str]) -> dict[str, bytes]:
        if not self.checkout.has(revision):
            repository = self.checkout.source.repository
            why = f"userland {revision[:12]} of the lab file is on no branch of {repository}"
            raise LabFault(Fault.USAGE, why, stage=Stage.BUILD)
        listed = self.checkout.git_says("ls-tree", "-r", "--name-only", revision, "--", *paths)
        names = [name for name in listed.splitlines() if name.endswith(".h")]
        return {name: self.checkout.git_gives("show", f"{revision}:{name}") for name in names}
