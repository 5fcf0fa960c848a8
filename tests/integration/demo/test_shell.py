"""The simulated machines: shell, SSH, power and console."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab_fixtures import RunningLab


def test_unknown_commands_fail_as_in_sh(running_lab: RunningLab) -> None:
    assert running_lab.ssh("c2558-dut", "foo -x", status=127) == "sh: foo: not found\n"
    assert "pkt-gen: not found" in running_lab.ssh("c2558-dut", "pkt-gen -f rx", status=127)


def test_command_lists_work_as_in_sh(running_lab: RunningLab) -> None:
    """After a failure `&&` goes no further; `;` goes on; the last status counts."""
    assert "/boot" not in running_lab.ssh("c2558-dut", "foo && uname -v", status=127)
    assert "15.0-CURRENT" in running_lab.ssh("c2558-dut", "foo; uname -v")
    assert "unexpected" in running_lab.ssh("c2558-dut", "uname -v | cat", status=2)
    assert running_lab.ssh("c2558-dut", "cat 'no such; file'", status=1) == (
        "cat: no such; file: No such file or directory\n"
    )


def test_sysctl_and_uname_describe_the_system(running_lab: RunningLab) -> None:
    said = running_lab.ssh("e5-2650-dut", "sysctl -n kern.boottime hw.model hw.ncpu").splitlines()
    assert re.fullmatch(r"\{ sec = \d+, usec = \d+ \} \w{3} \w{3} .\d [0-9:]{8} \d{4}", said[0])
    assert said[1:] == ["Intel(R) Xeon(R) CPU E5-2650 0 @ 2.00GHz", "8"]
    assert running_lab.ssh("e5-2650-gen", "uname -a").startswith("FreeBSD e5-2650-gen 14.2-REL")


def test_kenv_and_sysctl_keep_settings(running_lab: RunningLab) -> None:
    dut = "e5-2650-dut"
    assert running_lab.ssh(dut, "kenv a.b=c") == 'a.b="c"\n'
    assert running_lab.ssh(dut, "kenv a.b") == "c\n"
    assert running_lab.ssh(dut, "kenv none", status=1) == "kenv: unable to get none\n"
    running_lab.ssh(dut, "sysctl net.inet6.ip6.redirect=1")
    assert running_lab.ssh(dut, "sysctl net.inet6.ip6.redirect=0") == (
        "net.inet6.ip6.redirect: 1 -> 0\n"
    )
    assert "read only" in running_lab.ssh(dut, "sysctl hw.ncpu=64", status=1)
    assert "unknown oid" in running_lab.ssh(dut, "sysctl no.such", status=1)


def test_missing_objects_are_reported(running_lab: RunningLab) -> None:
    """`sysctl -i` is silent on it, netstat and ps are not."""
    ask = running_lab.ssh
    assert ask("c2558-dut", "sysctl -ie kern.nothing hw.ncpu") == "hw.ncpu=4\n"
    assert ask("c2558-dut", "sysctl kern.nothing", status=1) == (
        "sysctl: unknown oid 'kern.nothing'\n"
    )
    assert ask("c2558-gen", "netstat -I em7 -bn --libxo json", status=1) == (
        "netstat: em7: unknown interface\n"
    )
    assert ask("c2558-gen", "ps -l", status=1) == "ps: illegal option\n"
    assert ask("c2558-gen", "echo 'a  b' c") == "a  b c\n"


def test_sysctl_lists_subtrees(running_lab: RunningLab) -> None:
    said = running_lab.ssh("c2558-dut", "sysctl -e dev.cpu").splitlines()
    assert "dev.cpu.0.freq=2400" in said
    assert "dev.cpu.3.coretemp.throttle_log=0" in said
    said = running_lab.ssh("c2558-dut", "sysctl -e dev.igb").splitlines()
    assert [line.partition("=")[0] for line in said] == [
        "dev.igb.2.fc",
        "dev.igb.3.fc",
        "dev.igb.2.mac_stats.crc_errs",
        "dev.igb.2.%parent",
        "dev.igb.3.mac_stats.crc_errs",
        "dev.igb.3.%parent",
    ]


def test_file_commands(running_lab: RunningLab) -> None:
    dut = "e5-2650-dut"
    running_lab.ssh(dut, "mkdir -p /tmp/a/b && cd /tmp && mv a/b c && rm -rf a")
    assert running_lab.ssh(dut, "ls -1t /tmp") == "c\n"
    running_lab.ssh(dut, "rm -rf /tmp")
    assert "No such file" in running_lab.ssh(dut, "cd /tmp", status=2)
    assert running_lab.ssh(dut, "df -k /boot").splitlines()[1].split()[0] == "/dev/ada0p2"
    running_lab.ssh(dut, "kldxref /boot/kernel && sync")
    assert "linker.hints" in running_lab.ssh(dut, "ls -1 /boot/kernel")
    assert "UTC" in running_lab.ssh(dut, "date")


def test_paths_stay_on_the_disk_of_the_machine(running_lab: RunningLab) -> None:
    for path in ("/../../../../etc/passwd", "/etc/passwd", "../../host_key"):
        assert "No such file" in running_lab.ssh("e5-2650-dut", f"cat {path}", status=1)


def test_truncated_archive_is_an_error(running_lab: RunningLab) -> None:
    done = subprocess.run(
        ["ssh", "-F", running_lab.files.ssh_config, "e5-2650-dut", "tar -xzpf - -C /boot"],
        input=b"\x1f\x8b no archive",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"tar: Error exit" in done.stderr) == (1, True)


def test_nextboot_requires_an_existing_kernel(running_lab: RunningLab) -> None:
    assert running_lab.ssh("e5-2650-dut", "nextboot -k none", status=1) == (
        "Error: /boot/none doesn't exist. Use -f to override.\n"
    )


def test_firewall_errors_are_those_of_freebsd(running_lab: RunningLab) -> None:
    dut = "e5-2650-dut"
    assert "/dev/pf: No such" in running_lab.ssh(dut, "pfctl -q -e", status=1)
    assert "Protocol not available" in running_lab.ssh(dut, "ipfw -q -f flush", status=69)
    assert "can't load ipf:" in running_lab.ssh(dut, "kldload -n ipf", status=1)
    assert "can't find file pf" in running_lab.ssh(dut, "kldunload pf", status=1)
    running_lab.ssh(dut, "kldload -n pf && kldload -n pf && pfctl -q -e && kldload ipfw")
    assert running_lab.ssh(dut, "pfctl -q -e", status=1) == "pfctl: pf already enabled\n"
    assert re.findall(r"(\S+)$", running_lab.ssh(dut, "kldstat"), re.MULTILINE)[1:] == [
        "kernel",
        "pf.ko",
        "ipfw.ko",
    ]
    assert "bad command" in running_lab.ssh(dut, "ipfw -q add allow everything", status=64)
    running_lab.ssh(dut, "kldunload pf && kldunload ipfw")


def test_unknown_keys_are_refused(running_lab: RunningLab, tmp_path: Path) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    text = running_lab.files.ssh_config.read_text()
    (tmp_path / "config").write_text(re.sub("IdentityFile .*", f"IdentityFile {key}", text))
    done = subprocess.run(
        ["ssh", "-F", tmp_path / "config", "-o", "BatchMode=yes", "e5-2650-dut", "uname"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Permission denied" in done.stderr) == (255, True)


def test_interactive_shell_is_refused(running_lab: RunningLab) -> None:
    assert "takes commands" in running_lab.ssh("e5-2650-dut", status=1)


def test_machine_without_power_refuses_connections(c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "off")
    assert "Connection refused" in c2558.ssh("c2558-dut", "uname", status=255)
    assert c2558.control("cycle", "c2558-dut") == "c2558-dut: off, on\n"
    wait_until_up(c2558, "c2558-dut")


def test_reboot_drops_connections_and_memory(c2558: RunningLab) -> None:
    c2558.ssh("c2558-dut", "kenv before=1 && kldload pf && shutdown -r now")
    wait_until_up(c2558, "c2558-dut")
    assert "before" not in c2558.ssh("c2558-dut", "kenv")
    assert "pf.ko" not in c2558.ssh("c2558-dut", "kldstat")


def wait_until_up(lab: RunningLab, machine: str) -> None:
    """Down first, which takes a moment; then up."""
    command = ["ssh", "-F", str(lab.files.ssh_config), machine, "uname"]
    state = []
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        up = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if up and False in state:
            return
        state.append(up)
    raise AssertionError(f"{machine} was up and down as {state}")


def test_console_shows_boot_messages(c2558: RunningLab, tmp_path: Path) -> None:
    with (tmp_path / "console").open("wb") as stream:
        console = subprocess.Popen(
            ["ssh", "-F", c2558.files.ssh_config, "console", "attach", "c2558-dut"], stdout=stream
        )
        try:
            for _ in range(2):
                c2558.ssh("c2558-dut", "shutdown -r now")
                wait_until_up(c2558, "c2558-dut")
        finally:
            console.terminate()
            console.wait()
    said = (tmp_path / "console").read_text()
    assert "Rebooting...\n" in said
    assert "Booting /boot/kernel/kernel...\n---<<BOOT>>---\nFreeBSD 15.0-CURRENT n1-" in said
    assert said.endswith("login: ")


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        ("cycle nothing", "no such machine: nothing; there is c2558-dut, e5-2650-dut, c2558-gen"),
        ("cycle c2558-gen", "c2558-gen is not wired here"),
        (
            "break c2558-dut badly",
            "'badly' is not a valid InjectedFault; there is off, dead",
        ),
    ],
)
def test_power_switch_refuses_invalid_orders(
    running_lab: RunningLab, order: str, answer: str
) -> None:
    assert running_lab.ssh("power", order, status=1).startswith(answer)
