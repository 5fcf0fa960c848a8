"""Generator and receiver of a virtual machine, with a simulated router between them."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import captured
from vm_fixtures import ONE_TESTBED
from waiting import wait_until

from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.bench import Bench
from netbisect.workers.transport.ssh import Connections, Machine
from netbisect.workers.vm import host as vm_host
from netbisect.workers.vm import pktgen as vm_wire

RATE = 4000
LAB = f"""{ONE_TESTBED}line_rate_pps = {RATE}
timing = {{ settle = 0, link_wait = 0 }}
dut.address = "vm"
dut.ingress.mac = "52:54:00:00:00:11"
dut.egress.interface = "vtnet2"
vm = {{ directory = "vm1" }}
"""
MACS = bytes.fromhex("525400000021"), bytes.fromhex("525400000011")


@dataclass
class Router:
    """Forwards each `share`-th frame from one wire to the other."""

    folder: Path
    share: int = 1
    frames: list[bytes] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        place = self.folder / "ingress.guest"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ingress:
            ingress.bind(os.fspath(place))
            ingress.settimeout(0.1)
            thread = threading.Thread(target=self._forward, args=(ingress,))
            thread.start()
            try:
                yield
            finally:
                self._end.set()
                thread.join()
                place.unlink()

    def _forward(self, ingress: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as egress:
            while not self._end.is_set():
                with contextlib.suppress(TimeoutError):
                    self.frames.append(ingress.recv(2048))
                    if len(self.frames) % self.share == 0:
                        with contextlib.suppress(OSError):
                            egress.sendto(self.frames[-1], os.fspath(self.folder / "egress.host"))


@dataclass
class Wired:
    lab: Lab
    folder: Path
    connections: Connections

    @property
    def host(self) -> Machine:
        return self.connections.machine(f"vm-host:{self.folder}")

    def send(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs the generator without a bench."""
        words = ["-f", "tx", "-i", "ingress", "-w", "0", "-s", "198.18.10.1", "-d", "198.19.10.1"]
        return captured([self.folder / "bin" / "pkt-gen", *words, "-D", "52:54:00:00:00:11", *more])

    def traffic(self, scenario: str, seconds: float) -> tuple[str, str]:
        bench = Bench(self.lab.testbed("vm1"), self.connections, lambda _: None, self.folder)
        outputs = bench.traffic.run(load_scenario(scenario), scenario, seconds)
        return outputs.sent["the generator"], outputs.received["the receiver"]


@pytest.fixture
def wired() -> Iterator[Wired]:
    with tempfile.TemporaryDirectory(prefix="nb-", dir="/tmp") as place:
        path = Path(place) / "lab.toml"
        path.write_text(LAB)
        lab = load_lab(path)
        machine = lab.testbed("vm1").vm
        machine.directory.mkdir()
        vm_host.furnish(machine, RATE)
        with Connections(lab.ssh) as connections:
            yield Wired(lab, machine.directory, connections)


def total(output: str) -> float:
    """Number of packets in the last line."""
    return float(output.splitlines()[-1].split()[1])


@pytest.mark.long
def test_forwarded_packets_are_counted_at_both_ends(wired: Wired) -> None:
    """Traffic and rates are handled like those of physical ports."""
    router = Router(wired.folder, share=2)
    with router.running():
        sender, receiver = wired.traffic("inet4-forwarding", 4)

    assert pktgen.complaint(sender) == pktgen.complaint(receiver) == ""
    assert pktgen.ready(receiver)
    assert total(sender) == 4 * RATE
    assert total(receiver) == len(router.frames) // 2
    assert sum(rate > 0 for rate in pktgen.all_rates(sender)) >= 4
    sources = {frame[26:30] + frame[34:36] for frame in router.frames}
    targets = {frame[30:34] + frame[36:38] for frame in router.frames}
    assert (len(sources), len(targets)) == (20, 100)
    assert {frame[:12] for frame in router.frames} == {MACS[1] + MACS[0]}
    assert len({frame[26:38] for frame in router.frames}) == 2000


@pytest.mark.long
def test_rings_of_a_wire_send_together(wired: Wired) -> None:
    """Each size of a mix has a pkt-gen, and all end together."""
    router = Router(wired.folder)
    bench = Bench(wired.lab.testbed("vm1"), wired.connections, lambda _: None, wired.folder)
    with router.running():
        outputs = bench.traffic.run(load_scenario("inet4-imix"), "mix", 4)

    assert [pktgen.complaint(text) for text in outputs.sent.values()] == 3 * [""]
    rates = [int(text.split(" packets a second")[0].split()[-1]) for text in outputs.sent.values()]
    assert [rate / rates[2] for rate in rates] == pytest.approx([7, 4, 1], rel=0.01)
    sent = dict(zip((60, 590, 1514), map(total, outputs.sent.values()), strict=True))
    assert sent[60] > sent[590] > sent[1514]
    forwarded = Counter(map(len, router.frames))
    assert forwarded.keys() == sent.keys()
    assert all(forwarded[size] <= sent[size] for size in sent), "frames without room are lost"


def test_a_generator_without_a_guest_is_reported(wired: Wired) -> None:
    """The message is recognized as that of an invalid run."""
    sent = wired.send("-n", "1")

    assert sent.returncode == 1
    assert pktgen.complaint(sent.stderr) == "Unable to open ingress: No such file or directory"


def test_invalid_options_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Message and status equal those of pkt-gen."""
    monkeypatch.setattr("signal.signal", lambda *_: None)  # handlers of the test process
    log = tmp_path / "log"
    ingress = ["-i", "ingress", "-D"]
    for words, message in (
        (["-i", "em0"], "Unable to open em0: expected ingress or egress"),
        ([*ingress, "52:54"], "Unable to parse MAC address '52:54'"),
        ([*ingress, "52:54:00:00:00:11", "-s", "here"], "Unable to parse range 'here'"),
        (["-U"], "pkt-gen: illegal option -- U"),
        (["-i"], "pkt-gen: option requires an argument -- i"),
    ):
        with log.open("w") as stream:
            status = vm_wire.pkt_gen(tmp_path, RATE, ["-f", "tx", *words], stream)
        rejected = pktgen.refused(log.read_text())
        assert status == (255 if rejected else 1)
        assert rejected == message.startswith("pkt-gen: ")
        assert pktgen.complaint(log.read_text()) == message


def test_a_receiver_ends_by_signal_and_locks_its_port(wired: Wired) -> None:
    """`pkill` ends receivers of the virtual machine; a second receiver is rejected."""
    receive = [wired.folder / "bin" / "pkt-gen", "-f", "rx", "-i", "egress", "-w", "0", "-W"]
    with subprocess.Popen(receive, stderr=subprocess.PIPE, text=True) as first:
        wait_until((wired.folder / "egress.host").exists)
        second = captured(receive)
        assert pktgen.complaint(second.stderr) == "Unable to open egress: another pkt-gen has it"
        wired.host.run(["pkill", "-INT", "-x", "pkt-gen"])
        assert "Received 0 packets" in first.stderr.read()

    assert first.returncode == 0
    assert not (wired.folder / "egress.host").exists()
    assert wired.host.try_run(["pkill", "-INT", "-x", "pkt-gen"]) is None


def ones_sum(data: bytes) -> int:
    """The sum of RFC 1071 over data with its checksum; 0xffff if valid."""
    data += b"\0" * (len(data) % 2)
    found = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return found


@pytest.mark.parametrize("version", [4, 6])
@settings(deadline=None)
@given(data=st.data())
def test_frames_have_valid_lengths_and_checksums(version: int, data: st.DataObject) -> None:
    """The checks are those of a receiver; IPv6 requires UDP checksums."""
    source, destination = (data.draw(st.ip_addresses(v=version)).packed for _ in range(2))
    near, far = (data.draw(st.integers(0, 65535)) for _ in range(2))
    size = data.draw(st.integers(62, 1514))
    found = vm_wire.frame(MACS, (source, near), (destination, far), size)
    udp = found[34:] if version == 4 else found[54:]

    assert len(found) == size
    assert ones_sum(source + destination + struct.pack("!II", len(udp), 17) + udp) == 0xFFFF
    if version == 4:
        assert ones_sum(found[14:34]) == 0xFFFF
        assert struct.unpack("!H", found[16:18])[0] == size - 14
    else:
        assert struct.unpack("!H", found[18:20])[0] == len(udp)


@pytest.mark.parametrize("name", ["inet4-forwarding", "inet6-forwarding"])
def test_ranges_give_the_number_of_flows_of_the_scenario(name: str) -> None:
    """Every pair of source and destination is a flow."""
    traffic = load_scenario(name).traffic
    ends = [vm_wire.ends_in(text) for text in (traffic.source, traffic.destination)]

    assert len(set(ends[0])) * len(set(ends[1])) == traffic.flows == 2000
    with pytest.raises(vm_wire.VmTrafficError, match="headers alone take"):
        vm_wire.frame(MACS, ends[0][0], ends[1][0], 40)
