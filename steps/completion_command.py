"""`netbisect completion`: what a shell completes the arguments of both command lines by."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import click
import shtab
from click import shell_completion

from netbisect.workers.cli import command_line

_SHELLS = ("bash", "zsh", "fish")


@click.command(epilog="Example: netbisect completion fish | source")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL completes the arguments of netbisect and netbisect-lab by."""
    root = context.find_root()
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(root.command, {}, "netbisect", "_NETBISECT_COMPLETE").source())
    lab = command_line()
    for action in _actions(lab):
        if action.type is Path:
            vars(action)["complete"] = shtab.FILE  # where shtab looks
    click.echo(shtab.complete(lab, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its arguments
        yield action
        if isinstance(action.choices, dict):
            for one in action.choices.values():
                yield from _actions(one)
