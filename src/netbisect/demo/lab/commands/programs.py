"""Commands for ports and programs."""

from __future__ import annotations

import asyncio
import json
import re
from io import BytesIO

from netbisect.demo.lab.commands.clones import configure, described
from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import SimulatedMachine
from netbisect.demo.lab.shell import CommandFailedError, Shell, named

_TIMED_OUT = 124
_USAGE = 64
_START_SECONDS = 4.0
"""Real seconds for the start of programs on a busy host."""

_PORT = """\
{name}: flags={flags},SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 9000
	options={options}
{capabilities}	ether {mac}
{addresses}	media: Ethernet autoselect ({media})
	status: {status}
	nd6 options=29<PERFORMNUD,IFDISABLED,AUTO_LINKLOCAL>
"""
_UP, _DOWN = "1008843<UP,BROADCAST,RUNNING", "1008802<BROADCAST"
_OPTIONS = "4e020bb<RXCSUM,TXCSUM,VLAN_MTU,JUMBO_MTU,WOL_MAGIC,RXCSUM_IPV6,TXCSUM_IPV6>"
_LRO = "4e024bb<RXCSUM,TXCSUM,VLAN_MTU,JUMBO_MTU,LRO,WOL_MAGIC,RXCSUM_IPV6,TXCSUM_IPV6>"
_PROCESSES = [
    (0, 0, 0.0, "kernel"),
    (1, 0, 0.0, "init"),
    (11, 0, 398.6, "idle"),
    (12, 0, 0.7, "intr"),
    (703, 1, 0.0, "devd"),
    (811, 1, 0.0, "sshd"),
    (815, 1, 0.0, "cron"),
    (901, 811, 31.0, "sshd"),
    (902, 901, 0.0, "sh"),
    (903, 902, 0.0, "ps"),
]
"""PID, parent, CPU percentage, name; the last three belong to the query."""
_LOOPBACK = """\
lo0: flags=1008049<UP,LOOPBACK,RUNNING,MULTICAST,LOWER_UP> metric 0 mtu 16384
	options=680003<RXCSUM,TXCSUM,LINKSTATE,RXCSUM_IPV6,TXCSUM_IPV6>
	inet 127.0.0.1 netmask 0xff000000
	inet6 ::1 prefixlen 128
	groups: lo
	nd6 options=21<PERFORMNUD,AUTO_LINKLOCAL>
"""


_CAPABILITIES = "\tcapabilities=4f507bb<RXCSUM,TXCSUM,VLAN_MTU,JUMBO_MTU,TSO4,LRO,NETMAP>\n"


def ifconfig(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`ifconfig -a [-m]`, `ifconfig PORT [lro|-lro|inet6 ...]`, and cloned interfaces."""
    name = "" if arguments[0] == "-a" else arguments[0]
    if name:
        configure(machine, name, arguments[1:])
    if name and arguments[1:] not in ([], ["inet6"]):
        return
    more = _CAPABILITIES if "-m" in arguments else ""
    status = "no carrier" if InjectedFault.CABLE_OUT in machine.faults else "active"
    for port in machine.ports:
        if name in ("", port.name):
            shell.out(
                _PORT.format(
                    name=port.name,
                    flags=_DOWN if port.name in machine.down else _UP,
                    options=_LRO if port.name in machine.lro else _OPTIONS,
                    mac=port.mac,
                    media=port.media,
                    status=status,
                    capabilities=more,
                    addresses="".join(
                        f"\t{line}\n" for line in machine.addresses.get(port.name, ())
                    ),
                )
            )
    for own, clone in machine.clones.items():
        if name in ("", own):
            shell.out(described(own, clone, status))
    if not name:
        shell.out(_LOOPBACK)


def netstat(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`netstat -I PORT -bn --libxo json`, `netstat -n -I CLONE`, `netstat -s -p esp`.

    Only the first row of an interface.
    """
    if arguments == ["-s", "-p", "esp"]:
        shell.out(f"esp:\n\t0 packets in\n\t{machine.encrypted} packets out\n")
        return
    name = arguments[arguments.index("-I") + 1] if "-I" in arguments else ""
    if arguments[:2] == ["-n", "-I"]:
        shell.out("Name    Mtu Network       Address   Ipkts Ierrs Idrop    Opkts Oerrs  Coll\n")
        if name in machine.clones:
            sent = machine.clones[name].sent
            shell.out(f"{name[:5]} 1500 <Link#7>  {name}  0     0     0 {sent:8}     0     0\n")
        return
    numbers = {port.name: number for number, port in enumerate(machine.ports, 1)}
    if name not in numbers:
        raise CommandFailedError(f"netstat: {name}: unknown interface")
    counters = machine.counters[name]
    row = {
        "name": name,
        "flags": "0x1008843",
        "mtu": 1500,
        "network": f"<Link#{numbers[name]}>",
        "address": machine.ports[numbers[name] - 1].mac,
        "received-packets": counters.received,
        "received-errors": counters.received_errors,
        "dropped-packets": 0,
        "received-bytes": counters.received * 60,
        "sent-packets": counters.sent,
        "send-errors": 0,
        "sent-bytes": counters.sent * 60,
        "collisions": 0,
    }
    shell.out(json.dumps({"statistics": {"interface": [row]}}))


def pciconf(machine: SimulatedMachine, shell: Shell, _: list[str]) -> None:
    """`pciconf -l`; only the data ports."""
    shell.out("hostb0@pci0:0:0:0:\tclass=0x060000 rev=0x02 hdr=0x00 vendor=0x8086 device=0x1f08\n")
    for place, device in machine.pci_devices().items():
        shell.out(f"{device}@{place}:\tclass=0x020000 rev=0x01 hdr=0x00 vendor=0x8086\n")


def vmstat(machine: SimulatedMachine, shell: Shell, _: list[str]) -> None:
    """`vmstat -i`; timer and data ports, one interrupt per eight packets."""
    up = max(1, round(machine.clock.now() - machine.boottime))
    counts = {"cpu0:timer": 1000 * up}
    for number, port in enumerate(machine.ports):
        counters = machine.counters[port.name]
        counts[f"irq{264 + number}: {port.name}:rxq0"] = (counters.received + counters.sent) // 8
    counts["Total"] = sum(counts.values())
    shell.out(f"{'interrupt':24} {'total':>16} {'rate':>10}\n")
    shell.out("".join(f"{name:24} {count:16} {count // up:10}\n" for name, count in counts.items()))


def ps(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`ps -ax -o pid= -o ppid= -o pcpu= -o comm=`; no other columns."""
    if arguments != ["-ax", "-o", "pid=", "-o", "ppid=", "-o", "pcpu=", "-o", "comm="]:
        raise CommandFailedError("ps: illegal option")
    busy = InjectedFault.BUSY in machine.faults
    running = [*_PROCESSES, *([(813, 812, 93.4, "cc")] if busy else [])]
    running += [(918 + n, 917, 1.2, each.name) for n, each in enumerate(machine.programs)]
    shell.out(
        "".join(
            f"{number:5} {parent:5} {percent:4.1f} {name}\n"
            for number, parent, percent, name in running
        )
    )


def which(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """`which pkt-gen`: exists on traffic hosts only; csh says that there is none."""
    if arguments == ["pkt-gen"] and "dev.netmap.admode" in machine.sysctls:
        shell.out("/usr/local/bin/pkt-gen\n")
        return 0
    shell.out(f"{arguments[0]}: Command not found.\n")
    return 1


def pkill(machine: SimulatedMachine, _: Shell, arguments: list[str]) -> int:
    """`pkill -INT [-x] [-f] PATTERN`, with `-f` for whole lines; status 1 without a match."""
    match = re.fullmatch if "-x" in arguments else re.search
    hit = [
        program
        for program in machine.programs
        if match(arguments[-1], program.line if "-f" in arguments else program.name)
    ]
    for program in hit:
        program.interrupted.set()
    return 0 if hit else 1


async def timeout(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """`timeout [--foreground] -s INT SECONDS COMMAND ...`; status 124 on timeout.

    Without that option it waits for what the command leaves in the background, too.
    """
    foreground = arguments[0] == "--foreground"
    arguments = arguments[foreground:]
    if arguments[:2] != ["-s", "INT"]:
        raise CommandFailedError("usage: timeout [-s signal] duration command [arg ...]", _USAGE)
    seconds, words = float(arguments[2]), arguments[3:]
    # Programs start on this machine, in real time; those of a script run there.
    limit = seconds if words == ["sh"] else machine.clock.wall(seconds) + _START_SECONDS
    others = set(machine.background)
    command = asyncio.ensure_future(shell.execute(words))
    try:
        done, _ = await asyncio.wait({command}, timeout=limit)
        if not done and shell.program:
            shell.program.interrupted.set()
        status = await command
        if (left := machine.background - others) and not foreground:
            done, _ = await asyncio.wait(left, timeout=limit)
    finally:
        command.cancel()
    return status if done else _TIMED_OUT


def daemon(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`daemon -f COMMAND ...`: runs it in the background."""
    if arguments[:1] != ["-f"]:
        raise CommandFailedError("usage: daemon [-cfHrS] command arguments ...")
    alone = Shell(shell.commands, shell.stdin, BytesIO(), BytesIO())
    task = asyncio.ensure_future(alone.execute(arguments[1:]))
    machine.background.add(task)
    task.add_done_callback(machine.background.discard)


PROGRAMS = named(daemon, ifconfig, netstat, pciconf, pkill, ps, timeout, vmstat, which)
