"""The script that holds a key to what netbisect does: it takes that, and nothing like it."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guard_fixtures import RAN, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from netbisect.bisect.model import Kernel
from netbisect.workers.artefact import key_of
from netbisect.workers.deploy_nanobsd import TwoPartitions
from netbisect.workers.deploy_pxe import NetworkBoot
from netbisect.workers.lab import Dut, NanoBsd, Port, Pxe, Ssh
from netbisect.workers.running import Running
from netbisect.workers.ssh import Machine

NAME = "kernel.nb-0123456789ab"
_BOOT = f"/boot/{NAME}"


AWKS = [one for one in map(shutil.which, ("mawk", "gawk", "original-awk", "busybox")) if one]
"""FreeBSD's is Debian's original-awk."""

by_any_awk = pytest.mark.parametrize("awk", AWKS or [""], ids=lambda path: Path(path).name)


@by_any_awk
def test_what_netbisect_says_is_run(tmp_path: Path, awk: str) -> None:
    """A visit's lines are, by any awk that is here."""
    for role, root, commands in (
        ("dut", "", [["sysctl", "-ie", "kern.bootfile"], ["uname", "-v"], ["kenv"]]),
        ("dut", "", [["cd", f"{_BOOT}.new"], ["sha256", "-r", "kernel", "pf.ko"]]),
        ("dut", "", [["rm", "-rf", f"{_BOOT}.new", _BOOT], ["mkdir", "-p", f"{_BOOT}.new"]]),
        ("dut", "", [["ipfw", "-q", "add", "allow", "ip", "from", "any", "to", "any", "{", "x"]]),
        ("dut", "", [[f"{_BOOT}/netbisect-tools/pfctl", "-q", "-f", "-"], ["sync"]]),
        ("server", "/diskless/c2558", [["rm", "-rf", f"/diskless/c2558{_BOOT}"]]),
        (
            "traffic",
            "",
            [["timeout", "-s", "INT", "180", "pkt-gen", "-N", "-s", "[2001:db8::1]:2"]],
        ),
    ):
        line = " && ".join(shlex.join(one) for one in commands)
        assert verdict(tmp_path, line, role, root, awk) == RAN, line


@by_any_awk
@pytest.mark.parametrize(
    ("role", "line"),
    [
        ("dut", "id"),
        ("dut", "uname -v; id"),
        ("dut", "uname -v;"),
        ("dut", "uname -v & id"),
        ("dut", "uname -v || id"),
        ("dut", "uname -v $(id)"),
        ("dut", 'uname "$(id)"'),
        ("dut", "uname -v\nid"),
        ("dut", "X=1 uname -v"),
        ("dut", "ipfw -q add \\allow ip from any to any"),
        ("dut", "'uname -v'"),
        ("dut", "uname '-v"),
        ("dut", "uname '-v; id'"),
        ("dut", f"rm -rf {_BOOT}/.."),
        ("dut", "rm -rf /boot/kernel"),
        ("dut", f"mv {_BOOT} /boot/kernel"),
        ("dut", "tar -xzpf - -C /"),
        ("dut", "tee /etc/rc.conf"),
        ("dut", "sha256 -r /etc/master.passwd"),
        ("dut", "nextboot -k kernel"),
        ("dut", "pmcstat -R /var/tmp/netbisect-profile/samples -z 50 -k /boot/x -G /etc/passwd"),
        ("dut", "/tmp/kernel.nb-0/netbisect-tools/pfctl -q -d"),
        ("traffic", "shutdown -r now"),
        ("traffic", "kldload -n pf"),
        ("server", "uname -v"),
        ("server", f"rm -rf {_BOOT}"),
        ("nobody", "true"),
        ("dut", ""),
    ],
)
def test_what_it_does_not_say_is_not_run(tmp_path: Path, role: str, line: str, awk: str) -> None:
    """Shell of any kind, other programs, other files."""
    assert RAN not in verdict(tmp_path, line, role, "/root" if role == "server" else "", awk)


_WORDS = st.lists(st.text("ab./-'\"$`;&|<>(){}*?~# \\\t=!", min_size=1, max_size=6), max_size=4)


@by_any_awk
@settings(max_examples=30)
@given(words=_WORDS)
def test_quoting_hides_nothing(
    words: list[str], awk: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever stands beside an allowed command, quoted or not, makes it another one."""
    folder = tmp_path_factory.getbasetemp() / f"guard-{Path(awk).name}"
    folder.mkdir(exist_ok=True)
    for line in (shlex.join(["sync", *words]), " ".join(["sync", *words])):
        assert (verdict(folder, line, awk=awk) == RAN) is (line.strip(" ") == "sync"), line


GPART = """=>      40  31277152  da0  GPT  (15G)
      1064   2097152  da0p2  BSDRP1  [bootme]  (1.0G)
   2098216   2097152  da0p3  BSDRP2  (1.0G)
"""


class Obliging(Machine):
    """Answers so that everything goes on, and keeps what it was asked."""

    def __init__(self, hashes: str) -> None:
        super().__init__("machine", Ssh(), Path("socket"))
        self.lines: list[str] = []
        self._hashes = hashes

    @contextlib.contextmanager
    def _running_line(self, line: str, *_: object, **__: object) -> Iterator[Callable[[], str]]:
        self.lines.append(line)
        yield lambda: self._answer(line)

    def _answer(self, line: str) -> str:
        if "gpart show" in line:
            return GPART
        if line.startswith("df "):
            return f"Filesystem\nda0 9 9 {9 << 20} 9% /\n{NAME}\nkernel.nb-ffffffffffff\nkernel\n"
        return self._hashes if "tar " in line else "ufs:/dev/gpt/BSDRP1\n"


@pytest.mark.parametrize("on_test", [False, True])
def test_both_other_ways_to_boot_a_kernel_get_through(tmp_path: Path, *, on_test: bool) -> None:
    """Two partitions, from the good and from the test one; and a server of the root."""
    (tmp_path / "kernel").write_bytes(b"x")
    with tarfile.open(tmp_path / "kernel.tar", "w:gz") as tar:
        tar.add(tmp_path / "kernel", "kernel")
    kernel = Kernel(
        40 * "a", "GENERIC", "amd64", 64 * "b", key_of(tmp_path / "kernel.tar"), "n1", 1, 0.0, 1.0
    )
    label = "BSDRP2" if on_test else "BSDRP1"
    root = {"vfs.root.mountfrom": f"ufs:/dev/gpt/{label}"}
    running = Running("/boot/kernel/kernel", 0.0, "FreeBSD", root)
    layout, pxe = NanoBsd("BSDRP1", "BSDRP2"), Pxe("server", Path("/roots/d1518").as_posix())
    ports = Port(interface="a"), Port(interface="b")
    dut = Dut("d", *ports, kept_kernels=1, deploy="nanobsd", nanobsd=layout)
    said = f"{hashlib.sha256(b'x').hexdigest()} kernel\n"
    for role, place in (("dut", ""), ("server", "/roots/d1518")):
        machine = Obliging(said)
        way = (
            TwoPartitions(machine, layout, dut) if role == "dut" else NetworkBoot(machine, pxe, dut)
        )
        folder, _ = way.install(running, kernel, tmp_path / "kernel.tar")
        way.arm(folder, {"netbisect.order": 32 * "0", "debug.debugger_on_panic": "0"})
        way.disarm()
        way.release()

        assert len(machine.lines) > 8
        refused = [one for one in machine.lines if verdict(tmp_path, one, role, place) != RAN]
        assert refused == []
