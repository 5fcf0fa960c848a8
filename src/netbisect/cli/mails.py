"""`netbisect mails` and `netbisect mail`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from netbisect.cli.listing import day, json_option, print_fields, print_table, without_subcommand
from netbisect.errors import UserError
from netbisect.steps.policy.mail_answers import MAIL_MAX, execute
from netbisect.steps.service.ledger_options import ledger_of
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.settings import load_settings
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.ledger import Ledger


@click.group(
    invoke_without_command=True,
    epilog="Example: netbisect mails --json --folder /var/netbisect",
)
@without_subcommand
@ledger_of(folder_option)
@json_option
def mails(ledger: Ledger, *, as_json: bool) -> None:
    """List unsent mails and retry them.

    Without a subcommand, lists mails that are waiting or have failed, with the number of attempts
    and the last error.
    """
    found = [*ledger.mails.given_up(), *ledger.mails.waiting()]
    if as_json:
        fields = ("id", "created_at", "recipients", "subject", "attempts", "last_error", "state")
        print_fields(found, *fields)
        return
    rows = []
    for one in found:
        written, to = day(one.created_at), ", ".join(one.recipients)
        rows.append((one.id, one.state, written, one.attempts, to, one.subject, one.last_error))
    head = ("mail", "state", "written", "attempts", "to", "subject", "last error")
    print_table(head, rows, "No unsent mail.")


@mails.command(epilog="Example: netbisect mails retry 7 --folder /var/netbisect")
@click.argument("mail", type=int, nargs=-1, required=True)
@ledger_of(folder_option)
def retry(mail: tuple[int, ...], ledger: Ledger) -> None:
    """Send unsent mails again."""
    for identifier in mail:
        click.echo(f"mail {identifier} will be sent: {ledger.mails.retry(identifier).subject}")


@click.command(epilog="Example: netbisect mail --folder /var/netbisect < reply.eml")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),  # may be absent for a time
    help="Folder of netbisect.toml (default: the current folder).",
)
def mail(folder: Path | None) -> None:
    """Execute the command in a mail on standard input, a reply to an alert; for an alias.

    Exit status 75 asks the mail server to try again.
    """
    try:
        settings = load_settings(settings_file(folder))
        given = sys.stdin.buffer.read(MAIL_MAX)
        click.echo(execute(open_service_ledger(settings), settings, given), err=True)
    except UserError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(os.EX_TEMPFAIL)
