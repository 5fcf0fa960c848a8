"""Commands for many routes and for ipfilter: netstat(1), vmstat(8), xargs(1), bird, ipf(8)."""

from __future__ import annotations

from netbisect.demo.lab.commands import programs
from netbisect.demo.lab.commands.routes import GATEWAY
from netbisect.demo.lab.machine import Program, SimulatedMachine
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell, named

_OWN_ROUTES = 20
_IPF_RULES = {"pass in quick all", "pass out quick all"}


async def ipf(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`ipf -Fa`, `ipf -Fa -f -`."""
    walls = router.firewalls
    if "ipl" not in walls.loaded:
        raise CommandFailedError("open device: No such file or directory")
    rules = (await shell.stdin.read()).decode().splitlines() if "-f" in arguments else []
    if wrong := [rule for rule in rules if rule not in _IPF_RULES]:
        raise CommandFailedError(f"syntax error error at {wrong[0]!r}, line 1")
    walls.ipf_rules, walls.ipf_packets = rules, 0


def ipfstat(router: SimulatedRouter, shell: Shell, _: list[str]) -> None:
    """`ipfstat -hi`: hits of the rules for received packets."""
    rules = [rule for rule in router.firewalls.ipf_rules if " in " in rule]
    hits = router.firewalls.ipf_packets
    shell.out("".join(f"{hits} {rule}\n" for rule in rules))


def netstat(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`netstat -rn -f inet`, only added routes; others as on every machine."""
    if "-rn" not in arguments:
        programs.netstat(router, shell, arguments)
        return
    port = router.ports[1].name
    gateway = "198.19.0.2"
    networks = router.firewalls.routes
    shell.out("".join(f"{one:18} {gateway:18} UGS {port:>10}\n" for one in networks))


def vmstat(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`vmstat -z`, only the zone of the routes; others as on every machine."""
    if "-z" not in arguments:
        programs.vmstat(router, shell, arguments)
        return
    walls = router.firewalls
    used = _OWN_ROUTES + len(walls.routes) + walls.bird_routes
    shell.out(
        "ITEM                   SIZE   LIMIT     USED     FREE      REQ     FAIL SLEEP XDOM\n"
    )
    shell.out(f"rtentry:                176,      0,{used:8},       8,{used:8},   0,   0,   0\n")


async def bird(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`bird -c /dev/stdin -s SOCKET`: static routes only."""
    if arguments[:3] != ["-c", "/dev/stdin", "-s"]:
        raise CommandFailedError("Usage: bird [--version] [-c <config-file>] [OPTIONS]")
    lines = (await shell.stdin.read()).decode().splitlines()
    gateway = f"via {GATEWAY};"
    router.firewalls.bird_routes = sum(
        line.startswith("route ") and line.endswith(gateway) for line in lines
    )
    router.programs.add(Program("bird", arguments))


def birdcl(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`birdcl -s SOCKET down`, `birdcl -s SOCKET show status`."""
    socket, words = arguments[1], arguments[2:]
    line = f"bird -c /dev/stdin -s {socket}"
    running = [one for one in router.programs if one.line == line]
    if not running:
        raise CommandFailedError("Unable to connect to server control socket: No such file")
    if words == ["down"]:
        router.programs.difference_update(running)
        router.firewalls.bird_routes = 0
    shell.out("BIRD 2.15.1 ready.\n")


async def xargs(_: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """`xargs -P NUMBER -I NAME COMMAND ...`, one command after the other."""
    name, words = arguments[3], arguments[4:]
    lines = (await shell.stdin.read()).decode().splitlines()
    failed = 0
    for line in lines:
        failed |= await shell.execute([word.replace(name, line) for word in words])
    return 1 if failed else 0


TABLES = named(bird, birdcl, ipf, ipfstat, netstat, vmstat, xargs)
