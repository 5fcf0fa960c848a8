"""Programs that must fit the kernel, where those on the DUT do not: they travel with it.

pfctl(8) and ipfw(8) hand structures to the kernel that change from time to time. Where the headers
that define them differ between a revision and the one that the DUT's own programs are of,
the programs are built from the revision too, linked statically, and lie in a folder beside its
kernel.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Stage
from netbisect.workers.checkout import Checkout
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Lab, load_scenario
from netbisect.workers.make import Make
from netbisect.workers.objects import fingerprint
from netbisect.workers.ssh import Machine

FOLDER = "netbisect-tools"
"""Beside the kernel, in its artefact and on the DUT."""
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
"""By program: its folder in the tree, and where its structures are: headers, or folders of them."""
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

Needs = Mapping[str, Collection[str]]
"""By program: full hashes of the revisions that the programs on DUTs are of."""


def needs_of(lab: Lab, arch: str, conf: str) -> dict[str, set[str]]:
    """What the testbeds that boot such kernels need, going by the lab file.

    Args:
        lab: The lab file.
        arch: Of the kernel.
        conf: Its configuration, without overlays and patches.

    Raises:
        FileError: a scenario cannot be read.
    """
    found: dict[str, set[str]] = {}
    for testbed in lab.testbeds:
        dut = testbed.dut
        if (testbed.arch, testbed.kernel_config) != (arch, conf) or not dut.userland:
            continue
        tools = dut.tools
        if tools is None:
            scenarios = [
                load_scenario(name, lab.scenario_directories) for name in testbed.scenarios
            ]
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
    say: Callable[[str], None]

    def add_to(self, stage: Path) -> list[str]:
        """Builds what must travel with the kernel into its installed folder; the names of it.

        Raises:
            LabFault: one of them does not build, or a DUT's own revision is not in the tree.
        """
        names = self.differing()
        if names:
            self.say(f"the kernel needs programs of its own: {', '.join(names)}")
            self.make.libraries()
        for name in names:
            built = self.make.program(_PLACES[name][0])
            (stage / FOLDER).mkdir(exist_ok=True)
            shutil.copy2(built, stage / FOLDER / name)
        return names

    def differing(self) -> list[str]:
        """The programs whose way to speak to the kernel is not that of every DUT's own."""
        return [
            name
            for name, revisions in sorted(self.needs.items())
            if any(self._spoken(name) != self._spoken(name, one) for one in revisions)
        ]

    def _spoken(self, name: str, revision: str = "") -> str:
        """The same for two trees whose headers for a program say the same; comments say nothing.

        Args:
            name: The program.
            revision: Of the tree; what is checked out, with its patches, when empty.
        """
        paths = _PLACES[name][1]
        headers = self._there(paths) if not revision else self._at(revision, paths)
        said = [
            f"{path} {b' '.join(_COMMENT.sub(b' ', data).split())!r}"
            for path, data in sorted(headers.items())
        ]
        return fingerprint(*said)

    def _there(self, paths: Collection[str]) -> dict[str, bytes]:
        tree = self.checkout.tree
        files = [
            file
            for path in paths
            for file in ((tree / path).rglob("*.h") if (tree / path).is_dir() else [tree / path])
        ]
        return {
            file.relative_to(tree).as_posix(): file.read_bytes() for file in files if file.is_file()
        }

    def _at(self, revision: str, paths: Collection[str]) -> dict[str, bytes]:
        if self.checkout.git_says("cat-file", "-t", f"{revision}^{{commit}}") != "commit":
            raise LabFault.of(
                Fault.USAGE,
                f"userland {revision[:12]} of the lab file is on no branch of "
                f"{self.checkout.source.repository}",
                stage=Stage.BUILD,
            )
        listed = self.checkout.git_says("ls-tree", "-r", "--name-only", revision, "--", *paths)
        names = [name for name in listed.splitlines() if name.endswith(".h")]
        if not names:
            return {}
        done = subprocess.run(
            ["git", "archive", "--format=tar", revision, "--", *names],
            cwd=self.checkout.tree,
            capture_output=True,
            check=True,
        )
        found = {}
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            for member in tar:
                stream = tar.extractfile(member)
                if stream is not None:
                    found[member.name] = stream.read()
        return found


def use(machine: Machine) -> None:
    """Has commands on a DUT find the programs that came with the kernel it runs, if any did.

    Raises what `Machine.run` raises.
    """
    bootfile = machine.run(["sysctl", "-n", "kern.bootfile"]).strip()
    folder = f"{bootfile.rpartition('/')[0]}/{FOLDER}"
    names = machine.ask(["ls", "-1", folder])[0].split()
    machine.programs = {name: f"{folder}/{name}" for name in names if name in _PLACES}
