"""A virtual machine as testbed, with real QEMU and a guest of one sector."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from builds import script
from click.testing import CliRunner
from programs import captured, command_lines
from vm_fixtures import ONE_TESTBED
from waiting import wait_until

from netbisect.cli.vm import vm as vm_of_netbisect
from netbisect.demo.lab.setup import free_ports
from netbisect.workers.cli.main import main
from netbisect.workers.config.lab import load_lab
from netbisect.workers.config.toml import FileError
from netbisect.workers.config.vm import GUEST_SSH_CONFIG, Vm
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.transport.errors import CommandError, LabFault
from netbisect.workers.transport.ssh import Connections
from netbisect.workers.vm import host as vm_host
from netbisect.workers.vm import prepare, vm
from netbisect.workers.vm.vm import VmError

QEMU = "qemu-system-x86_64"
needs_qemu = pytest.mark.skipif(
    not (shutil.which(QEMU) and shutil.which("qemu-img")),
    reason=f"{QEMU} or qemu-img is not installed",
)
GUEST = bytes.fromhex(
    "31c0 8ed8 8ec0 8ed0 bc007c"  # segments 0, stack below this code
    "b80102 bb007e b90200 b600 cd13"  # read the second sector to 7e00
    "52 be607c ac 66e823000000 3c0a 75f5 5a"  # print the text at 7c60 on the serial line
    "fe06007e"  # add one to the sector's first byte
    "b80103 bb007e b90200 b600 cd13"  # and write it back
    "bafd03 ec a801 74f8"  # wait for a byte on the serial line
    "b0fe e664 f4"  # reset by the keyboard controller
    "3c3f 7505 a0007e 0430 baf803 ee 66c3"  # print a character: '?' as the first byte of the sector
)
"""Prints the number of boots of its disk, and reboots after a byte on the serial line."""
TEXT = b"boot ?\n"
LAB = (
    ONE_TESTBED
    + """\
line_rate_pps = 50_000
dut = { address = "vm", ingress = { interface = "vtnet1" }, egress = { interface = "vtnet2" } }
timing = { boot_timeout = 5 }
vm = { directory = "vm1", accelerator = "tcg", memory = 128 }
"""
)


def image(place: Path) -> Path:
    """A raw disk that boots the guest."""
    sector = GUEST.ljust(0x60, b"\0") + TEXT
    place.write_bytes((sector.ljust(510, b"\0") + b"\x55\xaa").ljust(1 << 20, b"\0"))
    return place


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="nb-", dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def port() -> int:
    with free_ports(1) as [found]:
        return found


@pytest.fixture
def machine(folder: Path, port: int) -> Iterator[Vm]:
    """A prepared machine that is off; it is stopped afterwards."""
    found = Vm(folder / "vm1", accelerator="tcg", memory=128, ssh_port=port)
    found.directory.mkdir()
    if shutil.which("qemu-img"):
        raw = image(folder / "disk.raw")
        prepared = found.directory / vm.PREPARED
        words = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(prepared)]
        subprocess.run(words, check=True)
    yield found
    vm.stop(found)


@pytest.fixture
def lab_file(folder: Path, port: int) -> Path:
    place = folder / "lab.toml"
    place.write_text(LAB.replace("memory = 128", f"memory = 128, ssh_port = {port}"))
    return place


def wait_for(machine: Vm, text: str, times: int = 1) -> None:
    log = machine.directory / vm.CONSOLE
    wait_until(lambda: log.exists() and log.read_text(errors="replace").count(text) >= times)


def reboot(machine: Vm) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.fspath(machine.directory / vm.SERIAL))
        line.sendall(b"x")


@needs_qemu
def test_a_reboot_keeps_the_disk_and_a_power_cycle_renews_it(machine: Vm) -> None:
    """The prepared image is never changed; remains of a killed machine prevent no start."""
    before = (machine.directory / vm.PREPARED).read_bytes()
    assert vm.process_of(machine) == 0
    assert vm.start(machine)
    wait_for(machine, "boot 0\n")
    process = vm.process_of(machine)
    assert process
    assert not vm.start(machine)
    assert vm.process_of(machine) == process

    reboot(machine)
    wait_for(machine, "boot 1\n")
    vm.stop(machine)
    assert vm.start(machine)
    wait_for(machine, "boot 0\n", times=2)

    assert vm.process_of(machine) not in (0, process)
    os.kill(vm.process_of(machine), signal.SIGKILL)
    wait_until(lambda: not vm.process_of(machine))
    assert vm.start(machine)
    wait_for(machine, "boot 0\n", times=3)
    assert (machine.directory / vm.PREPARED).read_bytes() == before
    vm.stop(machine)
    assert vm.process_of(machine) == 0
    vm.stop(machine)


def look_at(machine: Vm) -> None:
    while True:
        vm.process_of(machine)


def test_machine_that_others_look_at_is_off(machine: Vm) -> None:
    """The number in the file of a stopped machine may be that of another process."""
    (machine.directory / "qemu.pid").write_text("4194304\n")
    other = get_context("fork").Process(target=look_at, args=(machine,))
    other.start()
    found = {vm.process_of(machine) for _ in range(5000)}
    other.kill()
    other.join()
    assert found == {0}


@needs_qemu
def test_a_machine_is_prepared_started_or_stopped_by_one_process(
    machine: Vm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "_SECONDS", 0.2)
    busy = rf"process {os.getpid()} has been testing the virtual machine since .* after 0\.2 s"
    with vm.alone(machine, "testing"):
        with pytest.raises(VmError, match=busy):
            vm.start(machine)
        with pytest.raises(VmError, match=busy):
            prepare.prepare(machine, folder / "disk.raw", 1, print)
    assert not vm.process_of(machine)


def test_folder_may_have_an_odd_name(machine: Vm) -> None:
    """ssh(1) expands percent signs, QEMU splits at commas."""
    odd = replace(machine, directory=machine.directory / "a b,50%d")
    odd.directory.mkdir()
    vm_host.furnish(odd, 1.0)
    shown = captured(["ssh", "-G", "-F", odd.directory / GUEST_SSH_CONFIG, "guest"]).stdout
    assert f"userknownhostsfile {odd.directory}/known_hosts\n" in shown
    unexpanded = str(odd.directory).replace("%", "%%")  # `ssh -G` expands only some options
    assert f"identityfile {unexpanded}/id_ed25519\n" in shown
    command = vm.command(odd, odd.directory / "disk")
    assert command[command.index("-name") + 1] == "a b,,50%d"


def test_missing_requirements_are_reported(machine: Vm, folder: Path) -> None:
    """The messages name the remedy, and nothing is started."""
    absent = replace(machine, directory=folder / "absent")
    with pytest.raises(VmError, match=r"there is no .*absent: `netbisect-lab vm prepare` creates"):
        vm.start(absent)
    (machine.directory / vm.PREPARED).unlink(missing_ok=True)
    with pytest.raises(VmError, match=r"prepared\.qcow2: `netbisect-lab vm prepare` creates it"):
        vm.start(machine)
    with pytest.raises(VmError, match="there is no qemu-missing on this host"):
        vm.version(replace(machine, qemu="qemu-missing"))
    # Older versions have no datagram sockets as network back ends.
    old = script(folder / "qemu", "echo QEMU emulator version 6.2.0")
    with pytest.raises(VmError, match=r"version 6.2; expected 7.2 or later"):
        vm.version(replace(machine, qemu=str(old)))
    with pytest.raises(VmError, match="expected a shorter `directory`"):
        vm.socket_of(replace(machine, directory=folder / ("x" * 100)), vm.SERIAL)


@needs_qemu
def test_the_error_of_qemu_is_reported(lab_file: Path, machine: Vm) -> None:
    """The message of QEMU is quoted, and the machine is off."""
    testbed = load_lab(lab_file).testbed("vm1")
    taken = socket.create_server(("127.0.0.1", machine.ssh_port))
    with taken, pytest.raises(LabFault, match=r"QEMU does not start: .*host forwarding"):
        vm_host.switch_on(testbed)
    assert vm.process_of(machine) == 0


def test_invalid_table_is_rejected(lab_file: Path) -> None:
    receiver = '{ address = "vm", port = { interface = "egress" } }'
    second = receiver.replace("egress", "em0")
    port = 'port = { interface = "ingress" }'
    for old, new, message in (
        ('accelerator = "tcg"', 'accelerator = "tgc"', "expected 'kvm' or 'tcg'"),
        ("memory = 128", "memory = 64", "expected MiB, 128 or more"),
        ("memory = 128", 'cpus = "two"', "expected processors such as 2-3"),
        ("memory = 128", "ssh_port = 70_000", "expected 1 to 65535"),
        ('dut = { address = "vm"', 'dut = { address = "r"', "neither without the other"),
        ('interface = "ingress"', 'interface = "em0"', "generator.port: expected"),
        (receiver, f"[{receiver}, {second}]", "receiver: expected one table, because a virtual"),
        (port, f"{port}, dut_{port}", "generator.dut_port: expected none"),
    ):
        lab_file.write_text(LAB.replace(old, new))
        with pytest.raises(FileError, match=message):
            load_lab(lab_file)


@needs_qemu
def test_power_command_of_the_lab_file_starts_the_machine(
    lab_file: Path, machine: Vm, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is that of a trial; `vm status` reports the state."""
    testbed = load_lab(lab_file).testbed("vm1")
    status = ["--lab", str(lab_file), "vm", "status", "--testbed", "vm1"]

    assert main(status) == 1
    subprocess.run(testbed.power.cycle, check=True)
    wait_for(machine, "boot 0\n")
    assert main(status) == 0
    assert "vm1: on, process" in capsys.readouterr().err
    assert not vm_host.switch_on(testbed)


@needs_qemu
def test_start_waits_for_the_guest(
    lab_file: Path, machine: Vm, capsys: pytest.CaptureFixture[str]
) -> None:
    """A guest that does not answer is power-cycled once."""
    text = lab_file.read_text().replace("boot_timeout = 5", "boot_timeout = 1")
    lab_file.write_text(f"[ssh]\nconnect_timeout = 1\n{text}")

    assert main(["--lab", str(lab_file), "vm", "start", "--testbed", "vm1"]) == 4
    assert "does not come back after a power cycle" in capsys.readouterr().err
    assert vm.process_of(machine)


@needs_qemu
def test_the_doctor_checks_a_machine_that_is_off(lab_file: Path) -> None:
    """The doctor does not start the machine."""
    place = lab_file.parent / "vm1"
    place.mkdir()
    found = {check.what: check for check in examine(load_lab(lab_file), testbed="vm1")}

    assert found["virtual machine"].good
    assert "tcg, 1 processors, 128 MiB" in found["virtual machine"].found
    assert not found[f"dut vm-guest:{place}"].good
    assert "written when" in found[f"pkt-gen on vm-host:{place}"].found
    assert found["power"].good
    assert list(place.iterdir()) == []


@pytest.mark.long
@needs_qemu
def test_an_image_without_login_leaves_nothing_behind(
    lab_file: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error quotes the end of the console; the machine is off and unprepared."""
    disk = image(folder / "disk.raw")
    before = disk.read_bytes()
    words = ["--lab", str(lab_file), "vm", "prepare", "--testbed", "vm1", str(disk)]

    assert main(words) == 4
    errors = capsys.readouterr().err
    assert "has not printed 'login: ' after 5 s; last came" in errors
    assert "boot 0" in errors
    assert disk.read_bytes() == before
    names = {path.name for path in (folder / "vm1").iterdir()}
    assert not names & {vm.PREPARED, "new.qcow2"}
    found = load_lab(lab_file).testbed("vm1").vm
    assert vm.process_of(found) == 0


def test_the_script_configures_a_guest(folder: Path) -> None:
    """A shell runs the script with other paths; it stores the key and appends settings."""
    key = f"ssh-ed25519 {'A' * 300} user@host"
    root = folder / "root"
    for place in ("etc/ssh", "boot", "root"):
        (root / place).mkdir(parents=True)
    (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAAkey root@\n")
    (root / "etc/rc.conf").write_text('hostname="guest"\n')
    text = prepare.script(key)
    assert max(map(len, text.splitlines())) < 200
    for place in ("/etc/", "/boot/", "/root/"):
        text = text.replace(f" {place}", f" {root}{place}").replace(f"={place}", f"={root}{place}")
    text = text.replace("/firstboot", f"{root}/firstboot")

    for kind, status in (("zfs", 1), ("ufs", 0)):
        mount = f"mount() {{ echo /dev/vtbd0p2 / {kind} rw 1 1; }}\n"
        done = captured(["sh"], input=mount + text)
        assert done.returncode == status, done.stderr
        if status:
            assert "netbisect-wrong=its root is on zfs" in done.stdout
            assert (root / "etc/rc.conf").read_text() == 'hostname="guest"\n'

    assert "netbisect-key=ssh-ed25519 AAAAkey" in done.stdout
    assert (root / "root/.ssh/authorized_keys").read_text() == f"ssh-ed25519 {'A' * 300}\n"
    settings = (root / "etc/rc.conf").read_text()
    assert settings.startswith('hostname="guest"\n')
    assert 'gateway_enable="YES"\n' in settings
    assert "52:54:00:00:00:21" in settings


def test_commands_for_the_generator_run_on_this_host(
    folder: Path, lab_file: Path, port: int
) -> None:
    """Commands run locally without ssh, with replacements for ifconfig and pkt-gen.

    At its time limit a command ends with what it has started.
    """
    testbed = load_lab(lab_file).testbed("vm1")
    testbed.vm.directory.mkdir()
    vm_host.furnish(testbed.vm, testbed.line_rate_pps)

    with Connections(load_lab(lab_file).ssh) as connections:
        host = connections.machine(testbed.generators[0].address)
        ports = host.run(["ifconfig", "-a"])
        assert "egress: flags=8843<UP" in ports
        assert ports.count("status: no carrier") == 2
        (folder / "vm1" / "ingress.guest").touch()
        assert host.run(["ifconfig", "-a"]).count("status: active") == 1
        assert host.run(["which", "pkt-gen"]).strip() == str(folder / "vm1" / "bin" / "pkt-gen")
        assert host.try_run(["pkill", "-INT", "-x", "pkt-gen"]) is None
        with pytest.raises(CommandError, match="did not end in time"):
            host.run(["sleep", "611"], ["true"], timeout=0.3)
        wait_until(lambda: "sleep 611" not in command_lines())
    with (folder / "vm1" / "ssh_config").open() as config:
        vm_host.furnish(testbed.vm, testbed.line_rate_pps)
        assert os.fstat(config.fileno()).st_nlink == 0, "a running ssh(1) keeps the old file"
        assert f"Port {port}\n" in config.read()


def test_netbisect_vm_equals_netbisect_lab_vm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options after the action are passed to netbisect-lab."""
    (tmp_path / "lab.toml").write_text(LAB)
    words = ["status", "--testbed", "vm1"]
    runner = CliRunner()

    found = runner.invoke(vm_of_netbisect, ["--lab", str(tmp_path / "lab.toml"), *words])

    assert (found.exit_code, main(["--lab", str(tmp_path / "lab.toml"), "vm", *words])) == (1, 1)
    assert found.stderr == capsys.readouterr().err == "vm1: off\n"
    assert runner.invoke(vm_of_netbisect, []).exit_code == 2
