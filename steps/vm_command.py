"""`netbisect vm`: what `netbisect-lab vm` does, for those who begin with it."""

from __future__ import annotations

import click

from netbisect.workers import cli


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: netbisect vm prepare --testbed vm1 FreeBSD-14.3-RELEASE-amd64-ufs.qcow2",
)
@click.option("--lab", default="lab.toml", show_default=True, help="The lab file.")
@click.argument("action", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def vm(context: click.Context, lab: str, action: tuple[str, ...]) -> None:
    """Prepare the virtual machine of a testbed, switch it on or off.

    The same as `netbisect-lab vm`. An ACTION is prepare, start, stop, cycle or status, each with
    its options.
    """
    context.exit(cli.main(["--lab", lab, "vm", *action]))
