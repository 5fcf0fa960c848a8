"""The SSH servers of the lab: one per machine, one for the power switch, one for the consoles.

A machine that is down has no listener and no connections. Host keys are kept over reboots, and only
the keys in `authorized_keys` are accepted.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import asyncssh

from netbisect.demo.lab.clock import Clock
from netbisect.demo.lab.commands.clones import CLONES, CLONES_OF_HOSTS, wg
from netbisect.demo.lab.commands.disks import DISKS
from netbisect.demo.lab.commands.environments import ENVIRONMENTS
from netbisect.demo.lab.commands.files import FILES
from netbisect.demo.lab.commands.firewalls import FIREWALLS
from netbisect.demo.lab.commands.pkt_gen import pkt_gen
from netbisect.demo.lab.commands.pmc import COUNTERS, pmcstat
from netbisect.demo.lab.commands.programs import PROGRAMS
from netbisect.demo.lab.commands.routes import ROUTES
from netbisect.demo.lab.commands.scripts import sh
from netbisect.demo.lab.commands.system import START, SYSTEM
from netbisect.demo.lab.commands.tables import TABLES
from netbisect.demo.lab.commands.tunnels import TUNNELS, iperf3
from netbisect.demo.lab.config import LabConfig, LabError
from netbisect.demo.lab.faults import InjectedFault
from netbisect.demo.lab.machine import Host, SimulatedMachine
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import Command, CommandFailedError, Shell
from netbisect.demo.lab.traffic import Network, SimulatedLink

_ADDRESS = "127.0.0.1"
_BIND_TRIES = 50
_BIND_PAUSE = 0.1
"""Real seconds between attempts to bind a port after a reboot."""


class _Connection(asyncssh.SSHServer):
    """An SSH connection."""

    def __init__(self, door: SshServer) -> None:
        self._door = door
        self._greeting = True

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        if not self._door.is_open:
            # The server was closed meanwhile.
            conn.abort()
            return
        self._door.connections.add(conn)
        self._hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._greeting = False
        self._door.connections.discard(self._connection)

    def auth_completed(self) -> None:
        self._greeting = False

    def _hurry(self) -> None:
        """Acknowledges packets of a client at once until it is authenticated.

        OpenSSH's small packets wait for that until it has switched Nagle's algorithm off, and
        Linux would take 40 ms each time: twelve seconds of the lab's own time.
        """
        at = self._connection.get_extra_info("socket")
        if self._greeting and at is not None and hasattr(socket, "TCP_QUICKACK"):
            at.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            asyncio.get_running_loop().call_later(0.001, self._hurry)


class SshServer:
    """An SSH server with a constant port and key, and a listener that can close."""

    def __init__(
        self, port: int, host_key: Path, authorized_keys: Path, commands: Mapping[str, Command]
    ) -> None:
        self.port = port
        self._host_key = asyncssh.read_private_key(host_key)
        self._authorized_keys = str(authorized_keys)
        self._commands = commands
        self._listener: asyncssh.SSHAcceptor | None = None
        self.connections: set[asyncssh.SSHServerConnection] = set()

    @property
    def is_open(self) -> bool:
        """Whether the server listens."""
        return self._listener is not None

    async def open(self, *, tries: int = 1, foreign: bool = False) -> None:
        """Listens; with another key than its own when `foreign`.

        Raises:
            OSError: the port is taken.
        """
        key = asyncssh.generate_private_key("ssh-ed25519") if foreign else self._host_key
        while self._listener is None:
            tries -= 1
            try:
                self._listener = await asyncssh.create_server(
                    partial(_Connection, self),
                    _ADDRESS,
                    self.port,
                    server_host_keys=[key],
                    authorized_client_keys=self._authorized_keys,
                    process_factory=self._session,
                    encoding=None,
                    line_editor=False,
                    agent_forwarding=False,
                    gss_host=None,
                    kex_algs=["curve25519-sha256"],
                    encryption_algs=["aes128-gcm@openssh.com"],
                    compression_algs=["none"],
                )
            except OSError:
                if tries <= 0:
                    raise
                await asyncio.sleep(_BIND_PAUSE)

    async def close(self) -> None:
        """Closes the listener and all connections."""
        listener, self._listener = self._listener, None
        if listener:
            listener.close()
        for connection in tuple(self.connections):
            connection.abort()
        if listener:
            await listener.wait_closed()

    async def _session(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        shell = Shell(self._commands, process.stdin, process.stdout, process.stderr)
        if process.command is None:
            shell.err("This machine takes commands, one line at a time.\n")
            process.exit(1)
            return
        work = asyncio.ensure_future(shell.run(process.command))
        gone = asyncio.ensure_future(process.wait_closed())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                process.exit(work.result())
        finally:
            for task in (work, gone):
                task.cancel()


class LabSimulator:
    """All machines and their SSH servers."""

    def __init__(self, config: LabConfig, place: Path) -> None:
        """Prepares the machines; `place` is the folder of the configuration file."""
        self.config = config
        self.place = place
        machines = place / "machines"
        self.clock = Clock(config.compression)
        self._running = False
        self.routers = {
            bed.dut: SimulatedRouter(bed, machines / bed.dut, self.clock, config.seed)
            for bed in config.testbeds
        }
        self.hosts = {
            name: Host(name, ports, machines / name, self.clock)
            for bed in config.testbeds
            for name, ports in bed.hosts.items()
        }
        self.machines: dict[str, SimulatedMachine] = {**self.routers, **self.hosts}
        self.network = Network(
            SimulatedLink(
                self.routers[bed.dut],
                2 * number,
                self.hosts[generator.host],
                generator.port,
                self.hosts[receiver.host],
                receiver.port,
            )
            for bed in config.testbeds
            for number, (generator, receiver) in enumerate(bed.pairs)
        )
        for link in self.network.links:
            link.introduce()
        self.doors = {name: self._door(name, table) for name, table in self._commands().items()}

    def _commands(self) -> dict[str, Mapping[str, Command]]:
        """Commands by name of the SSH server."""
        found: dict[str, Mapping[str, Command]] = {
            "power": {"cycle": self._cycle, "break": self._break, "mend": self._mend},
            "console": {"attach": self._attach},
        }
        for name, router in self.routers.items():
            tables = {**FILES, **SYSTEM, **PROGRAMS, **START, **FIREWALLS, **ROUTES, **COUNTERS}
            tables |= {"sh": sh, **TUNNELS, **CLONES, **TABLES}
            if router.bed.root == "partitions":
                tables |= DISKS
            if router.bed.root == "zfs":
                tables |= ENVIRONMENTS
            commands = _bound(tables, router)
            commands["pmcstat"] = partial(pmcstat, router, self.network)
            commands["wg"] = partial(wg, router, self.network)
            found[name] = commands
        for name, host in self.hosts.items():
            tables = {**FILES, **SYSTEM, **PROGRAMS, "sh": sh, **CLONES_OF_HOSTS}
            commands = _bound(tables, host)
            commands["wg"] = partial(wg, host, self.network)
            commands["iperf3"] = partial(iperf3, host, self.network)
            commands["pkt-gen"] = partial(pkt_gen, host, self.network)
            found[name] = commands
        return found

    def _door(self, name: str, commands: Mapping[str, Command]) -> SshServer:
        key = self.place / "machines" / name / "host_key"
        authorized_keys = self.place / "ssh" / "authorized_keys"
        try:
            return SshServer(self.config.doors[name], key, authorized_keys, commands)
        except (OSError, asyncssh.KeyImportError) as error:
            raise LabError(f"{key}: cannot be read as an SSH host key: {error}") from error

    def _named(self, shell: Shell, arguments: list[str]) -> SimulatedMachine:
        del shell
        if not arguments or arguments[0] not in self.machines:
            known = ", ".join(self.machines)
            raise CommandFailedError(f"no such machine: {' '.join(arguments)}; found {known}")
        return self.machines[arguments[0]]

    def _router(self, shell: Shell, arguments: list[str]) -> SimulatedRouter:
        machine = self._named(shell, arguments)
        if not isinstance(machine, SimulatedRouter):
            raise CommandFailedError(f"{machine.name} is not wired here")
        return machine

    async def _cycle(self, shell: Shell, arguments: list[str]) -> None:
        """`cycle ROUTER`."""
        await self._router(shell, arguments).power_cycle()
        shell.out(f"{arguments[0]}: off, on\n")

    async def _break(self, shell: Shell, arguments: list[str]) -> None:
        """`break MACHINE FAULT`."""
        machine = self._named(shell, arguments)
        try:
            fault = InjectedFault(" ".join(arguments[1:]))
        except ValueError as error:
            raise CommandFailedError(f"{error}; found {', '.join(InjectedFault)}") from error
        await machine.break_down(fault)

    async def _mend(self, shell: Shell, arguments: list[str]) -> None:
        """`mend MACHINE`."""
        await self._named(shell, arguments).mend()

    async def _attach(self, shell: Shell, arguments: list[str]) -> None:
        """`attach ROUTER`: prints its console until the connection ends."""
        router = self._router(shell, arguments)
        heard: asyncio.Queue[str] = asyncio.Queue()
        router.listeners.add(heard)
        try:
            while True:
                shell.out((await heard.get()).replace("\n", "\r\n"))
        finally:
            router.listeners.discard(heard)

    async def start(self) -> None:
        """Starts all machines.

        Raises:
            LabError: a port is taken.
        """
        for name, door in self.doors.items():
            try:
                if name in self.machines:
                    self.machines[name].on_down = door.close
                    self.machines[name].on_up = partial(self._up, name)
                    await self.machines[name].power_on()
                else:
                    await door.open()
            except OSError as error:
                raise LabError(
                    f"{name}: TCP port {door.port} of {_ADDRESS} is unavailable: "
                    f"{os.strerror(error.errno or 0)}"
                ) from error
        self._running = True

    async def _up(self, name: str) -> None:
        foreign = InjectedFault.NEW_HOST_KEY in self.machines[name].faults
        await self.doors[name].open(tries=_BIND_TRIES if self._running else 1, foreign=foreign)

    async def stop(self) -> None:
        """Stops all machines."""
        for machine in self.machines.values():
            await machine.stop()
        for door in self.doors.values():
            await door.close()


def _bound(
    table: Mapping[str, Callable[..., Any]], machine: SimulatedMachine
) -> dict[str, Command]:
    """The commands of a table, for one machine."""
    return {name: partial(function, machine) for name, function in table.items()}
