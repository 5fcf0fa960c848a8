"""`netbisect detect`."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import click
from click.core import ParameterSource

from netbisect.bisect.detection import events
from netbisect.bisect.detection.events import ShiftEvent
from netbisect.bisect.model.entities import SeriesName
from netbisect.bisect.model.metric import METRIC_MARK
from netbisect.cli.input import suggestion, without_number
from netbisect.cli.input.detection import DetectionInput, of_database, of_files
from netbisect.cli.listing import json_option, print_json
from netbisect.reports.console import events as console
from netbisect.reports.model.types import short_hash
from netbisect.reports.render import words
from netbisect.steps.service.options import database_option

_NUMBERED = re.compile(r"([a-z]?)(\d+)")
_File = click.Path(exists=True, allow_dash=True)


@click.command(epilog="Example: netbisect detect --series 'apu2/inet4-*' --since r303643 --json")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_File)
@database_option
@click.option(
    "--series",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Only these series, TESTBED/SCENARIO/BRANCH or a prefix of it; * matches anything. "
    "May be repeated.",
)
@click.option(
    "--since",
    metavar="WHEN",
    help="Only events since this revision or day (2026-03-01).",
)
@click.option(
    "--min-effect",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, 100, max_open=True),
    help="Smallest change listed, in percent.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every series of every event, with reasons."
)
@json_option
def detect(
    files: tuple[str, ...],
    database: str,
    patterns: tuple[str, ...],
    since: str | None,
    min_effect: float,
    verbose: bool,
    as_json: bool,
) -> None:
    """Detect changes of level in a database or in files.

    FILE contains histories as JSON, or measurements of any metric as CSV or JSON (lines, or one
    array), or is a results folder of asv; `-` is standard input. The default is the database. The
    exit status is 1 if a line could not be read.

    Series that changed together form one event, between the last measured revision before it and
    the first after it.
    """
    source = click.get_current_context().get_parameter_source("database")
    if files and source is not ParameterSource.DEFAULT:
        raise click.UsageError("FILE and --database are mutually exclusive")
    data = of_files(files) if files else of_database(database)
    for sentence in (*data.errors, *data.notes):
        click.echo(sentence, err=True)
    chosen = _chosen(data.series, patterns)
    # As the smallest gain, which is closer to 0 than the smallest loss on the logarithmic scale.
    found = _events(data, chosen, math.log1p(min_effect / 100))
    if since is not None:
        found = _since(found, since, data)
    found = [shown for event in found for shown in _of_size(events.in_units(event), min_effect)]
    if as_json:
        print_json(console.as_data(found))
    elif found:
        click.echo(console.full(found) if verbose else console.as_table(found))
    else:
        click.echo(f"No change of level of {min_effect:g} % or more found.")
    sys.exit(1 if data.errors else 0)


def _chosen(known: Collection[SeriesName], patterns: Sequence[str]) -> set[SeriesName]:
    found = set() if patterns else set(known)
    for pattern in patterns:
        ends = ("", "/*", ".*" if METRIC_MARK in pattern else f"{METRIC_MARK}*")
        like = {one for one in known if any(fnmatchcase(one.title, pattern + end) for end in ends)}
        if not like:
            raise click.ClickException(
                f"there is no series {pattern!r}{suggestion(pattern, (one.title for one in known))}"
            )
        found |= like
    return found


def _events(data: DetectionInput, chosen: set[SeriesName], min_effect: float) -> list[ShiftEvent]:
    """Events of the chosen series, detected among all series."""
    found: list[ShiftEvent] = []
    for branch in dict.fromkeys(name.branch for name in data.series):
        series = {name: levels for name, levels in data.series.items() if name.branch == branch}
        shifts = events.find_shifts(series, min_effect)
        shown = [shift for name, own in shifts.items() if name in chosen for shift in own]
        found += events.group_shifts(branch, shown, data.order.get(branch, {}))
    return events.deduplicate(found)


def _of_size(event: ShiftEvent, percent: float) -> Iterator[ShiftEvent]:
    """The event with its shifts of this size or more, in the units measured, if there are any."""
    shifts = [one for one in event.shifts if abs(100 * math.expm1(one.ln_ratio)) >= percent]
    if shifts:
        yield replace(event, shifts=tuple(shifts))


def _since(found: Sequence[ShiftEvent], since: str, data: DetectionInput) -> list[ShiftEvent]:
    day = _day(since)
    if day is not None:
        return _from_day(found, day, since, data)
    numbers = {
        branch: number
        for branch, order in data.order.items()
        if (number := _number(since, order)) is not None
    }
    if not numbers:
        known = next(iter(next(iter(data.order.values()), {})), "r303643")
        raise click.ClickException(
            f"--since {since}: no such revision was measured; expected one such as "
            f"{short_hash(known)}, or a day such as 2026-03-01"
        )
    for branch in dict.fromkeys(event.branch for event in found):
        if branch not in numbers:
            click.echo(
                f"{since} is not a revision of {branch}: all its events are listed", err=True
            )
    return [
        event
        for event in found
        if data.order[event.branch][event.at] >= numbers.get(event.branch, 0)
    ]


def _number(revision: str, order: Mapping[str, int]) -> int | None:
    """Position of a revision; a numbered one need not be measured itself."""
    revision = without_number(revision, order)
    like = [name for name in order if name.startswith(revision)]
    if revision in order or len(like) == 1:
        return order[revision if revision in order else like[0]]
    numbered = _NUMBERED.fullmatch(revision)
    if numbered is None:
        return None
    letter, number = numbered[1] or "r", int(numbered[2])
    if any(order[name] == int(name[1:]) for name in order if re.fullmatch(rf"{letter}\d+", name)):
        return number
    return None


def _day(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _from_day(
    found: Sequence[ShiftEvent], day: float, since: str, data: DetectionInput
) -> list[ShiftEvent]:
    measured = {
        (name.branch, level.revision): level.at
        for name, levels in data.series.items()
        for level in levels
    }
    times = [measured[event.branch, event.at] for event in found]
    if unknown := sum(at < words.FIRST_TIME for at in times):
        click.echo(
            f"{words.count(unknown, 'event')} without a time left out; expected a revision instead "
            f"of {since}",
            err=True,
        )
    first = max(day, words.FIRST_TIME)
    return [event for event, at in zip(found, times, strict=True) if at >= first]
