"""Help texts of all commands, and the commands of the documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from netbisect.cli.main import main
from netbisect.workers.cli.main import netbisect_lab

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS: dict[str, click.Group] = {"netbisect": main, "netbisect-lab": netbisect_lab}
SCREEN, LONG = 24, 48
"""Most lines of a help text, and of one with more than `MANY` options or commands."""
MANY = 8


def subcommands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The names of a command and of its subcommands, as lists of words."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from subcommands(found, (*path, name))


def command_of(words: list[str]) -> click.Command:
    """The command that a command line runs."""
    found: click.Command = PROGRAMS[words[0]]
    for word in words[1:]:
        if not isinstance(found, click.Group) or word.startswith("-"):
            break
        following = found.get_command(click.Context(found), word)
        assert following is not None, words
        found = following
    return found


COMMANDS = [path for name, group in PROGRAMS.items() for path in subcommands(group, (name,))]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_a_screen_and_ends_with_an_example(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(
        PROGRAMS[path[0]], [*path[1:], "--help"], prog_name=path[0], terminal_width=80
    )
    lines = done.output.splitlines()
    command = command_of(list(path))
    options = sum(isinstance(param, click.Option) for param in command.params)
    many = max(options, len(getattr(command, "commands", ()))) > MANY or command is main

    assert done.exit_code == 0
    assert len(lines) <= (LONG if many else SCREEN)
    assert max(map(len, lines)) <= 80
    assert re.match("  Examples?: netbisect", done.output.rpartition("\n\n")[2])
    # Click truncates long sentences and appends dots.
    listed = done.output.partition("Commands:\n")[2].partition("\n\n")[0]
    assert bool(listed) is isinstance(command, click.Group)
    assert "..." not in listed


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def command_lines() -> Iterator[tuple[str, str]]:
    """The examples of help texts and the command lines of documents, with the place of each."""
    for path in COMMANDS:
        epilog = (command_of(list(path)).epilog or "").replace("\\\n", " ")
        shown = epilog.rpartition("Example")[2].removeprefix("s").removeprefix(": ")
        yield from ((" ".join(path), re.split(" [<>]", line)[0]) for line in shown.split("; "))
    for page in PAGES:
        blocks = re.findall(r"^```\w*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in "".join(blocks).replace("\\\n", " ").splitlines():
            found = re.match(r"(?:/\S+/)?(netbisect(?:-lab)? [a-z-](?:[^<>&]|&&)*|make \w.*)", line)
            if found and not re.search(r"…|\[|'$", line):  # parts of commands
                yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), list(command_lines()))
def test_documented_commands_have_their_options_and_arguments(page: str, line: str) -> None:
    """Required arguments are given, all options exist, and words after `make` are targets."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    words = [words[0], *words[3:]] if words[1] == "--lab" else words
    command, given = command_of(words), list(words)
    while given and given[0] in (*PROGRAMS, *(word for path in COMMANDS for word in path)):
        given.pop(0)
    context = click.Context(command, ignore_unknown_options=command.name == "vm")
    values, left, _ = command.make_parser(context).parse_args(given)

    assert not left or isinstance(command, click.Group), (page, left)
    missing = [
        param.name for param in command.params if param.required and not values.get(param.name)
    ]
    assert not missing, page
