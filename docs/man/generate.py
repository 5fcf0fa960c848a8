"""Writes netbisect(1) and netbisect-lab(1) in mdoc from the help texts of the commands.

python docs/man/generate.py        # writes both pages beside this file
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from netbisect.cli import main
from netbisect.workers.cli.main import netbisect_lab

DATE = "November 26, 2026"
"""Date of the pages; change it together with them."""


def _epilog(text: str) -> Iterator[str]:
    """The end of a help text: paragraphs, such as the exit statuses, and examples."""
    before, _, shown = text.partition("Example")
    if before := before.strip().removesuffix("\b").strip("\n"):
        yield from [".Pp", *_paragraphs(before)]
    head, _, shown = " ".join(shown.replace("\\\n", " ").split()).partition(": ")
    if shown:
        yield from [".Pp", f"Example{head}:"]
        yield from (f".Dl {escaped(one)}" for one in shown.split("; "))


def escaped(text: str) -> str:
    """Escapes text for mdoc."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", textwrap.dedent(text).strip())):
        if number:
            yield ".Pp"
        if paragraph.startswith("\b"):  # click's mark of preformatted text
            lines = paragraph.splitlines()[1:]
            yield from [".Bd -literal -offset indent", *map(escaped, lines), ".Ed"]
        else:
            yield from textwrap.wrap(
                escaped(" ".join(paragraph.split())), 90, break_on_hyphens=False
            )


def _described(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from _paragraphs((command.help or "").partition("\f")[0])
    records = (one.get_help_record(context) for one in command.get_params(context))
    options = [one for one in records if one and one[1] and "--help" not in one[0]]
    if options:
        yield ".Bl -tag -width Ds"
        for written, what in options:
            yield f'.It "{escaped(written).replace(chr(34), "")}"'
            yield from _paragraphs(what)
        yield ".El"
    yield from _epilog(command.epilog or "")


def _arguments(command: click.Command, context: click.Context) -> str:
    return escaped(" ".join(command.collect_usage_pieces(context)))


def _subcommands(group: click.Command, context: click.Context, names: str) -> Iterator[str]:
    """The subcommands of a group, depth first."""
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        words = escaped(f"{names} {name}".strip())
        yield from [f".Ss {words}", f".Nm {words} {_arguments(command, below)}", ".Pp"]
        yield from _described(command, below)
        yield from _subcommands(command, below, f"{names} {name}".strip())


def page(name: str, about: str, command: click.Command, rest: str) -> str:
    """A manual page of a program with all its commands, followed by `rest`."""
    context = click.Context(command, info_name=name)
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
        f".Ar {_arguments(command, context)}",
        ".Sh DESCRIPTION",
        *_described(command, context),
        ".Sh COMMANDS",
        *_subcommands(command, context, ""),
    ]
    return "\n".join(lines) + "\n" + rest


NETBISECT = """\
.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev NETBISECT_SETTINGS
Settings file of the master, instead of
.Pa netbisect.toml
in its folder.
.It Ev NETBISECT_SERVER , NETBISECT_TOKEN_FILE
Defaults of
.Fl \\-server
and
.Fl \\-token\\-file
of
.Nm request .
.It Ev _NETBISECT_COMPLETE , _NETBISECT_LAB_COMPLETE
Set to bash_source, zsh_source or fish_source to print a completion script.
.El
.Sh FILES
.Bl -tag -width Ds
.It Pa netbisect.toml
Settings of the service.
.It Pa lab.toml
The lab file: testbeds, builders and hosts.
.It Pa netbisect.sqlite
Default database of measurements and results.
.It Pa state.sqlite
Database of Buildbot.
.It Pa twistd.log
Log of the master.
.El
.Sh EXIT STATUS
.Ex -std netbisect
Invalid arguments have exit status 2.
Others:
.Bl -tag -width Ds
.It Nm bisect run
As above.
.It Nm request
With
.Fl \\-wait ,
0: no regression; 1: a regression; 2: inconclusive; 130: interrupted.
Errors, also of arguments, and failed and cancelled requests have exit status 3.
.It Nm mail
75: the mail server is to try again.
.El
.Sh SEE ALSO
.Xr buildbot-worker 1 ,
.Xr netbisect-lab 1
"""
LAB = """\
.Sh FILES
.Bl -tag -width Ds
.It Pa lab.toml
The lab file: testbeds, builders and hosts.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds
.It 0
Success.
.It 1
Temporary failure; a retry may succeed.
.It 2
Invalid lab file or arguments.
.It 3
The revision cannot be measured; standard output has the reason.
.It 4
The testbed or the builder needs repair.
.El
.Sh SEE ALSO
.Xr ssh 1 ,
.Xr netbisect 1 ,
.Xr netmap 4 ,
.Xr nextboot 8
"""


def pages() -> dict[str, str]:
    """Contents of the pages by file name."""
    return {
        "netbisect.1": page(
            "netbisect",
            "find the commit that made a FreeBSD router slower",
            main.main,
            NETBISECT,
        ),
        "netbisect-lab.1": page(
            "netbisect-lab",
            "build kernels, boot them on a testbed, send packets through them",
            netbisect_lab,
            LAB,
        ),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        Path(__file__).with_name(name).write_text(text)
