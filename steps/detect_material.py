"""What `netbisect detect` looks at: the series of a database, or of files of histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from netbisect.bisect.model import Level
from netbisect.steps.memory import open_ledger
from netbisect.store.database import StoreError, is_there
from netbisect.store.histories import Histories, few_boots
from netbisect.store.lookup import SeriesName


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to look at."""

    series: Mapping[SeriesName, Sequence[Level]]
    order: Mapping[str, Mapping[str, int]]
    """By branch: the place of every revision."""
    said: Sequence[str]
    """What takes no part, and why."""
    refused: Sequence[str]
    """What could not be read."""


def of_files(files: Sequence[str]) -> Material:
    """The series of files of histories; `-` is standard input.

    Raises:
        click.ClickException: a file cannot be read, or there is no history in any.
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
            f"{', '.join(files)}: no history is there; JSON lines with hw, nic, dir, cfg, pktgen "
            "and points would be right"
        )
    said = [
        *histories.remarks(),
        *few_boots(series),
        "history files tell no times, so that slow drift is not looked for",
    ]
    return Material(series, histories.numbers(), said, histories.refused)


def of_database(address: str) -> Material:
    """The series of a database.

    Raises:
        click.ClickException: it is not there, it cannot be used, or nothing was measured yet.
    """
    try:
        if not is_there(address):
            raise click.ClickException(
                f"there is no database {address}; a FILE of histories, or another --database "
                "would be right"
            )
        ledger = open_ledger(address)
        series = {
            name: ledger.series(name.testbed, name.scenario, name.branch)
            for name in ledger.known_series()
        }
        series = {name: levels for name, levels in series.items() if levels}
        if not series:
            raise click.ClickException(f"nothing was measured yet in the database {address}")
        return Material(series, ledger.numbers(), [*ledger.left_out(), *few_boots(series)], ())
    except StoreError as error:
        raise click.ClickException(str(error)) from error
