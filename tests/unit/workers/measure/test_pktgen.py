"""What is taken from pkt-gen's output, and what is refused."""

from __future__ import annotations

import contextlib
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.measure import pktgen

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


def second(rate: float, unit: str = "pps") -> str:
    """A line as versions since FreeBSD 11 print it."""
    return (
        f"671.994921 main_thread [2786] {rate} {unit} "
        f"(597840 pkts 286675378 bps in 1001004 usec) 4.30 avg_batch 1007 min_space\n"
    )


def output(rates: list[float]) -> str:
    """A receiver's file: header, an idle time, the seconds, the summary."""
    idle = "670.98 receiver_body [1955] waiting for initial packets, poll returns 0 0\n" + second(0)
    return HEAD + 4 * idle + "".join(second(rate) for rate in rates) + second(0) + TAIL


def test_fifteen_lines_at_the_start_and_ten_at_the_end_are_left_out() -> None:
    """Of 40 seconds after 16 lines of prelude, the last six fall to the trailing ten."""
    rates = [float(600_000 + number) for number in range(40)]
    assert pktgen.kept_rates(output(rates)) == rates[:-6]


def test_the_sample_is_the_median_of_what_is_kept() -> None:
    rates = [1.0] * 3 + [600_000.0] * 20 + [700_000.0] * 19
    assert pktgen.median_rate(output(rates)) == 600_000.0


def test_an_even_number_of_seconds_has_the_mean_of_the_two_in_the_middle() -> None:
    rates = [float(100 + number) for number in range(26)]
    assert pktgen.median_rate(output(rates)) == statistics.median(rates[:-6]) == 109.5


def test_seconds_without_a_packet_are_no_rates() -> None:
    """They start with a zero, and the rule asks for lines that do not."""
    rates = [500_000.0, 0.0, 500_002.0] * 10
    assert 0.0 not in pktgen.kept_rates(output(rates))


@pytest.mark.parametrize(("unit", "factor"), [("pps", 1.0), ("Kpps", 1e3), ("Mpps", 1e6)])
def test_old_versions_print_other_units(unit: str, factor: float) -> None:
    lines = HEAD + "".join(second(1.25, unit) for _ in range(40))
    assert pktgen.median_rate(lines) == 1.25 * factor


def test_the_format_before_freebsd_11_has_no_bits_per_second() -> None:
    line = "982.003708 main_thread [1553] 968409 pps (970243 pkts in 1001894 usec)\n"
    assert pktgen.median_rate(HEAD + 40 * line) == 968_409.0


FORMAT_A = (1534, 1547, 1550, 1553)
FORMAT_B = (2277, 2329, 2514, 2655, 2671, 2683, 2687, 2786)


@pytest.mark.parametrize("version", [*FORMAT_A, *FORMAT_B])
@pytest.mark.parametrize("command", ["CMD: pkt-gen -f rx", "CMD on pkt1: pkt-gen -N -f rx"])
@pytest.mark.parametrize("end", ["Terminated\n", TAIL])
def test_every_version_that_netbenches_has_seen_is_read(
    version: int, command: str, end: str
) -> None:
    """Versions are lines of its source; seconds begin anew after 999; words may end with a tab."""
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
    head = f"{command} -i igb2 -w 2 -W\n{HEAD}"
    said = head + "".join(lines) + end
    assert pktgen.all_rates(said) == [600_000 + number for number in range(40)]
    dropped = 9 + len(end.splitlines())  # of the last lines, and of the first: 15 - header
    kept = pktgen.kept_rates(said)
    assert kept == [600_000 + number for number in range(15 - 9, 40 - 10 + dropped - 9)]
    assert pktgen.offered_rate(said) == statistics.median(range(600_001, 600_038))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "667.5 main [3247] Unable to open netmap:igb2: Device not configured\n",
            "Unable to open netmap:igb2: Device not configured",
        ),
        ("pkt-gen: illegal option -- U\nUsage:\n", "pkt-gen: illegal option -- U"),
        (HEAD + TAIL, ""),
    ],
)
def test_why_it_did_not_begin_is_told_in_its_own_words(said: str, why: str) -> None:
    assert pktgen.complaint(said) == why


def test_an_output_that_is_too_short_is_no_sample() -> None:
    with pytest.raises(pktgen.PktGenOutputError) as caught:
        pktgen.median_rate(HEAD)
    assert str(caught.value) == (
        "none of its 8 lines reports a rate after the first 15 and the last 10 are left out"
    )


def test_all_rates_keep_every_second() -> None:
    assert pktgen.all_rates(output([5.0, 0.0, 7.0])) == [0, 0, 0, 0, 5, 0, 7, 0]


def test_what_was_offered_leaves_out_ramp_and_tail() -> None:
    """The first second and the last two are the sender's, not the wire's."""
    lines = "".join(second(rate) for rate in [499_766, 1_488_000, 1_489_000, 900_000, 500_000])
    assert pktgen.offered_rate(lines) == 1_488_500


def test_a_sender_that_stopped_at_once_offered_nothing() -> None:
    with pytest.raises(pktgen.PktGenOutputError, match="reports 3 seconds of traffic"):
        pktgen.offered_rate(second(1) * 3 + second(0) * 3)


def test_a_crash_of_pkt_gen_is_seen() -> None:
    assert pktgen.crashed(HEAD + "700.1 main_thread [2852] ouch, thread 0 exited with error\n")
    assert not pktgen.crashed(output([1.0]))


def test_a_port_without_virtio_headers_is_no_complaint() -> None:
    """pkt-gen.c, get_vnet_hdr_len(): it says so and goes on; what follows may be a complaint."""
    harmless = "667.493 get_vnet_hdr_len [1143] Unable to get virtio-net header length\n"
    assert pktgen.complaint(harmless) == ""
    why = "Unable to set virtio-net header length 12"
    assert pktgen.complaint(f"{harmless}667.5 set_vnet_hdr_len [1171] {why}\n") == why
    assert pktgen.evaluate(harmless + output([6e5] * 40), harmless + output([6e5] * 40)) == (
        600_000.0,
        600_000.0,
        [],
    )


def test_an_open_port_is_seen() -> None:
    """Before that line a sender's packets would be lost."""
    before, _, _ = HEAD.partition("669.924646")
    assert not pktgen.ready(before)
    assert pktgen.ready(HEAD)


def test_the_commands_are_those_of_netbenches() -> None:
    command = pktgen.receiver_command("igb2", 2)
    assert " ".join(command) == "pkt-gen -N -f rx -i igb2 -w 2 -W"
    command = pktgen.sender_command(
        "igb1",
        count=80_000_000,
        size=62,
        family="inet6",
        source="[2001:2:0:10::1]-[2001:2:0:10::14]",
        destination="[2001:2:0:8010::1]-[2001:2:0:8010::64]",
        source_mac="0c:c4:7a:ab:29:35",
        destination_mac="00:0d:b9:41:ca:3d",
        checksums=True,
        wait=2,
    )
    assert " ".join(command) == (
        "pkt-gen -N -f tx -i igb1 -n 80000000 -l 62 -6 "
        "-d [2001:2:0:8010::1]-[2001:2:0:8010::64] -D 00:0d:b9:41:ca:3d "
        "-s [2001:2:0:10::1]-[2001:2:0:10::14] -S 0c:c4:7a:ab:29:35 -w 2 -U"
    )


@given(st.text())
def test_whatever_is_printed_gives_a_number_or_no_rate(text: str) -> None:
    """No other exception gets out, and no rate is negative or infinite."""
    for take in (pktgen.median_rate, pktgen.offered_rate):
        with contextlib.suppress(pktgen.PktGenOutputError):
            assert 0 <= take(text) < float("inf")


@given(st.lists(st.integers(min_value=1, max_value=10**8), min_size=7, max_size=90))
def test_the_sample_is_bounded_by_the_seconds_that_count(rates: list[int]) -> None:
    kept = rates[:-6]
    assert min(kept) <= pktgen.median_rate(output([float(rate) for rate in rates])) <= max(kept)
