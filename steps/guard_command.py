"""`netbisect guard`: what the keys of netbisect are held to on the machines of a lab."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command(epilog="Example: netbisect guard > /usr/local/libexec/netbisect-guard")
def guard() -> None:
    """Print the script by which a key of netbisect can do its work on a machine, and no more.

    It stands before a key in authorized_keys; docs/security.md says how.
    """
    path = files("netbisect.steps").joinpath("files", "guard.sh")
    click.echo(path.read_text(), nl=False)
