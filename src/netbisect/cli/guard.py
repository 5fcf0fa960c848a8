"""`netbisect guard`."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command(epilog="Example: netbisect guard > /usr/local/libexec/netbisect-guard")
def guard() -> None:
    """Print the script that restricts an SSH key to the work of netbisect.

    It is the forced command of a key in authorized_keys; see docs/security.md.
    """
    path = files("netbisect.steps").joinpath("files", "guard.sh")
    click.echo(path.read_text(), nl=False)
