"""IPsec and TCP: setkey(8), and iperf3 against the router."""

from __future__ import annotations

import itertools
import json

from netbisect.demo.lab.machine import Host
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell
from netbisect.demo.lab.traffic import Network

_SEGMENT_BITS = 8 * 1448
_FRAME_BITS = 8 * 1538
"""Of a full TCP segment on the wire, with preamble and gap."""


async def setkey(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`setkey -c`, `setkey -F`, `setkey -FP`: policies of its standard input, or none."""
    if arguments == ["-c"]:
        rules = (await shell.stdin.read()).decode()
        router.firewalls.ipsec = "spdadd" in rules and "-P out ipsec" in rules
    elif arguments in (["-F"], ["-FP"]):
        router.firewalls.ipsec = False
    else:
        raise CommandFailedError("usage: setkey [-v] -c")


def iperf3_server(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`iperf3 --server --one-off --daemon`."""
    del shell
    router.serves_tcp = "--server" in arguments


async def iperf3(host: Host, network: Network, shell: Shell, arguments: list[str]) -> int:
    """`iperf3 --client ADDRESS --json --time SECONDS --parallel FLOWS`."""
    options = dict(itertools.pairwise(arguments))
    link = next((one for one in network.links if one.generator is host), None)
    if link is None or not link.router.up or not link.router.serves_tcp:
        shell.out(json.dumps({"error": "unable to connect to server: Connection refused"}))
        return 1
    flows = int(options.get("--parallel", "1"))
    await host.clock.sleep(float(options["--time"]))
    link.router.serves_tcp = False
    bits = link.router.tcp_rate(flows) * _SEGMENT_BITS
    bits = min(bits, link.wire.bits * _SEGMENT_BITS / _FRAME_BITS)
    shell.out(json.dumps({"end": {"sum_received": {"bits_per_second": bits}}}))
    return 0


TUNNELS = {"iperf3": iperf3_server, "setkey": setkey}
