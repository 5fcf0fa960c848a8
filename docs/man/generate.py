"""Writes netbisect(1) and netbisect-lab(1) in mdoc from what the command lines say of themselves.

python docs/man/generate.py        # writes both pages beside this file
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from netbisect.steps import cli
from netbisect.workers.cli import command_line

DATE = "November 21, 2026"
"""Of the pages; changes when they do."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of either kind, as a page shows it."""

    name: str
    """All of its words."""
    arguments: str
    about: str
    """Paragraphs, with empty lines between."""
    options: list[tuple[str, str]] = field(default_factory=list)
    """How each is written, and what it does."""
    example: str = ""


def of_click(command: click.Command, name: str, parent: click.Context | None) -> Iterator[Command]:
    """The command and all below it, each before its own."""
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent)
    records = (one.get_help_record(context) for one in command.get_params(context))
    yield Command(
        name,
        " ".join(command.collect_usage_pieces(context)),
        (command.help or "").partition("\f")[0],
        [one for one in records if one and one[1] and "--help" not in one[0]],
        _example(command.epilog, "Example: "),
    )
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            assert below is not None
            yield from of_click(below, f"{name} {one}", context)


def _example(epilog: str | None, sign: str) -> str:
    return " ".join((epilog or "").partition(sign)[2].replace("\\\n", " ").split())


def _written(action: argparse.Action) -> str:
    """How an option is written; argparse's own way differs between versions of Python."""
    names = ", ".join(action.option_strings)
    return f"{names} {action.metavar or action.dest.upper()}" if action.nargs != 0 else names


def of_argparse(parser: argparse.ArgumentParser, name: str) -> Iterator[Command]:
    """The same of a parser."""
    usage = " ".join(parser.format_usage().split()).removeprefix(f"usage: {parser.prog}").strip()
    below = [one for one in parser._actions if isinstance(one.choices, dict)]  # noqa: SLF001 - no other way
    yield Command(
        name,
        usage.removeprefix("[-h]").strip(),
        parser.description or "",
        [
            (_written(one), one.help or "")
            for one in parser._actions  # noqa: SLF001 - see above
            if one not in below and "--help" not in one.option_strings
        ],
        _example(parser.epilog, "example: "),
    )
    for action in below:
        assert isinstance(action.choices, dict)
        for one, its_parser in action.choices.items():
            yield from of_argparse(its_parser, f"{name} {one}")


def escaped(text: str) -> str:
    """For a line of mdoc: nothing in it is a macro or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", textwrap.dedent(text).strip())):
        if number:
            yield ".Pp"
        if paragraph.startswith("\b"):  # click's sign for what is not to be filled
            lines = paragraph.splitlines()[1:]
            yield from [".Bd -literal -offset indent", *map(escaped, lines), ".Ed"]
        else:
            yield from textwrap.wrap(
                escaped(" ".join(paragraph.split())), 90, break_on_hyphens=False
            )


def _described(command: Command) -> Iterator[str]:
    yield from _paragraphs(command.about)
    if command.options:
        yield ".Bl -tag -width Ds"
        for written, what in command.options:
            yield f'.It "{escaped(written).replace(chr(34), "")}"'
            yield from _paragraphs(what)
        yield ".El"
    if command.example:
        yield from [".Pp", "Example:", f".Dl {escaped(command.example)}"]


def page(name: str, about: str, commands: list[Command], rest: str) -> str:
    """The page: its name, all commands with their options, and what else there is to say."""
    whole, *parts = commands
    lines = [
        ".\\" + '" Written by docs/man/generate.py from the command line; change it there.',
        f".Dd {DATE}",
        f".Dt {name.upper()} 1",
        ".Os",
        ".Sh NAME",
        f".Nm {name}",
        f".Nd {about}",
        ".Sh SYNOPSIS",
        ".Nm",
        f".Ar {escaped(whole.arguments)}",
        ".Sh DESCRIPTION",
        *_described(whole),
        ".Sh COMMANDS",
    ]
    for one in parts:
        words = one.name.removeprefix(f"{name} ")
        lines += [f".Ss {escaped(words)}", f".Nm {escaped(f'{words} {one.arguments}')}", ".Pp"]
        lines += _described(one)
    return "\n".join(lines) + "\n" + rest


NETBISECT = """\
.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev NETBISECT_SETTINGS
The settings of the master that Buildbot starts, where they are not
.Pa netbisect.toml
in its folder.
.El
.Sh FILES
.Bl -tag -width Ds
.It Pa netbisect.toml
What the service watches, when, and whom it tells.
.It Pa lab.toml
The machines.
.It Pa netbisect.sqlite
All that was measured and decided, where the settings name no other database.
.It Pa state.sqlite
What Buildbot keeps.
.It Pa twistd.log
What the master says.
.El
.Sh EXIT STATUS
.Ex -std netbisect
A command that cannot be understood ends with 2.
.Sh SEE ALSO
.Xr buildbot-worker 1 ,
.Xr netbisect-lab 1
"""
LAB = """\
.Sh FILES
.Bl -tag -width Ds
.It Pa lab.toml
The machines.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds
.It 0
Done.
.It 1
Passing trouble: the same again may go well.
.It 2
The lab file or the command line is wrong.
.It 3
The revision cannot be measured; a fact on standard output says why.
.It 4
The testbed or the builder needs its owner.
.El
.Sh SEE ALSO
.Xr ssh 1 ,
.Xr netbisect 1 ,
.Xr netmap 4 ,
.Xr nextboot 8
"""


def pages() -> dict[str, str]:
    """The pages by the names of their files."""
    return {
        "netbisect.1": page(
            "netbisect",
            "find the commit that made a FreeBSD router slower",
            list(of_click(cli.main, "netbisect", None)),
            NETBISECT,
        ),
        "netbisect-lab.1": page(
            "netbisect-lab",
            "build kernels, boot them on a testbed, send packets through them",
            list(of_argparse(command_line(), "netbisect-lab")),
            LAB,
        ),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        Path(__file__).with_name(name).write_text(text)
