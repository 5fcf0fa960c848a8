"""The shell of a simulated machine.

It supports quoting, `&&`, `;` and `echo` of sh(1) and the commands of the package `commands`.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from netbisect.demo.lab.machine import Program


class Stdin(Protocol):
    """Standard input of a command."""

    async def read(self) -> bytes:
        """Reads until end of file."""
        ...


class Stdout(Protocol):
    """Output of a command."""

    def write(self, data: bytes, /) -> object:
        """Flushes the output."""
        ...


NOT_FOUND = 127
ANY_PATH = "/"
"""The command that runs files; the file is its first argument."""
USAGE = 2


class CommandFailedError(Exception):
    """A command failed with a message and an exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Commands by name."""
    return {one.__name__: one for one in functions}


class Shell:
    """A session on a machine."""

    def __init__(
        self, commands: Mapping[str, Command], stdin: Stdin, stdout: Stdout, stderr: Stdout
    ) -> None:
        self.commands = commands
        self.stdin = stdin
        self._stdout = stdout
        self._stderr = stderr
        self.folder = "/"
        self.program: Program | None = None
        """Running programs of this session."""

    def out(self, text: str) -> None:
        """Prints to standard output."""
        self._stdout.write(text.encode())

    def err(self, text: str) -> None:
        """Prints to standard error."""
        self._stderr.write(text.encode())

    async def run(self, line: str) -> int:
        """Runs a line; returns the status of its last command."""
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
        """Runs a command; returns its status."""
        if words[0] == "echo":
            self.out(f"{' '.join(words[1:])}\n")
            return 0
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
"""Called with the session and the arguments; returns the exit status, None for 0."""


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
