"""The exit statuses and the standard output of netbisect-lab, which the master reads."""

from __future__ import annotations

import os

import click

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Fact

EXIT_FAILED = 1
"""Temporary failure; a retry may succeed."""
EXIT_USAGE = 2
EXIT_UNMEASURABLE = 3
"""The revision cannot be measured; a failure on standard output says why."""
EXIT_LAB = 4
"""The testbed or the builder needs its owner."""

LINE_LENGTH = "NETBISECT_LINE_LENGTH"
"""Environment variable: maximum number of characters per line of output; unlimited by default."""


def emit(fact: Fact) -> None:
    """Prints a fact on standard output.

    A fact is one line, or several if LINE_LENGTH is set: all but the last then end with a
    backslash, which is not part of the fact.
    """
    text = serialization.dumps(fact)
    most = int(os.environ.get(LINE_LENGTH, len(text)))
    click.echo("\\\n".join(text[at : at + most] for at in range(0, len(text), most)))
