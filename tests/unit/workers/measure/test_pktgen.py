"""Output and command lines of pkt-gen."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from netbisect.bisect.model.faults import Fault, fault_of_run
from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.scenario import Traffic
from netbisect.workers.config.testbed import TrafficHost
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.pktgen import Outputs

HEAD = """\
667.492896 main [3036] interface is igb2
667.492977 main [3159] using default burst size: 512
667.492992 main [3167] running on 1 cpus (have 8)
667.493297 extract_ip_range [477] range is 10.0.0.1:1234 to 10.0.0.1:1234
667.493313 extract_ip_range [477] range is 10.1.0.1:1234 to 10.1.0.1:1234
667.924607 start_threads [2695] Wait 2 secs for phy reset
669.924646 start_threads [2697] Ready...
669.924802 receiver_body [1940] reading from netmap:igb2 fd 3 main_fd 3
"""
TAIL = """\
Receiving from netmap:igb2: 9 queues, 1 threads and 1 cpus.
Received 48372188 packets 2999075656 bytes 16540724 events 62 bytes each in 55.05 seconds.
Speed: 878684 pps Bandwidth: 435827425 bps (raw 435827425 bps). Average batch: 2.92 pkts
"""


def second(rate: float) -> str:
    """The line of one second, in the format since FreeBSD 11."""
    return (
        f"671.994921 main_thread [2786] {rate} pps "
        f"(597840 pkts 286675378 bps in 1001004 usec) 4.30 avg_batch 1007 min_space\n"
    )


def output(rates: list[float]) -> str:
    """Output of a receiver: header, idle seconds, traffic and summary."""
    idle = "670.98 receiver_body [1955] waiting for initial packets, poll returns 0 0\n" + second(0)
    return HEAD + 4 * idle + "".join(second(rate) for rate in rates) + second(0) + TAIL


FORMAT_A = (1534, 1553)
FORMAT_B = (2277, 2786)


@pytest.mark.parametrize("version", [*FORMAT_A, *FORMAT_B])
@pytest.mark.parametrize("end", ["Terminated\n", TAIL])
def test_output_of_every_version_in_netbenches_is_parsed(version: int, end: str) -> None:
    """Versions differ in line numbers of the source; seconds restart at 0 after 999."""
    lines = []
    for number in range(40):
        at, rate = (990 + number) % 1000, 600_000 + number
        text = f"{at}.003708 main_thread [{version}] {rate} pps "
        if version in FORMAT_A:
            text += f"({rate + 600} pkts in 1001894 usec)"
        else:
            text += (
                f"({rate + 600} pkts 287999999 bps in 1001894 usec) 4.30 avg_batch 1007 min_space"
            )
        lines.append(f"{text}\n")
    head = f"CMD on pkt1: pkt-gen -N -f rx -i igb2 -w 2 -W\n{HEAD}"
    output = head + "".join(lines) + end
    assert pktgen.all_rates(output) == [600_000 + number for number in range(40)]
    dropped = 9 + len(end.splitlines())  # trimmed lines at the end; at the start: 15 - header
    kept = pktgen.kept_rates(output)
    assert kept == [600_000 + number for number in range(15 - 9, 40 - 10 + dropped - 9)]
    assert pktgen.offered_rate(output) == statistics.median(range(600_001, 600_038))


def test_rates_of_several_hosts_are_sums_of_medians() -> None:
    """The second receiver starts two seconds later; seconds at half load do not count."""
    load = [*(3 * [2e5]), *(30 * [4e5]), *(12 * [2e5])]
    first, second_one = output(load), output([0.0, 0.0, *load])
    sent = {"generator 1 on a": first, "generator 2 on b": second_one}
    outputs = Outputs(sent, {"receiver 1 on c": first, "receiver 2 on d": second_one})
    pps, offered, problems = pktgen.evaluate(outputs)
    assert (pps, problems) == (8e5, [])
    assert offered == dict.fromkeys(sent, 4e5)
    summed = pktgen.sums(sent)
    assert summed[:10] == [*(6 * [0]), 4e5, 4e5, 4e5, 8e5]
    assert len(summed) == len(pktgen.all_rates(second_one))


def test_problems_of_several_hosts_name_the_host() -> None:
    good = output(40 * [1e5])
    outputs = Outputs(
        {"generator 1 on a": good, "generator 2 on b": "bad interpreter\n"},
        {"receiver 1 on c": good, "receiver 2 on d": output(12 * [1e5])},
    )
    pps, offered, problems = pktgen.evaluate(outputs)
    assert pps == 2e5
    assert offered == {"generator 1 on a": 1e5, "generator 2 on b": 0.0}
    assert problems == [
        "generator 2 on b: the sender reports 0 seconds of traffic; its last line: bad interpreter",
        "receiver 2 on d: 6 seconds of traffic are left after trimming, 15 are needed",
    ]
    assert fault_of_run(problems) is Fault.GENERATOR_DIES
    assert fault_of_run(["the sender reports 0 seconds of traffic"]) is Fault.GENERATOR_DIES
    pps, _, problems = pktgen.evaluate(
        Outputs({}, {"receiver 1 on c": good, "receiver 2 on d": ""})
    )
    assert pps == 0
    assert repr(pktgen.evaluate(Outputs({}, {}))) == "(0.0, {}, [])"
    assert fault_of_run(problems) is Fault.NO_TRAFFIC


def test_error_message_of_pkt_gen_is_quoted() -> None:
    for begin, why, end in (
        ("667.5 main [3247] ", "Unable to open netmap:igb2: Device not configured", ""),
        ("", "pkt-gen: illegal option -- U", "Usage:\n"),
        ("", "igb2: Invalid argument", "1.5 main [3332] aborting\n"),
        ("1.5 main [3290] ", "pkt_size (1514) must be <= mtu (1500)", ""),
    ):
        assert pktgen.complaint(f"{begin}{why}\n{end}") == why
    assert pktgen.complaint(HEAD + TAIL) == ""


def test_threads_share_the_rate() -> None:
    """-R is a rate per thread; pkt-gen itself divides the packets of -n by the threads."""
    host = TrafficHost("pkt1", PortSelector("igb2"), threads=4, first_cpu=2)
    traffic = Traffic("inet4", "198.18.10.1-198.18.10.2", "198.19.10.1-198.19.10.2", rate=1_000_000)
    command = pktgen.sender_command("igb2", traffic, 100, host, macs=("", ""), wait=2)
    assert command[-8:] == ["-R", "250000", "-p", "4", "-a", "2", "-c", "0"]
    assert command[command.index("-n") + 1] == "100"
    assert pktgen.receiver_command("igb2", 2, host)[-6:] == command[-6:]
    assert pktgen.threads(replace(host, threads=1, first_cpu=None)) == []


def test_commands_equal_those_of_netbenches() -> None:
    host = TrafficHost("pkt1", PortSelector("igb2"))
    command = pktgen.receiver_command("igb2", 2, host)
    assert " ".join(command) == "pkt-gen -N -f rx -i igb2 -w 2", (
        "receiver_command() explains the lack of -W"
    )
    traffic = Traffic(
        "inet6",
        "[2001:2:0:10::1]-[2001:2:0:10::14]",
        "[2001:2:0:8010::1]-[2001:2:0:8010::64]",
        size=62,
        checksums=True,
    )
    macs = "0c:c4:7a:ab:29:35", "00:0d:b9:41:ca:3d"
    command = pktgen.sender_command("igb1", traffic, 80_000_000, host, macs=macs, wait=2)
    assert " ".join(command) == (
        "pkt-gen -N -f tx -i igb1 -n 80000000 -l 62 -6 "
        "-d [2001:2:0:8010::1]-[2001:2:0:8010::64] -D 00:0d:b9:41:ca:3d "
        "-s [2001:2:0:10::1]-[2001:2:0:10::14] -S 0c:c4:7a:ab:29:35 -w 2 -U"
    )
