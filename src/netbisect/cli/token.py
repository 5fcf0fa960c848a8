"""`netbisect token`: tokens that authenticate programs."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import click

from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table
from netbisect.steps.requests import tokens
from netbisect.steps.requests.validation import is_user_name
from netbisect.steps.service.control import SETTINGS
from netbisect.steps.service.database_thread import open_service_ledger
from netbisect.steps.service.options import folder_option
from netbisect.steps.service.rights import RIGHTS, Right, parse_rights
from netbisect.steps.service.settings import load_settings
from netbisect.store.db.records import Token
from netbisect.store.ledger import Ledger


@click.group("token", epilog="Example: netbisect token list")
def token() -> None:
    """Create, list and revoke API tokens."""


def _ledger(folder: Path | None) -> Ledger:
    return open_service_ledger(load_settings((folder or Path()) / SETTINGS))


def _rights(_: click.Context, __: click.Parameter, text: str) -> frozenset[Right]:
    try:
        return parse_rights([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _who(_: click.Context, __: click.Parameter, text: str) -> str:
    if not is_user_name(text):
        raise click.BadParameter("expected a name of 1 to 100 letters")
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
    type=click.FloatRange(min=0, min_open=True),
    default=365.0,
    show_default=True,
    help="Days until it expires.",
)
@click.option("--for-ever", is_flag=True, help="Never expires.")
@folder_option
def create(
    who: str, rights: frozenset[Right], days: float, folder: Path | None, *, for_ever: bool
) -> None:
    """Create a token for WHO and print it; it cannot be printed again."""
    made, text = tokens.create(
        _ledger(folder), who, rights, by=getpass.getuser(), days=None if for_ever else days
    )
    end = "never expires" if made.expires_at is None else f"expires {words.day(made.expires_at)}"
    click.echo(
        f"token {made.id} of {who}, rights {', '.join(made.rights)}, {end}; shown only once:",
        err=True,
    )
    click.echo(text)


@token.command("list", epilog="Example: netbisect token list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@folder_option
def list_tokens(folder: Path | None, *, as_json: bool) -> None:
    """List all tokens, including expired ones, without their secrets."""
    ledger = _ledger(folder)
    found = ledger.tokens.all()
    if as_json:
        click.echo(json.dumps([_brief(one) for one in found], indent=2))
        return
    if not found:
        click.echo("No tokens.")
        return
    rows: list[tuple[str, ...]] = [("number", "who", "rights", "since", "until", "")]
    for one in found:
        state = "" if one.counts(ledger.clock()) else "expired"
        until = "" if one.expires_at is None else words.day(one.expires_at)
        rows.append(
            (
                str(one.id),
                words.clean(one.who),
                ", ".join(one.rights),
                words.day(one.created_at),
                until,
                "revoked" if one.revoked_at is not None else state,
            )
        )
    click.echo(table(rows, indent=0))


def _brief(one: Token) -> dict[str, Any]:
    return {
        "number": one.id,
        "who": one.who,
        "rights": list(one.rights),
        "created_by": one.created_by,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "revoked_at": one.revoked_at,
    }


@token.command(epilog="Example: netbisect token revoke 3")
@click.argument("number", type=click.IntRange(min=1))
@folder_option
def revoke(number: int, folder: Path | None) -> None:
    """Revoke a token."""
    taken = _ledger(folder).tokens.revoke(number, by=getpass.getuser())
    click.echo(f"Token {number} of {words.clean(taken.who)} is revoked.")
