"""`netbisect export`, `samples` and `schema`: documents, samples and their descriptions."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from netbisect.bisect.model.entities import SeriesName
from netbisect.reports.documents import csv, json_schema, openapi
from netbisect.reports.documents.json_schema import Document
from netbisect.steps.queries import digest
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.health import judge
from netbisect.steps.service.ledger_options import ledger_of, open_chosen
from netbisect.steps.service.options import database_options, folder_option, settings_file
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_service_ledger
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger

_DAY = 86400.0


def _queries(folder: Path | None, database: str | None = None) -> DocumentQueries:
    ledger, settings = open_chosen(folder, database)
    return DocumentQueries.of(ledger, settings) if settings else DocumentQueries(ledger)


def _print(document: Document) -> None:
    click.echo(json_schema.as_text(document))


@click.group("export", epilog="Example: netbisect export alert 7 > alert-7.json")
def export() -> None:
    """Export documents as JSON.

    `netbisect schema` prints their JSON Schemas.
    """


def _numbered(kind: str, help_text: str) -> None:
    """Adds the subcommand that exports a document by its number."""

    @export.command(
        kind,
        help=help_text,
        epilog=f"Example: netbisect export {kind} 7 --folder /var/netbisect",
    )
    @click.argument("number", type=int)
    @database_options
    def run(number: int, folder: Path | None, database: str | None) -> None:
        _print(getattr(_queries(folder, database), kind)(number))


_numbered("alert", "An alert with its announced numbers and its history.")
_numbered("comparison", "A comparison of two revisions with all its boots.")
_numbered("bisection", "A bisection with all its steps.")


@export.command(
    "series",
    epilog="Example: netbisect export series c2558 inet4-forwarding main --folder /var/netbisect",
)
@click.argument("testbed")
@click.argument("scenario")
@click.argument("branch")
@database_options
def export_series(
    testbed: str, scenario: str, branch: str, folder: Path | None, database: str | None
) -> None:
    """The levels of a scenario on a testbed along a branch."""
    _print(_queries(folder, database).series(SeriesName(testbed, scenario, branch)))


@export.command("status", epilog="Example: netbisect export status --folder /var/netbisect")
@click.option("--all", "everything", is_flag=True, help="Include closed alerts.")
@database_options
def export_status(folder: Path | None, database: str | None, *, everything: bool) -> None:
    """The queue and the alerts."""
    _print(_queries(folder, database).status(everything=everything))


@export.command(
    "health",
    short_help="The sensitivity of series and the accuracy of alerts.",
    epilog="Example: netbisect export health --folder /var/netbisect",
)
@database_options
def export_health(folder: Path | None, database: str | None) -> None:
    """The sensitivity of each series and the accuracy of past alerts."""
    ledger, settings = open_chosen(folder, database)
    least = {"min_effect": settings.min_effect} if settings else {}
    _print(judge(ledger, **least))


@export.command("digest", epilog="Example: netbisect export digest --folder /var/netbisect")
@click.option("--days", "length", default=1, show_default=True, type=click.IntRange(1, 31))
@folder_option
def export_digest(folder: Path | None, length: int) -> None:
    """The digest mail of the last days."""
    settings, lab = load(settings_file(folder))
    ledger = open_service_ledger(settings)
    since = ledger.clock() - length * _DAY
    _print(digest.gather(ledger, settings, lab, ledger.nights.since(since), since))


@export.command(
    "feed",
    short_help="Alerts as an Atom feed.",
    epilog="Example: netbisect export feed > alerts.atom",
)
@folder_option
def export_feed(folder: Path | None) -> None:
    """Alerts as an Atom feed; the service has it at plugins/netbisect/feed.atom."""
    click.echo(_queries(folder).atom(), nl=False)


@click.command(epilog="Example: netbisect samples --testbed c2558 --since 2026-03-01 > samples.csv")
@ledger_of(database_options)
@click.option("--testbed", help="Only this testbed.")
@click.option("--scenario", help="Only this scenario.")
@click.option("--branch", help="Only revisions on this branch.")
@click.option(
    "--since",
    metavar="DAY",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Only samples from this day on (2026-03-01, UTC).",
)
def samples(ledger: Ledger, since: datetime | None, **wanted: str | None) -> None:
    """Export all samples as CSV, with boot and kernel.

    Invalid samples are included, with the reason.
    """
    known = ledger.samples.names()
    for kind, name in wanted.items():
        if name is not None and name not in known[kind]:
            there = ", ".join(sorted(known[kind])[:6]) or "none"
            raise StoreError(f"there is no {kind} {name!r} with samples; found {there}")
    first = None if since is None else since.replace(tzinfo=UTC).timestamp()
    csv.write(ledger.samples.select(**wanted, since=first), sys.stdout)


@click.command(epilog="Example: netbisect schema alert > netbisect-alert-1.json")
@click.argument("name", required=False, type=click.Choice([*json_schema.DOCUMENTS, "openapi"]))
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document or the OpenAPI description; list them without NAME."""
    if name is None:
        for one in json_schema.DOCUMENTS:
            click.echo(f"{one:<12} {json_schema.schema(one)['title']}")
        click.echo(f"{'openapi':<12} netbisect-openapi/1")
    elif name == "openapi":
        click.echo(openapi.as_text())
    else:
        click.echo(json.dumps(json_schema.schema(name), indent=2))
