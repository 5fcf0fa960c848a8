"""`netbisect detect`: what happened to the level of each series, over a database or files."""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import click
from click.core import ParameterSource

from netbisect.bisect import events as core
from netbisect.bisect.events import Event, Place
from netbisect.reports import events as telling
from netbisect.reports import words
from netbisect.steps.detect_material import Material, of_database, of_files
from netbisect.steps.options import database_option
from netbisect.store.lookup import SeriesName

_LIKE = 6
"""Names that are offered for one that is not there."""
_TIMES = 1e9
"""Seconds since the epoch from which on they are times: imported levels have numbers there."""
_NUMBERED = re.compile(r"([a-z]?)(\d+)")
_File = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.command(epilog="Example: netbisect detect --series 'apu2/inet4-*' --since r303643 --json")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_File)
@database_option
@click.option(
    "--series",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Only these, as TESTBED/SCENARIO/BRANCH or the beginning of it; * stands for anything. "
    "More than one may be given.",
)
@click.option("--testbed", help="Only this testbed.")
@click.option("--scenario", help="Only this scenario.")
@click.option("--branch", help="Only this branch.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only events that came with this revision or later, or on this day or later (2026-03-01).",
)
@click.option(
    "--min-effect",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, 100, max_open=True),
    help="Smallest change listed, in percent.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every series of every event, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def detect(  # noqa: PLR0917 - click hands over every option
    files: tuple[str, ...],
    database: str,
    patterns: tuple[str, ...],
    testbed: str | None,
    scenario: str | None,
    branch: str | None,
    since: str | None,
    min_effect: float,
    verbose: bool,
    as_json: bool,
) -> None:
    """List the shifts of level in a database or in history files, each event once.

    Drops, improvements and drift.

    FILE has histories as JSON lines, `-` is standard input; without one the series of the
    database are looked at. What takes no part is said on standard error, and when a line could
    not be read the exit status is 1.

    An event names the last revision that was measured before it, and the first after it; which
    commit between the two made it is for a bisection to find.
    """
    source = click.get_current_context().get_parameter_source("database")
    if files and source is not ParameterSource.DEFAULT:
        raise click.UsageError("a FILE or --database: one of the two would be right")
    material = of_files(files) if files else of_database(database)
    for sentence in (*material.refused, *material.said):
        click.echo(sentence, err=True)
    exact = {"testbed": testbed, "scenario": scenario, "branch": branch}
    chosen = _chosen(material.series, patterns, exact)
    found = _events(material, chosen, -math.log1p(-min_effect / 100))
    if since is not None:
        found = _since(found, since, material)
    if as_json:
        click.echo(json.dumps(telling.as_data(found), indent=2))
    elif found:
        click.echo(telling.full(found) if verbose else telling.as_table(found))
    else:
        click.echo("No shift of level was found.")
    sys.exit(1 if material.refused else 0)


# ------------------------------------------------------------------------------------ the series


def _title(name: SeriesName) -> str:
    return f"{name.testbed}/{name.scenario}/{name.branch}"


def _chosen(
    series: Iterable[SeriesName], patterns: Sequence[str], exact: Mapping[str, str | None]
) -> set[SeriesName]:
    known = list(series)
    for kind, wanted in exact.items():
        _check_known(kind, wanted, [getattr(one, kind) for one in known])
    for pattern in patterns:
        if not any(_matches(one, pattern) for one in known):
            raise click.ClickException(
                f"there is no series {pattern!r}{_instead(pattern, map(_title, known))}"
            )
    return {
        one
        for one in known
        if all(wanted in (None, getattr(one, kind)) for kind, wanted in exact.items())
        and (not patterns or any(_matches(one, pattern) for pattern in patterns))
    }


def _matches(name: SeriesName, pattern: str) -> bool:
    title = _title(name)
    return fnmatchcase(title, pattern) or fnmatchcase(title, f"{pattern}/*")


def _check_known(kind: str, name: str | None, known: Iterable[str]) -> None:
    names = list(known)
    if name is not None and name not in names:
        raise click.ClickException(
            f"there is no {kind} {name!r} with measurements{_instead(name, names)}"
        )


def _instead(name: str, known: Iterable[str]) -> str:
    names = list(dict.fromkeys(known))
    like = difflib.get_close_matches(name, names, n=_LIKE) or names[:_LIKE]
    return f"; there is {', '.join(like)}" if like else " at all"


# ------------------------------------------------------------------------------------ the events


def _events(material: Material, chosen: set[SeriesName], min_effect: float) -> list[Event]:
    """Every series is looked at, so that what is shown does not depend on what is chosen."""
    found: list[Event] = []
    for branch in dict.fromkeys(name.branch for name in material.series):
        places = {
            Place(name.testbed, name.scenario): levels
            for name, levels in material.series.items()
            if name.branch == branch
        }
        shifts = core.shifts(places, min_effect)
        shown = [
            shift
            for place, of_place in shifts.items()
            if SeriesName(place.testbed, place.scenario, branch) in chosen
            for shift in of_place
        ]
        found += core.events(branch, shown, material.order.get(branch, {}))
    return core.each_once(found)


def _since(found: Sequence[Event], since: str, material: Material) -> list[Event]:
    day = _day(since)
    if day is not None:
        return list(_from_day(found, day, since, material))
    numbers = {
        branch: number
        for branch, order in material.order.items()
        if (number := _number(since, order)) is not None
    }
    if not numbers:
        raise click.ClickException(
            f"--since {since}: no revision with this name was measured; one that was, such as "
            f"{next(iter(next(iter(material.order.values()), {})), 'r303643')}, or a day such as "
            "2026-03-01 would be right"
        )
    for branch in dict.fromkeys(event.branch for event in found):
        if branch not in numbers:
            click.echo(f"{since} is no revision of {branch}: all its events are listed", err=True)
    return [
        event
        for event in found
        if material.order[event.branch][event.at] >= numbers.get(event.branch, 0)
    ]


def _number(revision: str, order: Mapping[str, int]) -> int | None:
    """The place of a revision; of a numbered one also where it was not measured itself."""
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
    found: Iterable[Event], day: float, since: str, material: Material
) -> Iterator[Event]:
    measured = {
        (name.branch, level.revision): level.at
        for name, levels in material.series.items()
        for level in levels
    }
    unknown = 0
    for event in found:
        at = measured[event.branch, event.at]
        if at < _TIMES:
            unknown += 1
        elif at >= day:
            yield event
    if unknown:
        click.echo(
            f"{words.count(unknown, 'event')} left out, for when their images were measured is "
            f"not told; a revision instead of {since} would be right",
            err=True,
        )
