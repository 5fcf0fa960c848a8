"""`netbisect-lab vm`: the virtual machine of a testbed."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.workers.cli import options, output
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.toml import FileError
from netbisect.workers.config.vm import Vm
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.transport.locks import lock_testbed
from netbisect.workers.transport.ssh import Connections
from netbisect.workers.vm import prepare, vm
from netbisect.workers.vm.host import switch_on


@click.group(
    "vm",
    epilog=options.example(
        "vm prepare --testbed vm1 FreeBSD-14.3-RELEASE-amd64-BASIC-CI-ufs.qcow2"
    ),
)
def vm_commands() -> None:
    """Prepare, start or stop the virtual machine of a testbed."""


def _machine(lab: Lab, testbed: str) -> tuple[Testbed, Vm]:
    found = lab.testbed(testbed)
    if found.vm is None:
        raise FileError(f"testbed {testbed!r} has no table `vm` in the lab file")
    return found, found.vm


@vm_commands.command(
    "prepare",
    short_help="Create disk and key from an image.",
    epilog=options.example(
        "vm prepare --testbed vm1 FreeBSD-14.3-RELEASE-amd64-BASIC-CI-ufs.qcow2"
    ),
)
@options.testbed_option
@click.argument("image", type=options.PATH)
@options.with_lab
def prepare_command(lab: Lab, testbed: str, image: Path) -> int:
    """Create disk and key from IMAGE (raw or qcow2, FreeBSD on UFS), which is not modified."""
    bed, machine = _machine(lab, testbed)
    with lock_testbed(lab, bed, "preparing it", options.say):
        prepare.prepare(machine, image, bed.timing.boot_timeout, options.say)
    options.say(f"{testbed}: prepared in {machine.directory}")
    return 0


@vm_commands.command(
    short_help="Start it, and wait until it has booted.",
    epilog=options.example("vm start --testbed vm1"),
)
@options.testbed_option
@options.with_lab
def start(lab: Lab, testbed: str) -> int:
    """Start the machine with a fresh overlay over its disk, and wait until it has booted."""
    bed, _ = _machine(lab, testbed)
    limit = bed.timing.boot_timeout
    for concern in vm.concerns():
        options.say(f"{testbed}: {concern}")
    with (
        lock_testbed(lab, bed, "starting it", options.say, seconds=limit),
        Connections(lab.ssh) as connections,
    ):
        running = DeviceUnderTest(bed, connections, options.say).reach()
    options.say(f"{testbed}: on, runs {running.directory}")
    return 0


@vm_commands.command(epilog=options.example("vm stop --testbed vm1"))
@options.testbed_option
@options.with_lab
def stop(lab: Lab, testbed: str) -> int:
    """Power the machine off."""
    vm.stop(_machine(lab, testbed)[1])
    return 0


@vm_commands.command(epilog=options.example("vm cycle --testbed vm1"))
@options.testbed_option
@options.with_lab
def cycle(lab: Lab, testbed: str) -> int:
    """Power the machine off and on, without waiting for it."""
    bed, machine = _machine(lab, testbed)
    vm.stop(machine)
    switch_on(bed)
    return 0


@vm_commands.command(epilog=options.example("vm status --testbed vm1"))
@options.testbed_option
@options.with_lab
def status(lab: Lab, testbed: str) -> int:
    """Print the state of the machine; exit status 1 if it is off."""
    process = vm.process_of(_machine(lab, testbed)[1])
    options.say(f"{testbed}: {f'on, process {process}' if process else 'off'}")
    return 0 if process else output.EXIT_FAILED
