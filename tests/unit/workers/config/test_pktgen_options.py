"""Options of pkt-gen: the getopt string of FreeBSD and the usage text."""

from __future__ import annotations

import pytest

from netbisect.workers.config import pktgen_options
from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.scenario import builtin_scenarios, load_scenario
from netbisect.workers.config.testbed import TrafficHost
from netbisect.workers.measure import pktgen

HOST = TrafficHost("pkt1", PortSelector("igb2"))
LETTERS = frozenset(pktgen_options.GETOPT) - {":"}
REAL_USAGE = """\
Usage:
pkt-gen arguments
     -h      Show program usage and exit.

     -i interface
             Name of the network interface that pkt-gen operates on.

     -4      Use IPv4 addresses.

     -d dst_ip[:port[-dst_ip:port]]
             Destination IPv4/IPv6 address and port, single or range.

     -o options\t\tdata generation options (parsed using atoi)
"""


def test_usage_text_describes_the_options_of_the_getopt_string() -> None:
    assert pktgen_options.described(pktgen_options.usage()) == LETTERS
    assert pktgen_options.described(REAL_USAGE) == set("hi4do")
    assert pktgen_options.described("     -h      Show program usage and exit.\n") == frozenset()


def test_options_of_other_versions_are_rejected() -> None:
    """-U belongs to the patch of the port, -e and -m to FreeBSD 11."""
    for letter in "Uem":
        with pytest.raises(
            pktgen_options.OptionError, match=f"pkt-gen: illegal option -- {letter}"
        ):
            pktgen_options.parse(["-N", f"-{letter}"])
    with pytest.raises(pktgen_options.OptionError, match="option requires an argument -- i"):
        pktgen_options.parse(["-i"])


def test_shipped_scenarios_need_only_the_base_system() -> None:
    paths = list(builtin_scenarios().glob("*.toml"))
    assert paths
    for path in paths:
        needed = pktgen.needed_options(load_scenario(path.stem), HOST, HOST)
        assert needed <= LETTERS, path.stem


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("igb2", ("igb2", None)),
        ("netmap:igb2", ("igb2", None)),
        ("netmap:igb2-11", ("igb2", 11)),
        ("netmap:igb2^", ("netmap:igb2^", None)),
        ("", ("", None)),
    ],
)
def test_port_may_be_one_ring_of_an_interface(text: str, port: tuple[str, int | None]) -> None:
    assert pktgen_options.parse_port(text) == port
    interface, ring = port
    assert ring is None or pktgen_options.of_ring(interface, ring) == text
