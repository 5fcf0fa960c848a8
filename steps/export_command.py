"""`netbisect export`, `samples` and `schema`: what there is, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from netbisect.reports import health as telling
from netbisect.reports import schema as schemas
from netbisect.reports.documents import Document
from netbisect.reports.samples import as_csv
from netbisect.steps import digest as days
from netbisect.steps.control import SETTINGS
from netbisect.steps.documents import Desk
from netbisect.steps.health import judge
from netbisect.steps.memory import ledger_of, open_ledger
from netbisect.steps.options import where_options
from netbisect.steps.settings import Settings, load, load_settings
from netbisect.store.database import StoreError, is_there
from netbisect.store.lookup import SeriesName
from netbisect.workers.tomlfile import FileError

_DAY = 86400.0


@contextmanager
def _sentences() -> Iterator[None]:
    """Turns what people can mend into one sentence and exit status 1."""
    try:
        yield
    except (FileError, StoreError) as error:
        raise click.ClickException(str(error)) from error


def _desk(folder: Path | None, database: str | None) -> tuple[Desk, Settings | None]:
    if folder is not None and database is not None:
        raise click.UsageError("--folder or --database: one of the two would be right")
    if database is not None:
        if not is_there(database):
            raise StoreError(f"there is no database {database}; another --database would be right")
        return Desk(open_ledger(database)), None
    settings = load_settings((folder or Path()) / SETTINGS)
    return Desk.of(ledger_of(settings), settings), settings


def _tell(document: Document) -> None:
    click.echo(schemas.as_text(document))


@click.group("export")
def export() -> None:
    """Write what is known as JSON, for programs.

    `netbisect schema` prints what each document is made of.
    """


@export.command("alert", epilog="Example: netbisect export alert 7 --folder /var/netbisect")
@click.argument("number", type=int)
@where_options
def export_alert(number: int, folder: Path | None, database: str | None) -> None:
    """An alert, with its numbers as announced and its history."""
    with _sentences():
        _tell(_desk(folder, database)[0].alert(number))


@export.command(
    "comparison", epilog="Example: netbisect export comparison 12 --folder /var/netbisect"
)
@click.argument("number", type=int)
@where_options
def export_comparison(number: int, folder: Path | None, database: str | None) -> None:
    """A comparison of two revisions, with every boot that was made for it."""
    with _sentences():
        _tell(_desk(folder, database)[0].comparison(number))


@export.command(
    "bisection", epilog="Example: netbisect export bisection 13 --folder /var/netbisect"
)
@click.argument("number", type=int)
@where_options
def export_bisection(number: int, folder: Path | None, database: str | None) -> None:
    """A search for a commit, with every step."""
    with _sentences():
        _tell(_desk(folder, database)[0].bisection(number))


@export.command(
    "series",
    epilog="Example: netbisect export series c2558 inet4-forwarding main --folder /var/netbisect",
)
@click.argument("testbed")
@click.argument("scenario")
@click.argument("branch")
@where_options
def export_series(
    testbed: str, scenario: str, branch: str, folder: Path | None, database: str | None
) -> None:
    """The levels of a scenario on a testbed along a branch."""
    with _sentences():
        _tell(_desk(folder, database)[0].series(SeriesName(testbed, scenario, branch)))


@export.command("status", epilog="Example: netbisect export status --folder /var/netbisect")
@click.option("--all", "everything", is_flag=True, help="Alerts that are over too.")
@where_options
def export_status(folder: Path | None, database: str | None, *, everything: bool) -> None:
    """What is asked of the lab, and which alerts stand."""
    with _sentences():
        _tell(_desk(folder, database)[0].status(everything=everything))


@export.command("health", epilog="Example: netbisect export health --folder /var/netbisect")
@where_options
def export_health(folder: Path | None, database: str | None) -> None:
    """What each series can show, and whether what was said was true."""
    with _sentences():
        desk, settings = _desk(folder, database)
        least = {"min_effect": settings.min_effect} if settings else {}
        _tell(telling.document(judge(desk.ledger, **least)))


@export.command("digest", epilog="Example: netbisect export digest --folder /var/netbisect")
@click.option("--days", "length", default=1, show_default=True, type=click.IntRange(1, 31))
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where netbisect.toml is (default: the current folder).",
)
def export_digest(folder: Path | None, length: int) -> None:
    """The last day, as its mail tells it, or the last few."""
    with _sentences():
        settings, lab = load((folder or Path()) / SETTINGS)
        ledger = ledger_of(settings)
        since = ledger.clock() - length * _DAY
        nights = ledger.nights_since(since)
        _tell(days.gather(ledger, settings, lab, nights, since))


@export.command("feed", epilog="Example: netbisect export feed > alerts.atom")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where netbisect.toml is (default: the current folder).",
)
def export_feed(folder: Path | None) -> None:
    """Alerts as an Atom feed; the service has it at plugins/netbisect/feed.atom."""
    with _sentences():
        click.echo(_desk(folder, None)[0].atom(), nl=False)


# ------------------------------------------------------------------------------------- samples


@click.command(
    epilog="Example: netbisect samples --csv --testbed c2558 --since 2026-03-01 > samples.csv"
)
@where_options
@click.option("--testbed", help="Only of this testbed.")
@click.option("--scenario", help="Only of this scenario.")
@click.option("--branch", help="Only of revisions on this branch.")
@click.option("--since", metavar="DAY", help="Only from this day on (2026-03-01, UTC).")
@click.option("--csv", "as_table", is_flag=True, help="As CSV, which is the default.")
def samples(
    folder: Path | None,
    database: str | None,
    testbed: str | None,
    scenario: str | None,
    branch: str | None,
    since: str | None,
    *,
    as_table: bool,
) -> None:
    """Write every run of a scenario as a row, valid or not, with its boot and its kernel."""
    del as_table
    with _sentences():
        ledger = _desk(folder, database)[0].ledger
        wanted = {"testbed": testbed, "scenario": scenario, "branch": branch}
        known = ledger.measured()
        for kind, name in wanted.items():
            if name is not None and name not in known[kind]:
                there = ", ".join(sorted(known[kind])[:6]) or "none at all"
                raise StoreError(f"there is no {kind} {name!r} with samples; there is {there}")
        for row in as_csv(ledger.samples(**wanted, since=_day(since))):
            click.echo(row, nl=False)


def _day(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise click.UsageError(
            f"--since {text}: a day such as 2026-03-01 would be right"
        ) from error


# -------------------------------------------------------------------------------------- schemas


@click.command(epilog="Example: netbisect schema alert > netbisect-alert-1.json")
@click.argument("name", required=False, type=click.Choice([*schemas.DOCUMENTS]))
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document; without NAME, which there are."""
    if name is None:
        for one in schemas.DOCUMENTS:
            click.echo(f"{one:<12} {schemas.schema(one)['title']}")
    else:
        click.echo(json.dumps(schemas.schema(name), indent=2))
