"""`netbisect site`: everything that is known, as a folder of pages."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path

import click

from netbisect.reports import words
from netbisect.steps.settings import SETTINGS, load
from netbisect.steps.site_files import RevisionError, SiteError, opened
from netbisect.steps.site_source import Source, unchanged
from netbisect.store.database import StoreError, is_there
from netbisect.workers.tomlfile import FileError

_KILO = 1000


@click.command(epilog="Example: netbisect site /var/www/netbisect --folder /var/netbisect")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where netbisect.toml is (default: the current folder).",
)
@click.option("--database", metavar="ADDRESS", help="SQLAlchemy address, instead of the folder's.")
@click.option(
    "--compare",
    "pair",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Two revisions that get a page of their own, which later runs keep up to date.",
)
@click.option("--full", is_flag=True, help="Make every page anew, not only what has changed.")
def site(
    out: Path,
    folder: Path | None,
    database: str | None,
    pair: tuple[str, str] | None,
    *,
    full: bool,
) -> None:
    """Write all that is known as a folder of pages, or bring that up to date.

    The pages need no server and no JavaScript: they can be looked at where they are, or copied
    anywhere. What is in OUT and was not written by this command is refused.
    """
    if folder is not None and database is not None:
        raise click.UsageError("--folder or --database: one of the two would be right")
    try:
        source = _source(folder, database)
        with opened(out) as found:
            done = None if full or pair is not None else unchanged(found, source)
            if done is None:
                # What draws takes seconds to import, and is not needed where nothing is new.
                # To look for garbage meanwhile would take a fifth of them, and there is none.
                gc.disable()
                run = import_module("netbisect.steps.site_run").run
                gc.enable()
                done = run(found, source, pair, full=full)
    except (FileError, StoreError, SiteError, RevisionError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{out / 'index.html'}: {words.count(done.pages, 'page')}, the largest of "
        f"{done.largest / _KILO:.0f} kB; of all files, {done.written} written, "
        f"{done.removed} removed"
    )


def _source(folder: Path | None, database: str | None) -> Source:
    """Where the site comes from; of a database alone, without what the lab's files say."""
    if database is None:
        settings, lab = load((folder or Path()) / SETTINGS)
        link = settings.links.commit
        return Source(settings.database, link, lab, settings.min_effect, settings)
    if not is_there(database):
        raise click.ClickException(
            f"there is no database {database}; another --database would be right"
        )
    return Source(database)
