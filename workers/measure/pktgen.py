"""Commands and output of netmap's pkt-gen.

A line of a run, of sender and receiver, in all versions in netbenches:

    982.003708 main_thread [2277] 968409 pps (970243 pkts 465716640 bps in 1001894 usec) ...

The number in brackets is a line of pkt-gen's source, so it names the version. Those before 2000
leave out the bits per second; the normalised output (-N) writes plain packets per second.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from netbisect.workers.config import pktgen_options
from netbisect.workers.config.scenario import Scenario, Traffic
from netbisect.workers.config.testbed import TrafficHost

_KEPT = re.compile(r"main_thread[ \t\n\v\f\r]\[[0-9]+\][ \t\n\v\f\r][1-9]")
_TOTAL = re.compile(r"^(?:Sent|Received) (\d+) packets", re.MULTILINE)
_CRASHED = re.compile(r"ouch, thread \d+ exited with error")
# A port without virtio-net headers is the usual case: get_vnet_hdr_len() in pkt-gen.c goes on.
_COMPLAINT = re.compile(
    r"(?:\] *|^)((?:Unable to (?!get virtio-net header length)|Cannot|No such|nm_open|aborting"
    r"|pkt-gen: |pkt_size |\S{1,64}: Invalid argument).*)",
    re.MULTILINE,
)
_UNITS = {"pps": 1.0, "Kpps": 1e3, "Mpps": 1e6, "Gpps": 1e9}
LEADING_LINES = 15
"""Lines at the start that netbenches drops: header and ramp."""
TRAILING_LINES = 10
"""Lines at the end that netbenches drops."""
LEAST_SECONDS = 15
"""Minimal seconds of traffic after trimming (docs/lab.md)."""


class PktGenOutputError(ValueError):
    """Output without a rate."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the pkt-gens of a run printed, by their names in reports."""

    sent: Mapping[str, str]
    """By generator, such as `the generator`."""
    received: Mapping[str, str]
    """By receiver."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Share of the packets that each of `sent` must offer; empty: equal shares."""

    @property
    def crashed(self) -> bool:
        """Whether a thread of any pkt-gen died."""
        return any(map(crashed, [*self.sent.values(), *self.received.values()]))


def crashed(output: str) -> bool:
    """Whether a thread of pkt-gen died."""
    return _CRASHED.search(output) is not None


def complaint(output: str) -> str:
    """Why pkt-gen did not start, or ""."""
    found = _COMPLAINT.search(output)
    return found[1].strip() if found else ""


def refused(output: str) -> bool:
    """Whether it did not take its options; it then exits with 255, as ssh(1) does by itself."""
    return pktgen_options.USAGE in output


def ready(output: str) -> bool:
    """Whether the port is open and the link is up."""
    return "Ready..." in output


def _rate(line: str) -> float | None:
    """Packets per second of a line `SECONDS main_thread [N] RATE UNIT ...`."""
    words = line.split()
    try:
        rate = float(words[3]) * _UNITS[words[4]]
    except (IndexError, ValueError, KeyError):
        return None
    return rate if math.isfinite(rate) and rate >= 0 else None


def kept_rates(output: str) -> list[float]:
    """Packets per second of the seconds that count, by the netbenches rule.

    The rule, as in netbenches' bench-lab-ministat.sh: of L lines take `head -n (L-10) | tail -n
    (L-25)`, of those the lines that report a rate other than zero, of each the fourth word.

    Raises:
        PktGenOutputError: no such line is left.
    """
    lines = output.removesuffix("\n").split("\n") if output else []
    rates = []
    for line in lines[LEADING_LINES:-TRAILING_LINES]:
        found = _KEPT.search(line)
        if found and "pps" in line[found.end() :] and (rate := _rate(line)) is not None:
            rates.append(rate)
    if not rates:
        raise PktGenOutputError(
            f"none of its {len(lines)} lines reports a rate after the first {LEADING_LINES} "
            f"and the last {TRAILING_LINES} are left out{_reason(output)}"
        )
    return rates


def median_rate(output: str) -> float:
    """The sample: median of `kept_rates`, packets per second, as netbenches prints it (`%.8g`).

    Raises:
        PktGenOutputError: as `kept_rates`.
    """
    return float(f"{statistics.median(kept_rates(output)):.8g}")


def all_rates(output: str) -> list[float]:
    """Packets per second of every second, zeros included."""
    lines = (line for line in output.splitlines() if " main_thread [" in line)
    return [rate for line in lines if (rate := _rate(line)) is not None]


def offered_rate(output: str) -> float:
    """Offered rate: median of the sender's seconds without the first and the last two.

    Raises:
        PktGenOutputError: fewer than four seconds.
    """
    rates = [rate for rate in all_rates(output) if rate > 0]
    if len(rates) < 4:  # noqa: PLR2004 - one of ramp, two of tail, one to count
        why = f"the sender reports {len(rates)} seconds of traffic{_reason(output)}"
        raise PktGenOutputError(why)
    return statistics.median(rates[1:-2])


def last_line(output: str) -> str:
    """Suffix of a message: the last line of an output, if there is one."""
    last = output.strip().rpartition("\n")[2].strip()
    return f"; its last line: {last}" if last else ""


def _reason(output: str) -> str:
    """`last_line` of an output without rates, if it is no `complaint`."""
    return "" if all_rates(output) or complaint(output) else last_line(output)


def total(output: str) -> int:
    """Packets sent or received.

    Raises:
        PktGenOutputError: no summary.
    """
    found = _TOTAL.search(output)
    if found is None:
        raise PktGenOutputError("pkt-gen printed no summary")
    return int(found[1])


def sums(outputs: Mapping[str, str]) -> list[float]:
    """Packets per second of all together, aligned at the first second with packets of each."""
    found = [all_rates(text) for text in outputs.values()]
    idle = [next((at for at, rate in enumerate(rates) if rate > 0), 0) for rates in found]
    aligned = [
        (max(idle) - before) * [0.0] + rates for before, rates in zip(idle, found, strict=True)
    ]
    return list(map(sum, itertools.zip_longest(*aligned, fillvalue=0.0)))


def busy_medians(outputs: Mapping[str, str]) -> dict[str, float]:
    """Median of the seconds with packets by pkt-gen; 0 without any."""
    busy = {who: [one for one in all_rates(text) if one > 0] for who, text in outputs.items()}
    return {who: statistics.median(rates) if rates else 0.0 for who, rates in busy.items()}


def evaluate(outputs: Outputs) -> tuple[float, dict[str, float], list[str]]:
    """Received rate, offered rate of each generator (pps; 0: unknown), and problems.

    The received rate is the sum of the receivers' medians, not the median of their sums: the
    pkt-gens do not start in the same second, and the clocks of their hosts differ, so that a sum
    of two lines would combine different moments.
    """
    ends = [*outputs.received.items(), *outputs.sent.items()]
    problems = [f"{who}'s pkt-gen crashed" for who, output in ends if crashed(output)]
    problems += [
        f"{who}'s pkt-gen says: {why}" for who, output in ends if (why := complaint(output))
    ]

    offered = dict.fromkeys(outputs.sent, 0.0)
    for who, output in outputs.sent.items():
        mark = f"{who}: " if len(offered) > 1 else ""
        try:
            offered[who] = offered_rate(output)
        except PktGenOutputError as error:
            problems.append(f"{mark}{error}")
    medians = []
    for who, output in outputs.received.items():
        mark = f"{who}: " if len(outputs.received) > 1 else ""
        try:
            seconds = len(kept_rates(output))
            medians.append(median_rate(output))
            if seconds < LEAST_SECONDS:
                problems.append(
                    f"{mark}{seconds} seconds of traffic are left after trimming, "
                    f"{LEAST_SECONDS} are needed"
                )
        except PktGenOutputError as error:
            problems.append(f"{who}: {error}")
    pps = sum(medians, 0.0) if len(medians) == len(outputs.received) else 0.0
    return pps, offered, problems


def needed_options(scenario: Scenario, *hosts: TrafficHost) -> frozenset[str]:
    """Letters of the options of pkt-gen that a run of the scenario uses, at any of the hosts."""
    if scenario.traffic is None:
        return frozenset()
    traffic = scenario.traffic
    traffic = replace(traffic, rate=traffic.rate or scenario.no_drop_steps or len(traffic.mix))
    command: list[str] = []
    for host in hosts:
        command += sender_command("", traffic, 1, host, macs=("any", "any"), wait=0)
        command += receiver_command("", 0, host)
    return frozenset(pktgen_options.used(command))


def receiver_command(interface: str, wait: int, host: TrafficHost) -> list[str]:
    """Command that counts packets on `interface` until it is stopped."""
    # With -W it ends after one second without packets, so that a stray packet before the traffic
    # would end it.
    command = ["pkt-gen", "-N", "-f", "rx", "-i", interface, "-w", str(wait)]
    return command + threads(host)


def threads(host: TrafficHost) -> list[str]:
    """Options for threads and processors; none for one thread anywhere."""
    options = ["-p", str(host.threads)] if host.threads > 1 else []
    if host.first_cpu is not None:
        # Without -c 0, "all", -a is taken modulo 1: each thread would run on processor 0.
        options += ["-a", str(host.first_cpu), "-c", "0"]
    return options


def sender_command(
    interface: str,
    traffic: Traffic,
    count: int,
    host: TrafficHost,
    *,
    macs: tuple[str, str],
    wait: int,
) -> list[str]:
    """Command that sends packets.

    pkt-gen divides the packets among its threads, but each of them sends at the whole rate of -R.

    Args:
        interface: Name of the port.
        traffic: The packets.
        count: Number of packets.
        macs: MAC addresses of source and destination; "" if unknown.
        wait: Seconds after opening the port.
        host: The generator; None for one thread.
    """
    command = ["pkt-gen", "-N", "-f", "tx", "-i", interface, "-n", str(count)]
    command += ["-l", str(traffic.size), "-4" if traffic.family == "inet4" else "-6"]
    source, destination = macs
    command += ["-d", traffic.destination, *(["-D", destination] if destination else [])]
    command += ["-s", traffic.source, *(["-S", source] if source else []), "-w", str(wait)]
    if traffic.rate:
        command += ["-R", str(max(1, traffic.rate // host.threads))]
    return [*command, *threads(host), *(["-U"] if traffic.checksums else [])]
