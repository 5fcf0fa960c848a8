"""sh(1) for scripts from standard input: a real shell with the commands of the machine.

Each simulated command is a small program in a folder at the start of PATH. It sends its arguments
and input to the machine over a socket and prints the answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from pathlib import Path

from netbisect.demo.lab.machine import SimulatedMachine
from netbisect.demo.lab.shell import Command, Shell

_PROGRAM = """#!{python} -SE
import json, os, select, socket, sys
text = os.read(0, 1 << 20).decode() if select.select([0], [], [], 0)[0] else ""
with socket.socket(socket.AF_UNIX) as one:
    one.connect({socket!r})
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    one.sendall(json.dumps([words, text]).encode() + b"\\n")
    out, err, status = json.load(one.makefile())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""
_REAL = ("cat", "echo", "grep", "sh", "test", "kill", "mkdir")
"""Commands of the real system, or of the shell itself."""


async def _sleep(machine: SimulatedMachine, _: Shell, arguments: list[str]) -> None:
    """`sleep SECONDS`, by the clock of the lab."""
    await machine.clock.sleep(float(arguments[0]))


async def sh(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """`sh`: runs the script of its standard input."""
    del arguments
    script = await shell.stdin.read()
    commands: dict[str, Command] = {**shell.commands, "sleep": partial(_sleep, machine)}
    with tempfile.TemporaryDirectory(prefix="nb-sh-") as folder:
        place = Path(folder)
        server = await asyncio.start_unix_server(partial(_answer, commands), place / "socket")
        program = place / "program"
        program.write_text(_PROGRAM.format(python=sys.executable, socket=str(place / "socket")))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name in commands:
            if name not in _REAL and "/" not in name:
                (place / name).symlink_to(program)
        async with server:
            return await _run(shell, script, {"PATH": f"{folder}:{os.environ['PATH']}"})


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


async def _answer(
    commands: Mapping[str, Command], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    words, text = json.loads(await reader.readline())
    stdin, out, err = asyncio.StreamReader(), BytesIO(), BytesIO()
    stdin.feed_data(text.encode())
    stdin.feed_eof()
    status = await Shell(commands, stdin, out, err).execute(words)
    writer.write(json.dumps([out.getvalue().decode(), err.getvalue().decode(), status]).encode())
    writer.close()
