"""`netbisect check`, `start`, `stop` and `night`: operation of the master."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from netbisect.cli.listing import json_option, print_json
from netbisect.steps.scheduler.followups import open_nights
from netbisect.steps.service import control
from netbisect.steps.service.options import folder_argument
from netbisect.steps.service.settings import load, load_settings
from netbisect.steps.service.storage import open_history, open_service_ledger


@click.command(epilog="Example: netbisect check /var/netbisect")
@folder_argument
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check settings, database, repository, mail server and ports.

    The exit status is 0 if a start would succeed.
    """
    checks = list(control.check_folder(folder))
    if as_json:
        print_json(checks)
    else:
        for one in checks:
            label = "ok" if one.good else "FAIL" if one.failed else "warn"
            click.echo(f"{label:<4} {one.what:<24} {one.found}")
    sys.exit(1 if any(one.failed for one in checks) else 0)


@click.command(epilog="Example: netbisect start /var/netbisect")
@folder_argument
@click.option("--foreground", is_flag=True, help="Do not fork; for systemd and daemon(8).")
def start(folder: Path, *, foreground: bool) -> None:
    """Start the master; workers are started on their own hosts."""
    if foreground:
        control.prepare_start(folder, supervised=True)
        control.become_master(folder)
    settings = control.start(folder)
    click.echo(f"The master runs: {settings.web.url}")


@click.command(epilog="Example: netbisect stop /var/netbisect")
@folder_argument
def stop(folder: Path) -> None:
    """Stop the master; the next start resumes its work."""
    if control.stop(folder):
        click.echo("The master has stopped.")
    else:
        load_settings(folder / control.SETTINGS)  # fails if this is not the folder of a service
        click.echo("The master did not run.")


@click.command(epilog="Example: netbisect night --testbed c2558 /var/netbisect")
@folder_argument
@click.option("--branch", help="One branch (default: all branches of the settings).")
@click.option("--testbed", "testbed_name", help="One testbed (default: all).")
def night(folder: Path, branch: str | None, testbed_name: str | None) -> None:
    """Measure the heads of the branches now, as a nightly job would."""
    settings, lab = load(folder / control.SETTINGS)
    testbeds = [lab.testbed(testbed_name)] if testbed_name else lab.testbeds
    branches = [branch] if branch else settings.branches
    history = open_history(settings, lab)
    history.update()
    for line in open_nights(open_service_ledger(settings), history, settings, testbeds, branches):
        click.echo(line)
