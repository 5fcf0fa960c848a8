"""Generator and receiver of a virtual DUT: a modest pkt-gen over the sockets of its data ports.

    python -m netbisect.workers.vm.pktgen FOLDER LINE_RATE_PPS PROGRAM ARGUMENTS

It takes the options of netmap's pkt-gen that a bench uses, and has its output. The wire is a
datagram socket with one frame per datagram. Frames are paced like a wire of the given line rate
and never wait: a frame for which the guest has no room is lost, as on a port with a full ring, but
counts as offered. Frames are counted at both ends of the wire. `ifconfig` and `pkill` are for these
ports only.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import itertools
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from netbisect.workers.config import pktgen_options
from netbisect.workers.config.testbed import line_rate

MACS = {"ingress": "52:54:00:00:00:21", "egress": "52:54:00:00:00:22"}
"""Addresses of this host's ends of the wires."""
_TICK = 0.0005
"""Seconds between two batches of frames."""
_CATCH_UP = 0.1
"""Seconds of frames that a delayed sender makes up for; frames beyond were not offered."""
_LONGEST_WAIT = 0.01
"""Maximal seconds that a receiver sleeps before it reads the clock."""
_SILENCE = 1.0
"""Seconds without a packet after which traffic has ended."""
_MOST_FLOWS = 1 << 18
_BUFFER = 1 << 16
_UDP = 17
_TTL = 64


class VmTrafficError(Exception):
    """Invalid traffic; the message is that of pkt-gen."""


def _sum16(data: bytes) -> int:
    """The Internet checksum of RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ends_in(text: str) -> list[tuple[bytes, int]]:
    """All pairs of address and port of a range such as 198.18.10.1:2001-198.18.10.20.

    Raises:
        VmTrafficError: not a range, or too large.
    """
    with contextlib.suppress(ValueError):
        found = pktgen_options.parse_range(text)
        if found and 0 < found.flows <= _MOST_FLOWS:
            kind = ipaddress.IPv4Address if found.version == 4 else ipaddress.IPv6Address  # noqa: PLR2004
            return [(kind(one).packed, port) for one in found.addresses for port in found.ports]
    raise VmTrafficError(f"Unable to parse range {text!r}")


def frame(
    macs: tuple[bytes, bytes],
    source: tuple[bytes, int],
    destination: tuple[bytes, int],
    size: int,
) -> bytes:
    """An Ethernet frame with a UDP packet.

    Args:
        macs: Addresses of the sender and of the next hop.
        source: Address and port.
        destination: Address and port.
        size: Bytes with all headers, without CRC.

    Raises:
        VmTrafficError: the headers do not fit.
    """
    v6 = len(source[0]) != 4  # noqa: PLR2004 - bytes of an IPv4 address
    head = 14 + (40 if v6 else 20)
    length = size - head
    if length < 8:  # noqa: PLR2004 - UDP's header
        raise VmTrafficError(f"Unable to send {size} bytes: headers alone take {head + 8}")
    addresses = source[0] + destination[0]
    udp = struct.pack("!HHHH", source[1], destination[1], length, 0)
    payload = bytes(length - 8)
    pseudo = addresses + struct.pack("!IHBB", length, 0, 0, _UDP)
    # A sum of zero is sent as its other form, for zero means none (RFC 768).
    udp = udp[:6] + struct.pack("!H", _sum16(pseudo + udp + payload) or 0xFFFF)
    if v6:
        ip = struct.pack("!IHBB", 6 << 28, length, _UDP, _TTL) + addresses
        kind = b"\x86\xdd"
    else:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, _TTL, _UDP, 0) + addresses
        ip = ip[:10] + struct.pack("!H", _sum16(ip)) + ip[12:]
        kind = b"\x08\x00"
    return macs[1] + macs[0] + kind + ip + udp + payload


def _mac(text: str) -> bytes:
    with contextlib.suppress(ValueError):
        found = bytes.fromhex(text.replace(":", ""))
        if len(found) == 6:  # noqa: PLR2004 - bytes of a MAC address
            return found
    raise VmTrafficError(f"Unable to parse MAC address {text!r}")


@contextlib.contextmanager
def _taken(folder: Path, port: str, ring: int | None) -> Iterator[None]:
    """Locks the port, or a ring of it, and records the process for `pkill`.

    A wire has as many rings as pkt-gens ask for.

    Raises:
        VmTrafficError: there is no such port, or another process uses it.
    """
    if port not in MACS:
        raise VmTrafficError(f"Unable to open {port}: expected {' or '.join(MACS)}")
    place = folder / (f"{port}.pid" if ring is None else f"{port}-{ring}.pid")
    with place.open("a+") as stream:
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise VmTrafficError(f"Unable to open {port}: another pkt-gen has it") from None
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield


@dataclass
class _Run:
    """Counters and their output lines."""

    out: TextIO
    options: dict[str, str]
    port: str = ""
    began: float = 0.0
    """Start of the current second."""
    counted: int = 0
    """Packets of the current second."""
    total: int = 0
    stopped: bool = False

    def stop(self, *_: object) -> None:
        """Handler of SIGINT and SIGTERM."""
        self.stopped = True

    @property
    def size(self) -> int:
        return int(self.options.get("-l", "60"))

    def say(self, who: str, line: int, text: str) -> None:
        self.out.write(f"{time.time() % 1000:010.6f} {who} [{line}] {text}\n")
        self.out.flush()

    def open(self, rate: str) -> None:
        """Output before the first packet."""
        self.say("main", 3036, f"interface is {self.options.get('-i', '')}")
        for name in ("-s", "-d"):
            if name in self.options:
                self.say("extract_ip_range", 477, f"range is {self.options[name]}")
        self.say("main", 3370, rate)
        wait = int(self.options.get("-w", "2"))
        self.say("start_threads", 2695, f"Wait {wait} secs for phy reset")
        time.sleep(wait)
        self.say("start_threads", 2697, "Ready...")
        self.began = time.monotonic()

    def second(self, now: float, least: float = 1.0) -> None:
        """Writes the line of the last second, if it is over."""
        length = now - self.began
        if length < least:
            return
        length = max(length, 1e-6)
        pps, bits = self.counted / length, self.counted * self.size * 8 / length
        self.say(
            "main_thread",
            2786,
            f"{pps:.0f} pps ({self.counted} pkts {bits:.0f} bps in {length * 1e6:.0f} usec) "
            "1.00 avg_batch 0 min_space",
        )
        self.total += self.counted
        self.counted, self.began = 0, now

    def end(self, done: str) -> None:
        self.second(time.monotonic(), least=0.0)
        self.out.write(f"{done} {self.total} packets {self.total * self.size} bytes.\n")
        self.out.flush()


def _send(run: _Run, folder: Path, line_rate_pps: float) -> None:
    options, port = run.options, run.port
    macs = _mac(options.get("-S") or MACS[port]), _mac(options.get("-D", ""))
    pairs = itertools.product(ends_in(options.get("-s", "")), ends_in(options.get("-d", "")))
    frames = [frame(macs, *pair, run.size) for pair in itertools.islice(pairs, _MOST_FLOWS)]
    wire = line_rate(line_rate_pps, run.size)
    rate = min(wire, int(options.get("-R", "0")) or wire)
    count = int(options.get("-n", "0"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.setblocking(False)
        try:
            end.connect(os.fspath(folder / f"{port}.guest"))
        except OSError as error:
            raise VmTrafficError(f"Unable to open {port}: {error.strerror}") from None
        run.open(f"Sending {len(frames)} flows, {rate:.0f} packets a second")
        due, last = 0.0, run.began
        order = itertools.cycle(frames)
        while count > 0 and not run.stopped:
            now = time.monotonic()
            due = min(due + (now - last) * rate, _CATCH_UP * rate)
            last = now
            batch = min(int(due), count)
            due -= batch
            count -= batch
            run.counted += batch
            with contextlib.suppress(OSError):  # no room: the rest is lost on the wire
                for one in itertools.islice(order, batch):
                    end.send(one)
            run.second(now)
            time.sleep(_TICK)
    run.end("Sent")


def _drain(run: _Run, end: socket.socket, buffer: bytearray) -> bool:
    """Counts received frames, after a short sleep if there are none; returns whether any came."""
    if not select.select([end], [], [], _LONGEST_WAIT)[0]:
        return False
    with contextlib.suppress(BlockingIOError):
        for _ in range(256):
            end.recv_into(buffer)
            run.counted += 1
    return True


def _receive(run: _Run, folder: Path) -> None:
    place = folder / f"{run.port}.host"
    place.unlink(missing_ok=True)  # of a killed process
    buffer = bytearray(_BUFFER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(os.fspath(place))
        end.setblocking(False)
        try:
            run.open("Receiving")
            heard = time.monotonic()
            while not run.stopped:
                if _drain(run, end, buffer):
                    heard = time.monotonic()
                run.second(time.monotonic())
                seen = run.total or run.counted
                if seen and time.monotonic() - heard > _SILENCE and "-W" in run.options:
                    break
        finally:
            place.unlink(missing_ok=True)
    run.end("Received")


def pkt_gen(folder: Path, line_rate_pps: float, arguments: Sequence[str], out: TextIO) -> int:
    """Sends or receives until the end or a signal; returns the exit status.

    `line_rate_pps` is the line rate in packets of 60 bytes per second.
    """
    run = _Run(out, {})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    try:
        run.options = pktgen_options.parse(arguments)
        if "-h" in run.options:
            out.write(pktgen_options.usage())
            return 0
        run.port, ring = pktgen_options.parse_port(run.options.get("-i", ""))
        with _taken(folder, run.port, ring):
            if run.options.get("-f") == "tx":
                _send(run, folder, line_rate_pps)
            else:
                _receive(run, folder)
    except pktgen_options.OptionError as error:
        out.write(str(error))
        return pktgen_options.REFUSED
    except VmTrafficError as error:
        run.say("main", 3247, str(error))
        return 1
    return 0


def interfaces(folder: Path) -> str:
    """The host's ends as in `ifconfig -a`; they have a link if the guest's ends exist."""
    lines = []
    for port, mac in MACS.items():
        link = "active" if (folder / f"{port}.guest").exists() else "no carrier"
        lines += [
            f"{port}: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1514\n",
            f"\tether {mac}\n\tstatus: {link}\n",
        ]
    return "".join(lines)


def interrupt(folder: Path) -> int:
    """Ends senders and receivers on these ports; returns 1 if there were none."""
    found = 0
    places = [place for port in MACS for place in folder.glob(f"{port}*.pid")]
    for place in places:
        with contextlib.suppress(OSError, ValueError), place.open("r+") as stream:
            try:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.kill(int(stream.read()), signal.SIGINT)
                found += 1
    return 0 if found else 1


def main() -> int:
    """The command line; returns the exit status."""
    folder, line_rate_pps, program, *arguments = sys.argv[1:]
    if program == "ifconfig":
        sys.stdout.write(interfaces(Path(folder)))
        return 0
    if program == "pkill":
        return interrupt(Path(folder))
    return pkt_gen(Path(folder), float(line_rate_pps), arguments, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
