"""netmap's pkt-gen: sending, receiving and its output.

The output is that of FreeBSD 14 and later, as in netbenches: seconds on standard error, the sum on
standard output.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import ClassVar

from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import Host, Program
from netbisect.demo.lab.shell import CommandFailedError, Shell
from netbisect.demo.lab.traffic import Flow, Network, SimulatedLink, schedule
from netbisect.workers.config import pktgen_options

_CRASH_AFTER = 5
"""Seconds of traffic."""
_DEATH_AFTER = 10
"""Seconds of traffic until a faulty host goes down."""
_NOTICE = 1.0635
"""Seconds until the main thread notices the end of the others."""


async def pkt_gen(host: Host, network: Network, shell: Shell, arguments: list[str]) -> int:
    """`pkt-gen -f tx|rx|ping|pong -i PORT ...`."""
    try:
        options = pktgen_options.parse(arguments)
    except pktgen_options.OptionError as error:
        raise CommandFailedError(str(error).rstrip(), pktgen_options.REFUSED) from error
    if "-h" in options:
        shell.err(pktgen_options.usage())
        return 0
    function = options.get("-f", "rx")
    port, ring = pktgen_options.parse_port(options.get("-i", ""))
    sends = function in ("tx", "ping")
    find = network.from_generator if sends else network.to_receiver
    link = find(host.name, port)
    run = _Run(host, shell, options, options.get("-i", ""), Program("pkt-gen", arguments))
    if link is None or (sends and not int(options.get("-n", "0"))):
        run.say("main", 3247, f"Unable to open netmap:{port}: Device not configured")
        return 1
    if ring is not None and ring >= host.processors:
        shell.err(f"{port}: Invalid argument\n")
        run.say("main", 3332, "aborting")
        raise CommandFailedError(pktgen_options.usage().rstrip(), pktgen_options.REFUSED)
    if run.threads > host.processors:
        run.say("main", 3284, f"bad nthreads {run.threads}, have {host.processors} queues")
        return 1
    host.programs.add(run.program)
    shell.program = run.program
    link.bounce(host, port)
    try:
        functions = {"tx": run.send, "ping": run.ping, "pong": run.pong}
        await functions.get(function, run.receive)(link)
    finally:
        link.bounce(host, port)
        host.programs.discard(run.program)
        shell.program = None
    return 0


@dataclass
class _Total:
    """Totals of a run."""

    packets: int = 0
    seconds: float = 0.0
    busy: int = 0
    """Lines that report packets."""


@dataclass
class _Run:
    """A run of the program."""

    host: Host
    shell: Shell
    options: dict[str, str]
    port: str
    """As ordered: `igb2`, or `netmap:igb2-0`."""
    program: Program
    total: _Total = field(default_factory=_Total)
    noise: random.Random = field(default_factory=random.Random)

    _IDLE: ClassVar = ("10.0.0.1:1234", "10.1.0.1:1234")

    @property
    def family(self) -> str:
        return "inet6" if "-6" in self.options else "inet4"

    @property
    def size(self) -> int:
        return int(self.options.get("-l", "60"))

    @property
    def threads(self) -> int:
        return int(self.options.get("-p", "1"))

    @property
    def cpus(self) -> int:
        """Those that `-c` allows, 0 for all."""
        return int(self.options.get("-c", "1")) or self.host.processors

    def share(self) -> float:
        """Share of a processor per thread; `-a` is taken modulo the number of allowed ones."""
        if "-a" not in self.options:
            return 1.0
        first = int(self.options["-a"])
        bound = {(first + thread) % self.cpus for thread in range(self.threads)}
        return len(bound) / self.threads

    def say(self, who: str, line: int, text: str, at: float | None = None) -> None:
        moment = (self.host.clock.now() if at is None else at) % 1000
        self.shell.err(f"{moment:.6f} {who} [{line}] {text}\n")

    def rate(self, begin: float, end: float, packets: int, batch: float) -> None:
        """The line of a second."""
        length = end - begin
        bits = packets * self.size * 8 / length
        self.say(
            "main_thread",
            2786,
            f"{packets / length:.0f} pps ({packets} pkts {bits:.0f} bps "
            f"in {length * 1e6:.0f} usec) {batch:.2f} avg_batch "
            f"{99999 if batch > 100 or not self.total.packets else 1008} min_space",
            at=end,
        )
        self.total.packets += packets
        if packets:
            self.total.seconds += length
            self.total.busy += 1

    def sum(self, doing: str, done: str, between: str = "") -> None:
        """The summary, on standard output."""
        total, size = self.total, self.size
        seconds, port = max(total.seconds, 1e-6), self.port.removeprefix("netmap:")
        bits = total.packets * size * 8 / seconds
        self.shell.out(
            f"{doing} netmap:{port}: 5 queues, {self.threads} threads and {self.cpus} cpus.\n"
            f"{between}"
            f"{done} {total.packets} packets {total.packets * size} bytes "
            f"{total.packets // 400} events {size} bytes each in {seconds:.2f} seconds.\n"
            f"Speed: {total.packets / seconds:.0f} pps Bandwidth: {bits:.0f} bps "
            f"(raw {bits:.0f} bps). Average batch: 400.00 pkts\n"
        )

    async def open(self) -> None:
        """The output before the first packet."""
        source, destination = self._IDLE
        first = [self.options.get("-s", source), self.options.get("-d", destination)]
        self.say("main", 3036, f"interface is {self.port}")
        self.say("main", 3159, "using default burst size: 512")
        cpus = self.options.get("-c", "1")
        self.say("main", 3167, f"running on {cpus} cpus (have {self.host.processors})")
        for text in first:
            begin, _, end = text.partition("-")
            self.say("extract_ip_range", 477, f"range is {begin} to {end or begin}")
        if self.options.get("-f") == "tx":
            self.say("main", 3348, "--- SPECIAL OPTIONS: copy\n")
            self.say("main", 3370, "Sending 512 packets every  0.000000000 s")
        wait = int(self.options.get("-w", "2"))
        self.say("start_threads", 2695, f"Wait {wait} secs for phy reset")
        clock = self.host.clock
        await clock.until(clock.now() + wait, self.program.interrupted)
        self.say("start_threads", 2697, "Ready...")

    def _crashes(self) -> bool:
        crashes = (
            InjectedFault.PKT_GEN_CRASHES in self.host.faults and self.total.busy >= _CRASH_AFTER
        )
        if crashes:
            self.say("main_thread", 2852, "ouch, thread 0 exited with error")
        return crashes

    async def _dies(self) -> bool:
        dies = InjectedFault.DIES_UNDER_LOAD in self.host.faults and self.total.busy >= _DEATH_AFTER
        if dies:
            await self.host.stop()  # with the connection over which this runs
        return dies

    async def send(self, link: SimulatedLink) -> None:
        """`-f tx`."""
        await self.open()
        clock = self.host.clock
        start = clock.now()
        self.say("sender_body", 1702, "start, fd 3 main_fd 3")
        self.say("sender_body", 1760, f"frags 1 frag_size {self.size}")
        pps = link.line_rate(self.size)
        pps = self.share() * min(pps, self.threads * int(self.options.get("-R", "0")) or pps)
        count = int(self.options["-n"])
        seconds = tuple(schedule(start, count, pps, self.noise))
        ranges = [pktgen_options.parse_range(self.options.get(end, "")) for end in ("-s", "-d")]
        flows = math.prod(one.flows for one in ranges if one)
        mac = self.options.get("-D", "")
        flow = Flow(self.family, self.size, mac, seconds, flows=flows)
        link.send(flow)
        try:
            for second in seconds:
                ended = await clock.until(second.end, self.program.interrupted)
                if ended or self._crashes() or await self._dies():
                    break
                length = max(second.end - second.begin, _NOTICE * (second is seconds[-1]))
                self.rate(second.begin, second.begin + length, second.packets, 450.0)
        finally:
            flow.stopped = clock.now()
            link.sent(flow)
        source, destination = self.options.get("-s", ""), self.options.get("-d", "")
        macs = f"{self.options.get('-S', '')} -> {self.options.get('-D', '')}"
        self.sum("Sending on", "Sent", f"{source} -> {destination} ({macs})\n")

    async def ping(self, link: SimulatedLink) -> None:
        """`-f ping`; without an answer, the next packet waits for three seconds."""
        await self.open()
        clock = self.host.clock
        left, rate = int(self.options["-n"]), int(self.options.get("-R", "1000"))
        factors, end = link.router.seconds(), clock.now()
        while left > 0:
            average = link.round_trip(self.options.get("-D", "")) / next(factors)
            end += 1 if average else 3
            if await clock.until(end, self.program.interrupted):
                break
            count = min(rate, left) if average else 1
            left -= count
            if average:
                least = 0.8 * average
                text = f"count {count} RTT: min {least:.0f} av {average:.0f} ns"
                self.say("ping_body", 1518, text, at=end)
            else:
                self.say("ping_body", 1461, "poll error on queue 0: timeout", at=end)

    async def pong(self, link: SimulatedLink) -> None:
        """`-f pong`, until it is interrupted."""
        await self.open()
        link.answers = True
        try:
            await self.program.interrupted.wait()
        finally:
            link.answers = False

    async def receive(self, link: SimulatedLink) -> None:
        """`-f rx`; with -W it ends after the traffic."""
        await self.open()
        clock = self.host.clock
        begin = clock.now()
        self.say("receiver_body", 1940, f"reading from netmap:{self.port} fd 3 main_fd 3")
        factors = link.router.seconds()
        factor = next(factors)
        # Each of several threads reads one ring.
        read = self.threads / self.host.processors if self.threads > 1 else 1.0
        while True:
            end = begin + 1.0 + self.noise.uniform(0.0004, 0.0014)
            if await clock.until(end, self.program.interrupted):
                break
            packets = int(link.arriving(begin, end, factor) * read)
            if packets:
                factor = next(factors)
            elif not self.total.packets:
                text = "waiting for initial packets, poll returns 0 0"
                self.say("receiver_body", 1955, text, at=end)
            self.rate(begin, end, packets, 4.3 if packets else 0.0)
            over = not packets and self.total.packets and "-W" in self.options
            if self._crashes() or await self._dies() or over:
                break
            begin = end
        self.sum("Receiving from", "Received")
