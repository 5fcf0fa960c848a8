"""IPsec and TCP: setkey(8), and iperf3 with the router."""

from __future__ import annotations

import itertools
import json
import math

from netbisect.demo.lab.machine import Host
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell
from netbisect.demo.lab.traffic import Network

_SEGMENT_BITS = 8 * 1448
_FRAME_BITS = 8 * 1538
"""Bits of a full TCP segment on the wire, with preamble and gap."""


async def setkey(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> int:
    """`setkey -c`, `setkey -F`, `setkey -FP`: policies of its standard input, or none."""
    if arguments == ["-c"]:
        rules = (await shell.stdin.read()).decode()
        router.firewalls.ipsec = "spdadd" in rules and "-P out ipsec" in rules
    elif arguments in (["-F"], ["-FP"]):
        router.firewalls.ipsec = False
    else:
        raise CommandFailedError("usage: setkey [-v] -c")
    return 0


async def iperf3_on_router(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> int:
    """`iperf3 --server --one-off --daemon`, or a client over loopback."""
    if "--server" in arguments:
        router.serves_tcp = True
        return 0
    places = ["mbuf", "loopback", "ip4", "tcp", "tcp_output"]
    return await _client(router, shell, arguments, places, math.inf)


async def iperf3(host: Host, network: Network, shell: Shell, arguments: list[str]) -> int:
    """`iperf3 --client ADDRESS --json --time SECONDS --parallel FLOWS [--reverse]`."""
    link = next((one for one in network.links if one.generator is host), None)
    if link is None:
        return _refused(shell)
    router = link.router
    stack = ["ip4", "tcp_output" if "--reverse" in arguments else "tcp"]
    tso = router.sysctls.get("net.inet.tcp.tso") == "1"
    # Segments in twos go through the stack at once.
    if not (tso if "--reverse" in arguments else router.ports[0].name in router.lro):
        stack *= 2
    places = [router.bed.driver, "ether", "mbuf", *stack]
    wire = router.bed.bits * _SEGMENT_BITS / _FRAME_BITS
    return await _client(router, shell, arguments, places, wire)


def _refused(shell: Shell) -> int:
    shell.out(json.dumps({"error": "unable to connect to server: Connection refused"}))
    return 1


async def _client(
    router: SimulatedRouter, shell: Shell, arguments: list[str], places: list[str], most: float
) -> int:
    """Traffic through these cost centres, in bits per second up to `most`."""
    if not router.up or not router.serves_tcp:
        return _refused(shell)
    options = dict(itertools.pairwise(arguments))
    await router.clock.sleep(float(options["--time"]))
    router.serves_tcp = False
    flows = int(options.get("--parallel", "1"))
    bits = min(router.tcp_rate(places, flows) * _SEGMENT_BITS, most)
    shell.out(json.dumps({"end": {"sum_received": {"bits_per_second": bits}}}))
    return 0


TUNNELS = {"iperf3": iperf3_on_router, "setkey": setkey}
