"""The shell of a simulated machine: words in, a command's answer out, an exit status.

Of sh(1) it knows quoting, `&&` and `;`; of FreeBSD it knows the commands of the package
`commands`, and says of all others what sh says.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from netbisect.demo.lab.machine import Program


class Stdin(Protocol):
    """Where a command reads."""

    async def read(self) -> bytes:
        """Everything up to the end."""
        ...


class Stdout(Protocol):
    """Where a command writes."""

    def write(self, data: bytes, /) -> None:
        """Sends it on its way."""
        ...


NOT_FOUND = 127
ANY_PATH = "/"
"""Name of the command that runs files; the file is the first of its arguments."""
USAGE = 2


class CommandFailedError(Exception):
    """A command that ends with a message, said as the machine says it, and a status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class Shell:
    """One session on one machine."""

    def __init__(
        self, commands: Mapping[str, Command], stdin: Stdin, stdout: Stdout, stderr: Stdout
    ) -> None:
        self.commands = commands
        self.stdin = stdin
        self._stdout = stdout
        self._stderr = stderr
        self.folder = "/"
        self.program: Program | None = None
        """What can be interrupted in this session."""

    def out(self, text: str) -> None:
        """Prints on standard output."""
        self._stdout.write(text.encode())

    def err(self, text: str) -> None:
        """Prints on standard error."""
        self._stderr.write(text.encode())

    async def run(self, line: str) -> int:
        """Runs a line; the status of its last command."""
        status = 0
        try:
            for joint, words in list(_parts(line)):
                if joint != "&&" or status == 0:
                    status = await self.execute(words)
        except ValueError as error:
            self.err(f"sh: Syntax error: {error}\n")
            return USAGE
        return status

    async def execute(self, words: list[str]) -> int:
        """Runs one command; its status."""
        path = words[0].startswith("/") and ANY_PATH in self.commands
        command = self.commands.get(ANY_PATH if path else words[0])
        if command is None:
            self.err(f"sh: {words[0]}: not found\n")
            return NOT_FOUND
        try:
            done = command(self, words if path else words[1:])
            status = await done if inspect.isawaitable(done) else done
        except CommandFailedError as failure:
            self.err(f"{failure}\n")
            return failure.status
        return status or 0


Command: TypeAlias = Callable[[Shell, list[str]], "int | Awaitable[int | None] | None"]
"""Takes the session and its arguments; gives its status, None for 0."""


def _parts(line: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a line, each with the joint before it: `;` or `&&`.

    Raises:
        ValueError: it uses more of sh's grammar than that.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    joint = ";"
    words: list[str] = []
    for token in lexer:
        if token in (";", "&&"):
            if not words:
                raise ValueError(f'"{token}" unexpected')
            yield joint, words
            joint, words = token, []
        elif token and token[0] in ";&|<>":
            raise ValueError(f'"{token}" unexpected')
        else:
            words.append(token)
    if words:
        yield joint, words
