"""The input of `netbisect detect`: the series of a database or of history files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from netbisect.bisect.model.entities import Level
from netbisect.steps.service.database_thread import open_ledger
from netbisect.store.db.database import StoreError, database_exists
from netbisect.store.netbenches.histories import Histories, few_boots
from netbisect.store.repositories.lookup import SeriesName


@dataclass(frozen=True, slots=True)
class DetectionInput:
    """Series to examine."""

    series: Mapping[SeriesName, Sequence[Level]]
    order: Mapping[str, Mapping[str, int]]
    """Positions of revisions by branch."""
    notes: Sequence[str]
    """Series left out, with reasons."""
    errors: Sequence[str]
    """Lines that could not be read."""


def of_files(files: Sequence[str]) -> DetectionInput:
    """The series of files of histories; `-` is standard input.

    Raises:
        click.ClickException: A file cannot be read, or no file contains a history.
    """
    histories = Histories()
    for name in files:
        try:
            with click.open_file(name, encoding="utf-8-sig", errors="replace") as stream:
                histories.take(stream, "standard input" if name == "-" else name)
        except OSError as error:
            raise click.ClickException(f"{name}: {error.strerror}") from error
    series = histories.series()
    if not series:
        for sentence in (*histories.refused, *histories.remarks()):
            click.echo(sentence, err=True)
        raise click.ClickException(
            f"{', '.join(files)}: no history found; expected JSON lines with hw, nic, dir, cfg, "
            "pktgen and points"
        )
    notes = [
        *histories.remarks(),
        *few_boots(series),
        "history files contain no times: slow drift is not searched",
    ]
    return DetectionInput(series, histories.numbers(), notes, histories.refused)


def of_database(address: str) -> DetectionInput:
    """The series of a database.

    Raises:
        click.ClickException: It does not exist, cannot be used, or has no measurements.
    """
    try:
        if not database_exists(address):
            raise click.ClickException(
                f"there is no database {address}; expected a FILE of histories or --database"
            )
        ledger = open_ledger(address)
        series = {
            name: ledger.series(name.testbed, name.scenario, name.branch)
            for name in ledger.known_series()
        }
        series = {name: levels for name, levels in series.items() if levels}
        if not series:
            raise click.ClickException(f"no measurements in the database {address}")
        return DetectionInput(
            series, ledger.numbers(), [*ledger.excluded(), *few_boots(series)], ()
        )
    except StoreError as error:
        raise click.ClickException(str(error)) from error
