"""`netbisect import`."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import click

from netbisect.bisect.model.metric import metric_of, scenario_of
from netbisect.cli.input.detection import read_measurements
from netbisect.cli.input.measurements import Measurements
from netbisect.reports.render import words
from netbisect.steps.service.options import database_option
from netbisect.store.ledger import Ledger, open_ledger
from netbisect.store.netbenches import importer
from netbisect.store.netbenches.files import Parser
from netbisect.store.netbenches.importer import ImportSummary
from netbisect.workers.measure import pktgen


@click.group("import", epilog="Example: netbisect import measurements ci.csv")
def import_group() -> None:
    """Import measurements made elsewhere."""


@import_group.command(
    "netbenches", epilog="Example: netbisect import netbenches results/fbsd12-head.iflib"
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@database_option
def import_netbenches(path: Path, database: str) -> None:
    """Import a history file or a folder of netbenches results.

    From a folder, `.pps` files and raw `bench.*.receiver` files are read. The rate of a raw file is
    the median of the receiver's seconds, by the netbenches rule.
    """
    parser = Parser(pktgen.median_rate, pktgen.all_rates)
    _report(importer.import_into(partial(open_ledger, database), path, parser=parser))


@import_group.command(
    "measurements",
    short_help="Import CSV, JSON, or a results folder of asv.",
    epilog="Example: netbisect import measurements ci.csv",
)
@click.argument("path", type=click.Path(exists=True, allow_dash=True))
@database_option
def import_measurements(path: str, database: str) -> None:
    """Import measurements of any metric: CSV, JSON, or a results folder of asv.

    The columns are those of `netbisect detect`; `-` is standard input. Nothing is imported if a
    row is invalid. Rows that were imported before are not added again.
    """
    measurements = read_measurements(path)
    if measurements.refused:
        raise click.ClickException("\n".join([*measurements.refused, "nothing was imported"]))
    for sentence in measurements.doubtful():
        click.echo(sentence, err=True)
    ledger = open_ledger(database)
    _check_metrics(ledger, measurements)
    known = ledger.commits.numbers()
    numbers = {
        branch: _numbers(ledger, branch, order, known.get(branch, {}))
        for branch, order in measurements.order.items()
    }
    summary = importer.record(ledger, measurements.images(numbers))
    if summary.known:
        summary.skipped += _contradictions(ledger, measurements)
    _report(summary)


def _check_metrics(ledger: Ledger, measurements: Measurements) -> None:
    """Refuses a metric with another unit or direction than in an earlier import."""
    stored = defaultdict[tuple[str, str], set[str]](set)
    for one in ledger.series.names():
        stored[scenario_of(one.scenario), metric_of(one.scenario).name].add(one.scenario)
    for name in measurements.series():
        known = stored.get((scenario_of(name.scenario), metric_of(name.scenario).name))
        if known and name.scenario not in known:
            raise click.ClickException(
                f"{name.scenario}: an earlier import has {min(known)}; expected the same unit and "
                "direction"
            )


def _contradictions(ledger: Ledger, measurements: Measurements) -> Iterator[str]:
    """Messages about rows that contradict an earlier import."""
    for name, levels in measurements.series().items():
        stored = ledger.series.levels(name.testbed, name.scenario, name.branch)
        values = {level.revision: Counter(level.ln_pps) for level in stored}
        for level in levels:
            others = Counter(level.ln_pps) - values.get(level.revision, Counter())
            if count := others.total():
                yield (
                    f"{words.count(count, 'row')} of {level.revision} in {name.title}: an earlier "
                    "import has other values"
                )


def _numbers(
    ledger: Ledger, branch: str, revisions: Iterable[str], known: Mapping[str, int]
) -> dict[str, int]:
    """Positions of revisions: new ones follow the known ones."""
    newest = ledger.commits.newest(branch)
    commit = ledger.commits.get(newest) if newest else None
    if commit and commit.author:
        raise click.ClickException(
            f"branch {branch!r} is watched in this database; expected another name in the column "
            "branch"
        )
    following = itertools.count(max(known.values(), default=0) + 1)
    numbers = {one: known.get(one) or next(following) for one in revisions}
    for before, after in itertools.pairwise(numbers):
        if numbers[before] > numbers[after]:
            raise click.ClickException(
                f"{before} is before {after}, but after it in an earlier import; expected new "
                "revisions at the end, or a new database"
            )
    return numbers


def _report(summary: ImportSummary) -> None:
    click.echo(
        f"{summary.series:,} series; {words.count(summary.boots, 'boot')} and "
        f"{words.count(summary.samples, 'sample')} are new, {summary.known:,} were known"
    )
    for reason in summary.skipped:
        click.echo(f"left out: {reason}", err=True)
