"""`netbisect token`: tokens that authenticate programs."""

from __future__ import annotations

import click

from netbisect.cli.listing import day, json_option, print_json, print_table
from netbisect.login import login_name
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import WIDTH
from netbisect.steps.requests import tokens
from netbisect.steps.requests.validation import USER_NAME, is_user_name
from netbisect.steps.service.ledger_options import ledger_of
from netbisect.steps.service.options import folder_option
from netbisect.steps.service.rights import RIGHTS, Right, parse_rights
from netbisect.store.ledger import Ledger


@click.group("token", epilog="Example: netbisect token list")
def token() -> None:
    """Create, list and revoke API tokens."""


def _rights(_: click.Context, __: click.Parameter, text: str) -> frozenset[Right]:
    try:
        return parse_rights([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _who(_: click.Context, __: click.Parameter, text: str) -> str:
    if not is_user_name(text):
        raise click.BadParameter(USER_NAME)
    return text


@token.command(epilog="Example: netbisect token create ann --rights ask,patch --days 90")
@click.argument("who", callback=_who)
@click.option(
    "--rights",
    default="ask",
    show_default=True,
    callback=_rights,
    help=f"Comma-separated: {', '.join(RIGHTS)}.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 36500),
    default=365,
    show_default=True,
    help="Days until it expires.",
)
@click.option("--for-ever", is_flag=True, help="Never expires.")
@ledger_of(folder_option)
def create(
    who: str, rights: frozenset[Right], days: int, ledger: Ledger, *, for_ever: bool
) -> None:
    """Create a token for WHO and print it; it cannot be printed again."""
    made, text = tokens.create(
        ledger, who, rights, by=login_name(), days=None if for_ever else days
    )
    end = "never expires" if made.expires_at is None else f"expires {words.day(made.expires_at)}"
    click.echo(
        f"token {made.id} of {who}, rights {', '.join(made.rights)}, {end}; shown only once:",
        err=True,
    )
    click.echo(text)


@token.command("list", epilog="Example: netbisect token list --json")
@json_option
@ledger_of(folder_option)
def list_tokens(ledger: Ledger, *, as_json: bool) -> None:
    """List all tokens, including expired ones, without their secrets."""
    found = ledger.tokens.all()
    if as_json:
        fields = ("who", "rights", "created_by", "created_at", "expires_at", "revoked_at")
        print_json(
            [{"number": one.id} | {field: getattr(one, field) for field in fields} for one in found]
        )
        return
    rows = []
    for one in found:
        state = "" if one.counts(ledger.clock()) else "expired"
        state = state if one.revoked_at is None else "revoked"
        rights = ", ".join(one.rights)
        rows.append((one.id, one.who, rights, day(one.created_at), day(one.expires_at), state))
    print_table(("number", "who", "rights", "since", "until", ""), rows, "No tokens.", WIDTH)


@token.command(epilog="Example: netbisect token revoke 3")
@click.argument("number", type=click.IntRange(min=1))
@ledger_of(folder_option)
def revoke(number: int, ledger: Ledger) -> None:
    """Revoke a token."""
    taken = ledger.tokens.revoke(number, by=login_name())
    click.echo(f"Token {number} of {words.clean(taken.who)} is revoked.")
