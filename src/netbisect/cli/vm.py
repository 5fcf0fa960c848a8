"""`netbisect vm`: the same as `netbisect-lab vm`."""

from __future__ import annotations

import click

from netbisect.workers.cli import main


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExample: netbisect vm prepare --testbed vm1 \\\n"
    "             FreeBSD-14.3-RELEASE-amd64-BASIC-CI-ufs.qcow2",
)
@click.option("--lab", default="lab.toml", show_default=True, help="The lab file.")
@click.argument("action", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def vm(context: click.Context, lab: str, action: tuple[str, ...]) -> None:
    """Prepare, start or stop the virtual machine of a testbed.

    The same as `netbisect-lab vm`. ACTION is prepare, start, stop, cycle or status, with its
    options.
    """
    context.exit(main.main(["--lab", lab, "vm", *action]))
