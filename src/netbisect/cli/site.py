"""`netbisect site`."""

from __future__ import annotations

from pathlib import Path

import click

from netbisect.reports.render import words
from netbisect.steps.queries.lab_context import LabContext
from netbisect.steps.service.options import database_options, settings_file
from netbisect.steps.service.settings import load
from netbisect.steps.site.folder import finish, replacing
from netbisect.store.db.database import StoreError, database_exists

_KILO = 1000


@click.command(epilog="Example: netbisect site /var/www/netbisect --folder /var/netbisect")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@database_options
@click.option(
    "--compare",
    "pair",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Add a page that compares two revisions; later runs keep it up to date.",
)
def site(
    out: Path, folder: Path | None, database: str | None, pair: tuple[str, str] | None
) -> None:
    """Write the database as a folder of web pages.

    The pages need no server and no JavaScript. The new folder replaces the old one when it is
    complete. A folder OUT that is not such a site is refused.
    """
    address, lab = _source(folder, database)
    from netbisect.steps.site.run import write  # noqa: PLC0415 - loads slowly

    with replacing(out) as (new, before):
        finish(new, write(address, lab, new, before.pairs, pair))
        sizes = [page.stat().st_size for page in new.glob("*.html")]
    click.echo(
        f"{out / 'index.html'}: {words.count(len(sizes), 'page')}, the largest of "
        f"{max(sizes) / _KILO:.0f} kB"
    )


def _source(folder: Path | None, database: str | None) -> tuple[str, LabContext]:
    """Address of the database, and its lab."""
    path = settings_file(folder, database)
    if database is None:
        settings, lab = load(path)
        return settings.database, LabContext(lab, settings)
    if not database_exists(database):
        raise StoreError(f"there is no database {database}")
    return database, LabContext()
