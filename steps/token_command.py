"""`netbisect token`: what programs show instead of a login."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import click

from netbisect.reports import words
from netbisect.reports.plaintext import table
from netbisect.steps import tokens
from netbisect.steps.control import SETTINGS
from netbisect.steps.memory import ledger_of
from netbisect.steps.options import Sentences, folder_option
from netbisect.steps.rights import RIGHTS, Right, rights_of
from netbisect.steps.settings import load_settings
from netbisect.steps.wishes import is_name
from netbisect.store.ledger import Ledger
from netbisect.store.records import Token


@click.group("token", cls=Sentences)
def token() -> None:
    """Make tokens for the API, list them, and take them back."""


def _ledger(folder: Path | None) -> Ledger:
    return ledger_of(load_settings((folder or Path()) / SETTINGS))


def _rights(_: click.Context, __: click.Parameter, text: str) -> frozenset[Right]:
    try:
        return rights_of([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _who(_: click.Context, __: click.Parameter, text: str) -> str:
    if not is_name(text):
        raise click.BadParameter("a name of 1 to 100 letters would be right")
    return text


@token.command(epilog="Example: netbisect token create ann --rights ask,patch --days 90")
@click.argument("who", callback=_who)
@click.option(
    "--rights",
    default="ask",
    show_default=True,
    callback=_rights,
    help=f"With commas between them: {', '.join(RIGHTS)}.",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=365.0,
    show_default=True,
    help="After which it ends.",
)
@click.option("--for-ever", is_flag=True, help="It does not end.")
@folder_option
def create(
    who: str, rights: frozenset[Right], days: float, folder: Path | None, *, for_ever: bool
) -> None:
    """Make a token that speaks for WHO, and print it, which is done only once."""
    made, text = tokens.create(
        _ledger(folder), who, rights, by=getpass.getuser(), days=None if for_ever else days
    )
    said = ", ".join(made.rights)
    end = "for ever" if made.expires_at is None else f"until {words.day(made.expires_at)}"
    click.echo(f"token {made.id} of {who} may {said}, {end}; it is shown only now:", err=True)
    click.echo(text)


@token.command("list", epilog="Example: netbisect token list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@folder_option
def list_tokens(folder: Path | None, *, as_json: bool) -> None:
    """List all tokens, those that have ended too; none of them is shown itself."""
    ledger = _ledger(folder)
    found = ledger.tokens()
    if as_json:
        click.echo(json.dumps([_brief(one) for one in found], indent=2))
        return
    if not found:
        click.echo("There are no tokens.")
        return
    rows: list[tuple[str, ...]] = [("number", "who", "may", "since", "until", "")]
    for one in found:
        state = "" if one.counts(ledger.clock()) else "ended"
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
    """Take a token back: from now on it opens nothing."""
    taken = _ledger(folder).revoke_token(number, by=getpass.getuser())
    click.echo(f"Token {number} of {words.clean(taken.who)} opens nothing any more.")
