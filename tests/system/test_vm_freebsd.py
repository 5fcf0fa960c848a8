r"""A real FreeBSD in a virtual machine, from the image to a sample.

    NETBISECT_VM_IMAGE=FreeBSD-14.3-RELEASE-amd64-BASIC-CI-ufs.qcow2 \
        python -m pytest -s tests/system/test_vm_freebsd.py

The image is only read. Without KVM, set NETBISECT_VM_ACCELERATOR=tcg. The test takes minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from vm_fixtures import ONE_TESTBED

from netbisect.workers.cli.main import main
from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.transport.ssh import Connections
from netbisect.workers.vm import vm

IMAGE = os.environ.get("NETBISECT_VM_IMAGE", "")
ACCELERATOR = os.environ.get("NETBISECT_VM_ACCELERATOR", "kvm")
RATE = {"kvm": 50_000, "tcg": 12_000}
LAB = """
line_rate_pps = {rate}
timing = {{ settle = 1, poll = 1 }}
dut.address = "vm"
dut.ingress.mac = "52:54:00:00:00:11"
dut.egress.mac = "52:54:00:00:00:12"
vm = {{ directory = "vm1", accelerator = "{accelerator}", ssh_port = {port} }}
"""
PORT = 22_201


@pytest.fixture
def lab_file() -> Iterator[Path]:
    """A lab with one virtual machine, which is stopped afterwards."""
    if not IMAGE:
        pytest.skip("NETBISECT_VM_IMAGE is not set")
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("qemu-system-x86_64 is not installed")
    with tempfile.TemporaryDirectory(prefix="nb-", dir="/tmp") as place:
        path = Path(place) / "lab.toml"
        text = ONE_TESTBED + LAB.format(rate=RATE[ACCELERATOR], accelerator=ACCELERATOR, port=PORT)
        path.write_text(text)
        yield path
        machine = load_lab(path).testbed("vm1").vm
        assert machine is not None
        if machine.directory.exists():
            vm.stop(machine)


def running(lab: Lab) -> tuple[str, float]:
    """Folder of the running kernel, and its boot time."""
    with Connections(lab.ssh) as connections:
        found = DeviceUnderTest(lab.testbed("vm1"), connections, print).reach()
    return found.directory, found.boottime


def test_image_is_prepared_booted_measured_and_power_cycled(
    lab_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    def command(*words: str) -> int:
        began = time.monotonic()
        status = main(["--lab", str(lab_file), *words])
        with capsys.disabled():
            print(f"{' '.join(words[:2])}: status {status}, {time.monotonic() - began:.1f} s")
        return status

    image = Path(IMAGE)
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    lab = load_lab(lab_file)
    assert command("vm", "prepare", "--testbed", "vm1", str(image)) == 0
    prepared = lab_file.parent / "vm1" / vm.PREPARED
    content = prepared.read_bytes()

    directory, started = running(lab)
    assert directory == "kernel"
    capsys.readouterr()
    assert command("bench", "--testbed", "vm1", "--logs", str(lab_file.parent / "logs")) == 0
    sample = json.loads(capsys.readouterr().out)
    with capsys.disabled():
        print(f"{sample['pps']:,.0f} of {sample['offered_pps']:,.0f} pps; {sample['problems']}")
    assert sample["pps"] > 0

    assert command("vm", "cycle", "--testbed", "vm1") == 0
    directory, restarted = running(lab)
    assert (directory, restarted > started) == ("kernel", True)
    assert prepared.read_bytes() == content
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
