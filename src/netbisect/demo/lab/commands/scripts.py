"""sh(1) for scripts from standard input: a real shell with the commands of the machine.

Each simulated command is a small program in a folder at the start of PATH. It sends its arguments
to the machine over the socket MACHINE, its input if the machine asks for it, and prints the answer.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from ast import literal_eval
from collections.abc import Mapping
from functools import cache, partial
from io import BytesIO
from pathlib import Path

from netbisect.demo.lab.machine import SimulatedMachine
from netbisect.demo.lab.shell import Command, Shell

# The modules socket and json, and those that they need, would take most of the time of a command.
# The path of Python may contain spaces, which "#!" does not allow; Python reads line 2 as a string.
_PROGRAM = """#!/bin/sh
'''exec' "{python}" -SE "$0" "$@" #'''
import os, sys
from _socket import AF_UNIX, socket
one = socket(AF_UNIX)
one.connect(os.environ["MACHINE"])
answers = open(one.fileno(), closefd=False)
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
one.sendall(ascii([os.environ["PATH"], words]).encode() + b"\\n")
if not (answer := eval(answers.readline())):
    one.sendall(ascii(sys.stdin.read()).encode() + b"\\n")
    answer = eval(answers.readline())
out, err, status = answer
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""
_REAL = ("cat", "echo", "grep", "sh", "test", "kill", "mkdir")
"""Commands of the real system, or of the shell itself."""
_LONGEST = 1 << 26
"""Bytes of input of a command."""


async def _sleep(machine: SimulatedMachine, _: Shell, arguments: list[str]) -> None:
    """`sleep SECONDS`, by the clock of the lab."""
    await machine.clock.sleep(float(arguments[0]))


async def sh(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """`sh`: runs the script of its standard input."""
    del arguments
    script = await shell.stdin.read()
    commands: dict[str, Command] = {**shell.commands, "sleep": partial(_sleep, machine)}
    names = tuple(name for name in commands if name not in _REAL and "/" not in name)
    path = f"{_programs(machine.place / 'commands', names)}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="nb-sh-") as folder:
        socket = f"{folder}/socket"
        answer = partial(_answer, machine, commands)
        server = await asyncio.start_unix_server(answer, socket, limit=_LONGEST)
        async with server:
            return await _run(shell, script, {"PATH": path, "MACHINE": socket})


@cache
def _programs(folder: Path, names: tuple[str, ...]) -> Path:
    """The folder, with programs of these names."""
    folder.mkdir(exist_ok=True)
    program = folder / "program"
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(program)
    return folder


async def _run(shell: Shell, script: bytes, environment: Mapping[str, str]) -> int:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        out, err = await process.communicate(script)
    finally:
        if process.returncode is None:
            process.kill()
    shell.out(out.decode())
    shell.err(err.decode())
    return process.returncode or 0


class _Input:
    """Standard input of a command, which the program reads if asked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        self._writer.write(b"[]\n")
        text: str = literal_eval((await self._reader.readline()).decode())
        return text.encode()


async def _answer(
    machine: SimulatedMachine,
    commands: Mapping[str, Command],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    path, words = literal_eval((await reader.readline()).decode())
    for folder in path.split(":"):
        if folder.startswith("/boot/") and machine.path(words[0], folder).is_file():
            words[0] = f"{folder}/{words[0]}"
    out, err = BytesIO(), BytesIO()
    status = await Shell(commands, _Input(reader, writer), out, err).execute(words)
    answer = [out.getvalue().decode(), err.getvalue().decode(), status]
    writer.write(ascii(answer).encode() + b"\n")
    writer.close()
