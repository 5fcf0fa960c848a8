"""ifconfig, and the commands that start and stop programs."""

from __future__ import annotations

import asyncio

from netbisect.demo.lab.faults import Fault
from netbisect.demo.lab.machine import Machine
from netbisect.demo.lab.shell import CommandFailedError, Shell

_TIMED_OUT = 124
_USAGE = 64

_PORT = """\
{name}: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500
	options=4e020bb<RXCSUM,TXCSUM,VLAN_MTU,JUMBO_MTU,WOL_MAGIC,RXCSUM_IPV6,TXCSUM_IPV6>
	ether {mac}
	media: Ethernet autoselect ({media})
	status: {status}
	nd6 options=29<PERFORMNUD,IFDISABLED,AUTO_LINKLOCAL>
"""
_LOOPBACK = """\
lo0: flags=1008049<UP,LOOPBACK,RUNNING,MULTICAST,LOWER_UP> metric 0 mtu 16384
	options=680003<RXCSUM,TXCSUM,LINKSTATE,RXCSUM_IPV6,TXCSUM_IPV6>
	inet 127.0.0.1 netmask 0xff000000
	inet6 ::1 prefixlen 128
	groups: lo
	nd6 options=21<PERFORMNUD,AUTO_LINKLOCAL>
"""


def ifconfig(machine: Machine, shell: Shell, _: list[str]) -> None:
    """`ifconfig -a`."""
    status = "no carrier" if Fault.CABLE_OUT in machine.faults else "active"
    for port in machine.ports:
        shell.out(_PORT.format(name=port.name, mac=port.mac, media=port.media, status=status))
    shell.out(_LOOPBACK)


def pkill(machine: Machine, _: Shell, arguments: list[str]) -> int:
    """`pkill -INT -x NAME`; 1 when there is none."""
    hit = [program for program in machine.programs if program.name == arguments[-1]]
    for program in hit:
        program.interrupted.set()
    return 0 if hit else 1


async def timeout(machine: Machine, shell: Shell, arguments: list[str]) -> int:
    """`timeout -s INT SECONDS COMMAND ...`; 124 when it had to end the command."""
    if arguments[:2] != ["-s", "INT"]:
        raise CommandFailedError("usage: timeout [-s signal] duration command [arg ...]", _USAGE)
    seconds, words = float(arguments[2]), arguments[3:]
    command = asyncio.ensure_future(shell.execute(words))
    try:
        done, _ = await asyncio.wait({command}, timeout=machine.clock.wall(seconds))
        if not done and shell.program:
            shell.program.interrupted.set()
        status = await command
    finally:
        command.cancel()
    return status if done else _TIMED_OUT


PROGRAMS = {"ifconfig": ifconfig, "pkill": pkill, "timeout": timeout}
