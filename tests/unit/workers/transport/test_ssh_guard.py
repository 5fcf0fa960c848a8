"""The forced command of SSH keys, which allows only commands of netbisect."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from guard_fixtures import RAN, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

NAME = "kernel.nb-0123456789ab"
_BOOT = f"/boot/{NAME}"
AWKS = [one for one in map(shutil.which, ("mawk", "gawk", "original-awk", "busybox")) if one]
"""The awk of FreeBSD is original-awk of Debian."""
SHELLS = [
    [path, *more]
    for name, *more in (["dash"], ["busybox", "sh"], ["mksh"], ["bash", "--posix"])
    if (path := shutil.which(name))
]
"""The shell of FreeBSD is an ash, like dash and the shell of busybox."""

by_any_awk = pytest.mark.parametrize("awk", AWKS or [""], ids=lambda path: Path(path).name)


@by_any_awk
def test_commands_of_netbisect_are_accepted(tmp_path: Path, awk: str) -> None:
    """All installed variants of awk accept the commands of a trial."""
    for role, root, commands in (
        ("dut", "", [["sysctl", "-ie", "kern.bootfile"], ["uname", "-v"], ["kenv"]]),
        ("dut", "", [["cd", f"{_BOOT}.new"], ["sha256", "-r", "kernel", "pf.ko"]]),
        ("dut", "", [["rm", "-rf", f"{_BOOT}.new", _BOOT], ["mkdir", "-p", f"{_BOOT}.new"]]),
        ("dut", "", [["ipfw", "-q", "add", "allow", "ip", "from", "any", "to", "any", "{", "x"]]),
        ("dut", "", [["nextboot", "-e", "dev.igb.2.iflib.override_nrxqs=4,4", "-k", NAME]]),
        ("dut", "", [["kldunload", "-f", "ipdivert"], ["kldunload", "ipfw"]]),
        ("dut", "", [["ifconfig", "-a", "-m"], ["sysctl", "-ie", "dev.ix.0.queue31"]]),
        ("dut", "", [[f"{_BOOT}/netbisect-tools/pfctl", "-q", "-f", "-"], ["sync"]]),
        ("server", "/diskless/c2558", [["echo", "netbisect: the end of this answer"], ["sync"]]),
        ("server", "/diskless/c2558", [["rm", "-rf", f"/diskless/c2558{_BOOT}"]]),
        ("traffic", "", [["pkill", "-INT", "-x", "-f", "pkt-gen .*[ :]igb3[- ].*"]]),
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
        ("dut", "rm -rf /boot/kernel"),
        ("dut", "ls -1t /boot/kernel"),
        ("dut", f"ls -1 {_BOOT}/link/netbisect-tools"),
        ("dut", f"mv {_BOOT} /boot/kernel"),
        ("dut", "tar -xzpf - -C /"),
        ("dut", "tee /etc/rc.conf"),
        ("dut", "sha256 -r /etc/master.passwd"),
        ("dut", "nextboot -k kernel"),
        ("dut", f"nextboot -e 'hw.a=1 2' -k {NAME}"),
        ("dut", "bectl destroy netbisect"),
        ("dut", "bectl activate -t default"),
        ("dut", "bectl mount netbisect /mnt"),
        ("dut", "grep -c nvstore /etc/master.passwd"),
        ("dut", "tee /boot/loader.conf.d/other.conf.new"),
        ("dut", "pmcstat -R /var/tmp/netbisect-profile/samples -z 50 -G /etc/passwd"),
        ("dut", "/tmp/kernel.nb-0/netbisect-tools/pfctl -q -d"),
        ("traffic", "shutdown -r now"),
        ("traffic", "kldload -n pf"),
        ("server", "uname -v"),
        ("server", f"rm -rf {_BOOT}"),
        ("unknown", "true"),
        ("dut", ""),
    ],
)
def test_other_commands_are_rejected(tmp_path: Path, role: str, line: str, awk: str) -> None:
    """Shell syntax, other programs and other files are rejected."""
    assert RAN not in verdict(tmp_path, line, role, "/root" if role == "server" else "", awk)


OUTSIDE = (
    "ls -1t {0}/../../../etc",
    "ls -1 {0}/..",
    "ls -1 {0}/../netbisect-tools",
    "ls -1 {0}/'..'/netbisect-tools",
    "ls -1 {0}/'.'./netbisect-tools",
    "ls -1 {0}/.'.'/netbisect-tools",
    "ls -1 {0}/''..''/netbisect-tools",
    "ls -1t '{0}/..'",
    "ls -1 {0}//../netbisect-tools",
    "ls -1 {0}/./../netbisect-tools",
    "sync && ls -1 {0}/../netbisect-tools",
    "ls -1 {0}/../netbisect-tools ; sync",
    "sync;ls -1 {0}/../netbisect-tools;sync",
    "cd {0}/kernel.nb-0/.. && sha256 -r kernel",
    "cd {0}/kernel.nb-0 && sha256 -r ../../../etc/master.passwd",
    "cd {0}/kernel.nb-0 && sha256 -r x/../../../../etc/master.passwd",
    "cd {0}/kernel.nb-0 && sha256 -r '..'/x",
    "cd {0}/kernel.nb-0 && sha256 -r kernel ..",
    "rm -rf {0}/kernel.nb-0/..",
    "rm -rf {0}/kernel.nb-0 {0}/kernel.nb-0/../kernel",
    "mkdir -p {0}/kernel.nb-0/../x",
    "mv {0}/kernel.nb-0 {0}/kernel.nb-0/../kernel",
    "tar -xzpf - -C {0}/kernel.nb-0/..",
    "tar -xzpf - -C {0}/kernel.nb-0 ../x",
    "kldxref {0}/kernel.nb-0/..",
    "tee {0}/../nextboot.conf.new",
)


@by_any_awk
@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: Path(words[0]).name)
def test_paths_outside_of_the_root_are_rejected(tmp_path: Path, shell: list[str], awk: str) -> None:
    """`..` is rejected in any position and quoting, for each role and root."""
    for role, root in (("server", "/roots/d1.18"), ("dut", "")):
        for form in OUTSIDE:
            line = form.format(f"{root}/boot")
            assert RAN not in verdict(tmp_path, line, role, root, awk, shell), line
        allowed = f"ls -1 {root}/boot/kernel/netbisect-tools"
        if role == "dut":
            allowed += f" && ls -1t {root}/boot"
        assert verdict(tmp_path, allowed, role, root, awk, shell) == RAN
    for line in (
        "du -sk /boot/..",
        "mount /dev/gpt/.. /tmp/netbisect.root",
        "fsck_ffs -p /dev/gpt/..",
        f"{_BOOT}/netbisect-tools/../pfctl -q -d",
    ):
        assert RAN not in verdict(tmp_path, line, "dut", "", awk, shell), line
    answer = verdict(tmp_path, "timeout -s INT 9 pkt-gen -P../../x", "traffic", "", awk, shell)
    assert RAN not in answer


_WORDS = st.lists(st.text("ab./-'\"$`;&|<>(){}*?~# \\\t=!", min_size=1, max_size=6), max_size=4)


@by_any_awk
@settings(max_examples=30)
@given(words=_WORDS)
def test_quoting_does_not_change_the_decision(
    words: list[str], awk: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Additional words, quoted or not, make an allowed command a rejected one."""
    folder = tmp_path_factory.getbasetemp() / f"guard-{Path(awk).name}"
    folder.mkdir(exist_ok=True)
    for line in (shlex.join(["sync", *words]), " ".join(["sync", *words])):
        assert (verdict(folder, line, awk=awk) == RAN) is (line.strip(" ") == "sync"), line
