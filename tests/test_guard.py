"""The script that holds a key to what netbisect does: it takes that, and nothing like it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from guard_fixtures import RAN, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

_NAME = "kernel.nb-0123456789ab"
_BOOT = f"/boot/{_NAME}"


AWKS = [one for one in map(shutil.which, ("mawk", "gawk", "original-awk", "busybox")) if one]


@pytest.mark.parametrize("awk", [one for one in AWKS if "busybox" not in one])
def test_what_netbisect_says_is_run(tmp_path: Path, awk: str) -> None:
    """A visit's lines, by any awk that is here."""
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
def test_what_it_does_not_say_is_not_run(tmp_path: Path, role: str, line: str) -> None:
    """Shell of any kind, other programs, other files."""
    assert RAN not in verdict(tmp_path, line, role, "/root" if role == "server" else "")


_WORDS = st.lists(st.text("ab./-'\"$`;&|<>(){}*?~# \\\t=!", min_size=1, max_size=6), max_size=4)


@settings(max_examples=60)
@given(words=_WORDS)
def test_quoting_hides_nothing(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands beside an allowed command, quoted or not, makes it another one."""
    folder = tmp_path_factory.getbasetemp() / "guard"
    folder.mkdir(exist_ok=True)
    for line in (shlex.join(["sync", *words]), " ".join(["sync", *words])):
        assert (verdict(folder, line) == RAN) is (line.strip(" ") == "sync"), line
