"""Looks at every machine of the lab and says what is in order and what is not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from netbisect.workers import ports
from netbisect.workers.faults import CommandError, HostKeyError, LabFault, UnreachableError
from netbisect.workers.host import compiler_of
from netbisect.workers.lab import Lab, Port, Testbed
from netbisect.workers.router import Router
from netbisect.workers.ssh import Connections, Machine


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    where: str
    what: str
    good: bool
    found: str


def examine(lab: Lab, connections: Connections) -> Iterator[Check]:
    """All checks, one after the other; none of them changes anything."""
    yield _tree(lab)
    for builder in lab.builders:
        # A builder is looked at where it runs; elsewhere its directory means nothing.
        if builder.cross_bindir is None:
            yield _tool(builder.name, "make", builder.make_command, "")
        else:  # make.py is in the tree; the compiler is not
            yield _tool(builder.name, "compiler", [compiler_of(builder)], "")
    for testbed in lab.testbeds:
        yield from _testbed(testbed, connections)


def _tree(lab: Lab) -> Check:
    done = subprocess.run(
        ["git", "ls-remote", "--heads", lab.source.repository],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    heads = [line.partition("refs/heads/")[2] for line in done.stdout.splitlines()]
    if done.returncode != 0:
        return Check("source", "repository", good=False, found=done.stderr.strip())
    return Check(
        "source", "branches", good=bool(heads), found=", ".join(heads[:6]) or "no branch at all"
    )


def _testbed(testbed: Testbed, connections: Connections) -> Iterator[Check]:
    router = Router(testbed, connections, lambda _: None)
    yield _try(testbed.name, f"dut {testbed.dut.address}", lambda: router.look().bootfile)
    dut, generator, receiver = testbed.dut, testbed.generator, testbed.receiver
    for part, address, port in (
        ("ingress", dut.address, dut.ingress),
        ("egress", dut.address, dut.egress),
        ("generator", generator.address, generator.port),
        ("receiver", receiver.address, receiver.port),
    ):
        look = partial(_port, connections.machine(address), port)
        yield _try(testbed.name, f"{part} {address}", look)
    cycle = testbed.power.cycle if testbed.power else ()
    yield _tool(testbed.name, "power", cycle, "the lab file names no switch")
    attach = testbed.console.command if testbed.console else ()
    yield _tool(testbed.name, "console", attach, "the lab file names no console")


def _tool(where: str, what: str, command: Sequence[str], absent: str) -> Check:
    """Whether the program of a command is there; running it would change something."""
    found = shutil.which(command[0]) if command else None
    return Check(
        where,
        what,
        good=found is not None,
        found=found or (f"no {command[0]} on this host" if command else absent),
    )


def _port(machine: Machine, port: Port) -> str:
    found = ports.look(machine, [port]).find(port)
    said = f"{found.name} {found.mac} {found.status}".strip()
    if found.status == "no carrier":
        raise ports.NoPortError(said)
    return said


def _try(where: str, what: str, look: Callable[[], str]) -> Check:
    try:
        return Check(where, what, good=True, found=look())
    except (UnreachableError, HostKeyError, CommandError, LabFault, ports.NoPortError) as error:
        return Check(where, what, good=False, found=str(error))
