"""`netbisect report`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from netbisect.bisect.model import profile_stacks
from netbisect.cli.input import comparison
from netbisect.reports.documents import netbenches
from netbisect.reports.documents.netbenches_study import Study
from netbisect.reports.model.compared import ComparedScenario
from netbisect.reports.plots import flamegraph
from netbisect.reports.render import words
from netbisect.reports.render.ministat import Variant
from netbisect.reports.render.student_t import CONFIDENCES
from netbisect.steps.service.options import database_option

_STUDY = ".toml"
_MAX_PROFILE_BYTES = 256 << 20
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("report", epilog="Example: netbisect report flamegraph before.folded -o before.svg")
def report() -> None:
    """Write comparisons for publication."""


@report.command(
    "flamegraph",
    short_help="Draw the flame graph of a profile, or of the change between two.",
    epilog="Example: netbisect report flamegraph parent.folded culprit.folded -o changed.svg",
)
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE, required=False)
@click.option("--title", help="Title (default: the names of the files).")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The SVG file.",
)
def flamegraph_command(before: Path, after: Path | None, title: str | None, output: Path) -> None:
    """Draw the flame graph of a profile, or the differential flame graph of two.

    The files contain folded stacks, lines such as `outer;inner 12`, or the callgraph of
    `pmcstat -G`. The SVG needs no script; tooltips name the functions.
    """
    profiles = [_read_profile(path) for path in (before, after) if path is not None]
    name = before.name if after is None else f"{before.name} and {after.name}"
    drawing = flamegraph.draw(profiles, name="flame", title=title or name)
    output.write_bytes(flamegraph.document(drawing))
    counts = " and ".join(words.count(profile_stacks.total(one), "sample") for one in profiles)
    click.echo(f"{output}: {counts}")


def _read_profile(path: Path) -> dict[profile_stacks.Stack, int]:
    try:
        if path.stat().st_size > _MAX_PROFILE_BYTES:
            raise click.ClickException(
                f"{path}: {path.stat().st_size >> 20} MiB, expected at most "
                f"{_MAX_PROFILE_BYTES >> 20} MiB"
            )
        return profile_stacks.parse(path.read_text(encoding="utf-8", errors="replace"))
    except profile_stacks.StacksError as error:
        raise click.ClickException(f"{path}: {error}") from error


@report.command(
    epilog="Example: netbisect report compare --set r311848=old.pps --set r311849=new.pps "
    "--scenario forwarding --title 'Impact of IFLIB on forwarding' -o fbsd12-head.iflib"
)
@click.argument("source", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--set",
    "sets",
    metavar="NAME=FILE",
    multiple=True,
    help="A set and the file of its values, one per line; the first is the reference.",
)
@click.option(
    "--revision",
    "revisions",
    metavar="REV",
    multiple=True,
    help="Revision of results, histories or the database; the first is the reference.",
)
@click.option("--testbed", default="", help="Testbed, required if there are several.")
@click.option("--branch", default="", help="Branch, required if there are several.")
@click.option(
    "--scenario",
    "scenarios",
    metavar="NAME",
    multiple=True,
    help="Only these scenarios; with --set, the name of the comparison.",
)
@database_option
@click.option("--title", help="First line of the README.")
@click.option(
    "--condition",
    "conditions",
    metavar="LINE",
    multiple=True,
    help="Item of the list of conditions: hardware, FreeBSD, traffic.",
)
@click.option(
    "--flame-graph",
    "flame_graphs",
    metavar="NAME=FILE",
    multiple=True,
    help="SVG file to copy and to link from the README.",
)
@click.option(
    "--variant",
    type=click.Choice([one.value for one in Variant]),
    callback=lambda _, __, value: value and Variant(value),
    help="Version of ministat (default: current).",
)
@click.option(
    "--width", type=click.IntRange(2, 1000), help="Width of the plots of ministat (default: 74)."
)
@click.option(
    "--confidence",
    type=click.Choice([f"{level:g}" for level in CONFIDENCES]),
    callback=lambda _, __, value: value and float(value),
    help="Confidence in percent (default: 95).",
)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def compare(
    source: Path | None,
    sets: tuple[str, ...],
    conditions: tuple[str, ...],
    flame_graphs: tuple[str, ...],
    database: str,
    folder: Path,
    *,
    force: bool,
    **options: Any,
) -> None:
    """Write a comparison as a folder of results, as in netbenches.

    The folder has a README.md, a box plot, and a .pps file for every set.

    SOURCE is a study file (.toml), a folder of netbenches results, or a file of histories as JSON
    lines. Without SOURCE, the values are those of --set, or of the database. For a single revision,
    the scenarios are compared with each other, those with tunables with the scenario without.
    """
    style = {name: options.pop(name) for name in ("title", "variant", "width", "confidence")}
    study = _study(source, sets, comparison.Choice(**options), database)
    pairs = [_pair(one, "--flame-graph") for one in flame_graphs]
    graphs = (comparison.flame_graph_of(name, file) for name, file in pairs)
    study = replace(
        study,
        conditions=(*study.conditions, *conditions),
        flame_graphs=(*study.flame_graphs, *graphs),
        **{name: value for name, value in style.items() if value is not None},
    )
    try:
        files = netbenches.files(study)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    _write(folder, files, force=force)
    click.echo(f"{folder}: README.md and {words.count(len(files) - 1, 'other file')}")


def _study(
    source: Path | None, sets: tuple[str, ...], choice: comparison.Choice, database: str
) -> Study:
    is_study = source is not None and source.suffix == _STUDY
    if source is not None and sets:
        raise click.UsageError("SOURCE and --set are mutually exclusive")
    if (sets or is_study) and (choice.revisions or choice.testbed or choice.branch):
        raise click.UsageError(
            "--revision, --testbed and --branch do not apply to a study file or to --set"
        )
    if source is not None and is_study:
        if choice.scenarios:
            raise click.UsageError("--scenario does not apply to a study file")
        return comparison.of_study_file(source)
    if sets:
        return Study("", [_of_sets(sets, choice.scenarios)])
    if source is not None:
        found = comparison.of_results(source, _warn)
    elif choice.revisions:
        found = comparison.of_ledger(database)
    else:
        raise click.UsageError(
            "nothing to compare; expected SOURCE, two --set NAME=FILE, or a --revision of the "
            "database"
        )
    compared = comparison.chosen(found, choice, _warn)
    names = [one.name for scenario in compared.scenarios for one in scenario.sets]
    first, *others = dict.fromkeys(names)
    return replace(compared, title=f"{words.listing(others)} compared with {first}")


def _of_sets(sets: tuple[str, ...], names: tuple[str, ...]) -> ComparedScenario:
    if len(names) > 1:
        raise click.UsageError("--set makes one scenario; a study file can have several")
    pairs = [_pair(one, "--set") for one in sets]
    name = names[0] if names else "forwarding"
    return ComparedScenario(name, [comparison.set_of(one, file) for one, file in pairs])


def _pair(text: str, option: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise click.UsageError(f"{option} {text}: expected NAME=FILE")
    return name, Path(file)


def _warn(sentence: str) -> None:
    click.echo(sentence, err=True)


def _write(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """Writes all files or none."""
    new = not folder.exists()
    try:
        for name, content in files.items():
            path = folder / name
            if not force and path.exists() and path.read_bytes() != content:
                raise click.ClickException(
                    f"{path} exists and differs; expected another folder, or --force"
                )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as waiting:
            for name, content in files.items():
                Path(waiting, name).write_bytes(content)
            for name in files:
                Path(waiting, name).replace(folder / name)
    except OSError as error:
        if new:
            with suppress(OSError):
                folder.rmdir()
        raise click.ClickException(
            f"{error.filename or folder}: cannot be written: {os.strerror(error.errno or 0)}"
        ) from error
