"""Options of the commands that ask the lab."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

from netbisect.steps.request_place import place_options
from netbisect.steps.wish import PRIORITIES

Command = TypeVar("Command", bound=Callable[..., Any])


def asking(command: Command) -> Command:
    """The options of all that ask."""
    for option in reversed(
        [
            click.option(
                "--testbed",
                "testbeds",
                metavar="NAME",
                multiple=True,
                help="Where; may be given several times (default: the lab's only one).",
            ),
            click.option(
                "--scenario",
                "scenarios",
                metavar="NAME",
                multiple=True,
                help="Which, the leading one first; `all` for all (default: the testbed's first).",
            ),
            click.option("--branch", default="", help="Default: the first that is watched."),
            click.option(
                "--margin",
                "margin_percent",
                type=float,
                metavar="PERCENT",
                help="A drop that matters (default: min_effect_percent of the settings).",
            ),
            click.option(
                "--priority",
                type=click.Choice([*PRIORITIES]),
                default="normal",
                show_default=True,
                help="Nights come between low and normal.",
            ),
            click.option("--who", default=getpass.getuser, help="Default: your login name."),
            click.option("--mail", "address", default="", help="Where the answer is mailed to."),
            click.option("--dry-run", is_flag=True, help="Only say what it would cost."),
            click.option("--wait", is_flag=True, help="Wait for the answer: it is the status."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
            place_options,
        ]
    ):
        command = option(command)
    return command


def boots_options(command: Command) -> Command:
    """The options of those that boot each as often as asked."""
    for option in reversed(
        [
            click.option(
                "--patch",
                "patches",
                metavar="[REV=]FILE",
                multiple=True,
                help="A diff: REV, or the first revision, with it is one more to be measured.",
            ),
            click.option(
                "--boots", type=int, metavar="N", help="Of each (default: 5, or the settings')."
            ),
            click.option("--repeat", is_flag=True, help="A second run, with boots of its own."),
            click.option("--fresh", is_flag=True, help="Boots made for others do not count."),
        ]
    ):
        command = option(command)
    return command
