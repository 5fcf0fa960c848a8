"""Settings of interfaces by ifconfig(8) and wg(8)."""

from __future__ import annotations

import ipaddress
import itertools
import re

from netbisect.demo.lab.machine import Clone, SimulatedMachine
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell, named
from netbisect.demo.lab.traffic import Network, SimulatedLink

KINDS: dict[str, dict[str, int]] = {
    "vlan": {"vlan": 1, "vlandev": 1},
    "lagg": {"laggproto": 1, "laggport": 1, "-laggport": 1},
    "bridge": {"addm": 1, "-learn": 1},
    "gif": {"tunnel": 2},
    "gre": {"tunnel": 2},
    "wg": {},
}
"""Number of operands of their own words of ifconfig(8)."""
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")


def configure(machine: SimulatedMachine, name: str, words: list[str]) -> None:
    """`ifconfig PORT up|lro|-lro|inet6 ...`, `ifconfig CLONE create|destroy|...`."""
    if name in {port.name for port in machine.ports}:
        _configure_port(machine, name, words)
        return
    kind = name.rstrip("0123456789")
    if words[:1] == ["create"]:
        if kind not in KINDS or name in machine.clones:
            why = "File exists" if kind in KINDS else "Invalid argument"
            raise CommandFailedError(f"ifconfig: SIOCIFCREATE2: {why}")
        machine.clones[name] = Clone(kind)
        words = words[1:]
    if name not in machine.clones:
        raise CommandFailedError(f"ifconfig: interface {name} does not exist")
    if words == ["destroy"]:
        clone = machine.clones.pop(name)
        if clone.kind == "lagg" and clone.over:
            machine.down.add(clone.over)  # as lagg_if_updown() in sys/net/if_lagg.c does
        return
    _set(machine, machine.clones[name], words)


def _configure_port(machine: SimulatedMachine, port: str, words: list[str]) -> None:
    if words == ["up"]:
        machine.down.discard(port)
    elif "lro" in words:
        machine.lro.add(port)
    elif "-lro" in words:
        machine.lro.discard(port)
    elif "inet6" in words[:-1]:
        _change_address(machine, port, words[1:])


def _set(machine: SimulatedMachine, clone: Clone, words: list[str]) -> None:
    rest = iter(words)
    for word in rest:
        if word == "inet":
            clone.address = " ".join(one for one in rest if one != "up")
        elif word in KINDS[clone.kind]:
            operands = [next(rest, "") for _ in range(KINDS[clone.kind][word])]
            if word == "tunnel":
                clone.over = operands[1]
            elif word == "-laggport":
                clone.over = ""
            elif word in ("vlandev", "laggport", "addm"):
                _add_port(machine, clone, operands[0])
        elif word != "up":
            raise CommandFailedError(f"ifconfig: {word}: bad value")
    if clone.kind == "lagg" and clone.over and "up" in words:
        # if_up() of the port gives it a link-local address.
        _change_address(machine, clone.over, [f"fe80::e447%{clone.over}", "prefixlen", "64"])


def _add_port(machine: SimulatedMachine, clone: Clone, port: str) -> None:
    if port not in {one.name for one in machine.ports}:
        raise CommandFailedError(f"ifconfig: interface {port} does not exist")
    clone.over = port
    addresses = machine.addresses[port]
    # As SIOCSLAGGPORT of lagg_ioctl() in sys/net/if_lagg.c does.
    if clone.kind == "lagg" and any(line.startswith("inet6 fe80:") for line in addresses):
        machine.addresses[port] = [line for line in addresses if not line.startswith("inet6")]


def _change_address(machine: SimulatedMachine, port: str, words: list[str]) -> None:
    """`inet6 ADDRESS delete`, `inet6 ADDRESS prefixlen LENGTH`."""
    addresses = machine.addresses[port]
    found = [line for line in addresses if line.startswith(f"inet6 {words[0]} ")]
    if words[1:] == ["delete"]:
        if not found:
            raise CommandFailedError(
                "ifconfig: ioctl (SIOCDIFADDR): Can't assign requested address"
            )
        addresses.remove(found[0])
    elif not found:
        index = [one.name for one in machine.ports].index(port) + 1
        addresses.append(f"inet6 {words[0]} {' '.join(words[1:])} scopeid 0x{index}")


def described(name: str, clone: Clone, status: str) -> str:
    """The lines of ifconfig(8) about an interface; `status` is that of the ports."""
    link = f"\tstatus: {status}\n" if clone.kind in ("lagg", "vlan") else ""
    address = f"\tinet {clone.address}\n" if clone.address else ""
    return f"{name}: flags=1008843<UP,RUNNING> metric 0 mtu 1500\n{address}{link}"


def behind(machine: SimulatedMachine, gateway: str) -> Clone | None:
    """The interface whose network has this address."""
    address = ipaddress.ip_address(gateway)
    for clone in machine.clones.values():
        own = clone.address.split()
        if own and address in ipaddress.ip_interface(own[0]).network:
            return clone
    return None


async def wg(
    machine: SimulatedMachine, network: Network, shell: Shell, arguments: list[str]
) -> None:
    """`wg set NAME ...` with its private key from standard input, `wg show NAME ...`."""
    command, name, *words = arguments
    clone = machine.clones.get(name)
    if clone is None or clone.kind != "wg":
        raise CommandFailedError("Unable to access interface: No such file or directory")
    if command == "set":
        options = dict(itertools.pairwise(words))
        for key in ((await shell.stdin.read()).decode().strip(), options["peer"]):
            if not _KEY.fullmatch(key):
                raise CommandFailedError(f"Key is not the correct length or format: `{key}'")
        clone.endpoint = options.get("endpoint", f":{options.get('listen-port', '')}")
    elif words == ["latest-handshakes"]:
        clone.over = clone.over or _handshake(network.through(machine.name), clone.endpoint)
        shell.out(f"KEY\t{round(machine.clock.now()) if clone.over else 0}\n")


def _handshake(link: SimulatedLink | None, endpoint: str) -> str:
    """The endpoint if the receiver listens there, or ""."""
    if link is None:
        return ""
    addresses = link.receiver.addresses[link.receiver_port]
    ports = [one.endpoint for one in link.receiver.clones.values()]
    listens = {f"{line.split()[1]}{port}" for line in addresses for port in ports}
    return endpoint if endpoint in listens else ""


def ping(_: SimulatedRouter, shell: Shell, arguments: list[str]) -> int:
    """`ping -c 1 -t 1 ADDRESS`; nothing answers."""
    shell.out(f"PING {arguments[-1]}: 56 data bytes\n1 packets transmitted, 0 packets received\n")
    return 2


def _kldload(_: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`kldload -n NAME` on a traffic host, whose kernel is not that under test."""
    del shell
    if arguments[-1].removeprefix("if_") not in KINDS:
        raise CommandFailedError(f"kldload: can't load {arguments[-1]}: No such file or directory")


CLONES = named(ping)
CLONES_OF_HOSTS = {"kldload": _kldload}
