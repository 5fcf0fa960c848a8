"""Commands for the routes and static neighbours of a forwarding lab.

198.18.0.0/16 and 2001:2::/49 are behind the ingress, 198.19.0.0/16 and 2001:2:0:8000::/49 behind
the egress. A router with four ports has 198.19.10.64/26 behind its second egress.
"""

from __future__ import annotations

import ipaddress

from netbisect.demo.lab.commands.clones import behind
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell

GATEWAY = "198.19.0.1"
"""Gateway of the networks behind the egress."""
_BEHIND = {
    "198.19.10.64/26": (3, "198.21.0.1"),
    "198.18.0.0/16": (0, "198.18.0.1"),
    "198.19.0.0/16": (1, GATEWAY),
    "2001:2::/49": (0, "2001:2::2"),
    "2001:2:0:8000::/49": (1, "2001:2:0:8000::2"),
}
"""Position of the router's port and gateway, by network; the first one counts."""
_ROUTE = """\
   route to: {address}
destination: {network}
       mask: {mask}
    gateway: {gateway}
        fib: 0
  interface: {interface}
      flags: <UP,GATEWAY,DONE,STATIC>
 recvpipe  sendpipe  ssthresh  rtt,msec    mtu        weight    expire
       0         0         0         0      1500         1         0
"""


def _change(router: SimulatedRouter, arguments: list[str]) -> None:
    network = arguments[arguments.index("-net") + 1]
    routes = router.firewalls.routes
    if ("add" in arguments) == (network in routes):
        raise CommandFailedError(f"route: {network}: already in table, or not in table")
    routes ^= {network}


def route(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`route -n get -inet|-inet6 ADDRESS`, and `route add|delete` of networks.

    `route add -net NETWORK GATEWAY|-interface NAME`, `route -nq add|delete -net NETWORK [GATEWAY]`.
    """
    if arguments[:2] == ["add", "-net"]:
        _add(router, arguments[2], arguments[3:])
        return
    if "get" not in arguments:
        _change(router, arguments)
        return
    address = ipaddress.ip_address(arguments[-1])
    ways = [(one.route, name, "link") for name, one in router.clones.items() if one.route]
    for text, (position, gateway) in _BEHIND.items():
        if position < len(router.ports):
            ways.append((text, router.ports[position].name, gateway))
    for text, name, gateway in ways:
        network = ipaddress.ip_network(text)
        if address in network:
            shell.out(
                _ROUTE.format(
                    address=address,
                    network=network.network_address,
                    mask=network.netmask,
                    gateway=gateway,
                    interface=name,
                )
            )
            return
    raise CommandFailedError("route: route has not been found")


def _add(router: SimulatedRouter, network: str, gateway: list[str]) -> None:
    if any(one.route == network for one in router.clones.values()):
        raise CommandFailedError(
            f"add net {network}: gateway {gateway[-1]}: route already in table"
        )
    by_name = gateway[0] == "-interface"
    clone = router.clones.get(gateway[1]) if by_name else behind(router, gateway[0])
    if clone is None:
        raise CommandFailedError(
            f"add net {network}: gateway {gateway[-1]}: Network is unreachable"
        )
    clone.route = network


def _neighbour(router: SimulatedRouter, address: str) -> tuple[str, str]:
    """MAC address and port of a neighbour."""
    for position, gateway in _BEHIND.values():
        if gateway == address and position in router.neighbours:
            return router.neighbours[position], router.ports[position].name
    raise CommandFailedError(f"{address} ({address}) -- no entry")


def arp(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`arp -n ADDRESS`, `arp -s ADDRESS MAC`."""
    if arguments[0] == "-s":
        clone = behind(router, arguments[1])
        if clone is None:
            raise CommandFailedError(
                f"arp: cannot intuit interface index and type for {arguments[1]}"
            )
        clone.neighbour = arguments[2]
        return
    mac, port = _neighbour(router, arguments[-1])
    shell.out(f"? ({arguments[-1]}) at {mac} on {port} permanent [ethernet]\n")


def ndp(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`ndp -n ADDRESS`."""
    mac, port = _neighbour(router, arguments[-1])
    shell.out(
        f"{'Neighbor':36} Linklayer Address  Netif Expire    1s 5s\n"
        f"{arguments[-1]:36} {mac}  {port:>5} permanent R\n"
    )


ROUTES = {"arp": arp, "ndp": ndp, "route": route}
