"""`netbisect report`: comparisons told in the forms that people publish."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from netbisect.reports import netbenches, words
from netbisect.reports.ministat import Variant
from netbisect.reports.netbenches import Scenario, Study
from netbisect.reports.student import CONFIDENCES
from netbisect.steps import flamegraph_command
from netbisect.steps import report_sources as sources
from netbisect.steps.options import database_option
from netbisect.workers.tomlfile import FileError

_STUDY = ".toml"
_VARIANTS = [one.value for one in Variant]


@click.group("report")
def report() -> None:
    """Write down what was measured, in the forms that people publish."""


report.add_command(flamegraph_command.command)


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
    help="A set and its values, one a line; the first is what the others are compared with.",
)
@click.option(
    "--revision",
    "revisions",
    metavar="REV",
    multiple=True,
    help="Of results, histories or the database: compare these, the first with the others.",
)
@click.option("--testbed", default="", help="Where results of several are there.")
@click.option("--branch", default="", help="Where a database has several.")
@click.option(
    "--scenario",
    "scenarios",
    metavar="NAME",
    multiple=True,
    help="With --set what the comparison is called; else only these.",
)
@database_option
@click.option("--title", help="First line of the README.")
@click.option(
    "--condition",
    "conditions",
    metavar="LINE",
    multiple=True,
    help="Hardware, FreeBSD or traffic: an item of the list below the title.",
)
@click.option(
    "--flame-graph",
    "flame_graphs",
    metavar="NAME=FILE",
    multiple=True,
    help="An SVG that is linked from the README and copied beside it.",
)
@click.option("--variant", type=click.Choice(_VARIANTS), help="ministat's; default is current.")
@click.option("--width", type=click.IntRange(2, 1000), help="Of ministat's plots; default is 74.")
@click.option(
    "--confidence",
    type=click.Choice([f"{level:g}" for level in CONFIDENCES]),
    help="In percent; default is 95.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["netbenches"]),
    default="netbenches",
    show_default=True,
    help="netbenches: README.md, box plot, and a .pps file for every set.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the files; it is made where it is not there.",
)
@click.option("--force", is_flag=True, help="Write over files that are there and differ.")
def compare(  # noqa: PLR0917 - click hands over every option
    source: Path | None,
    sets: tuple[str, ...],
    revisions: tuple[str, ...],
    testbed: str,
    branch: str,
    scenarios: tuple[str, ...],
    database: str,
    title: str | None,
    conditions: tuple[str, ...],
    flame_graphs: tuple[str, ...],
    variant: str | None,
    width: int | None,
    confidence: str | None,
    form: str,
    folder: Path,
    force: bool,
) -> None:
    """Compare images as a directory of results, ready to be committed.

    SOURCE is a study file (.toml) that names everything, a folder of netbenches' results, or a
    file of histories as JSON lines. Without it the values are those of --set, or of the database.
    """
    assert form == "netbenches"
    choice = sources.Choice(revisions, scenarios, testbed, branch)
    study = _study(source, sets, choice, database, title)
    study = replace(
        study,
        title=study.title if title is None else title,
        conditions=(*study.conditions, *conditions),
        flame_graphs=(
            *study.flame_graphs,
            *(
                sources.flame_graph_of(name, Path(file))
                for name, file in (_pair(one, "--flame-graph") for one in flame_graphs)
            ),
        ),
        variant=study.variant if variant is None else Variant(variant),
        width=study.width if width is None else width,
        confidence=study.confidence if confidence is None else float(confidence),
    )
    try:
        files = netbenches.files(study)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    _write(folder, files, force=force)
    click.echo(f"{folder}: README.md and {words.count(len(files) - 1, 'other file')}")


# ------------------------------------------------------------------------------------ the study


def _study(
    source: Path | None,
    sets: tuple[str, ...],
    choice: sources.Choice,
    database: str,
    title: str | None,
) -> Study:
    """What the source tells of the study."""
    is_study = source is not None and source.suffix == _STUDY
    if source is not None and sets:
        raise click.UsageError("SOURCE or --set: one of the two would be right")
    if (sets or is_study) and (choice.revisions or choice.testbed or choice.branch):
        raise click.UsageError(
            "--revision, --testbed and --branch choose among results; with a study file or --set "
            "the files say what is compared"
        )
    if source is not None and is_study:
        if choice.scenarios:
            raise click.UsageError("--scenario: a study file names its scenarios itself")
        return _of_file(source)
    if sets:
        return Study(title or "", [_of_sets(sets, choice.scenarios)])
    if source is not None:
        found = sources.of_results(source, _say)
    elif choice.revisions:
        found = sources.of_ledger(database)
    else:
        raise click.UsageError(
            "there is nothing to compare: a SOURCE, two --set NAME=FILE, or two --revision of "
            "the database would be right"
        )
    compared = sources.chosen(found, choice, _say)
    return Study(title or _title(compared.scenarios), compared.scenarios, compared.conditions)


def _of_file(path: Path) -> Study:
    try:
        told = sources.study_file(path)
    except FileError as error:
        raise click.ClickException(str(error)) from error
    if told.variant not in _VARIANTS:
        raise click.ClickException(
            f"{path}: variant: there is no {told.variant!r}; one of {', '.join(_VARIANTS)} would "
            "be right"
        )
    return Study(
        title=told.title,
        scenarios=sources.scenarios_of(told, path.parent),
        conditions=told.conditions,
        flame_graphs=[
            sources.flame_graph_of(name, path.parent / file)
            for name, file in told.flame_graphs.items()
        ],
        variant=Variant(told.variant),
        width=told.width,
        confidence=told.confidence,
    )


def _of_sets(sets: tuple[str, ...], names: tuple[str, ...]) -> Scenario:
    if len(names) > 1:
        raise click.UsageError(
            "--set makes one scenario, so --scenario names one; a study file can have several"
        )
    pairs = [_pair(one, "--set") for one in sets]
    name = names[0] if names else "forwarding"
    return Scenario(name, [sources.set_of(one, Path(file)) for one, file in pairs])


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise click.UsageError(f"{option} {text}: NAME=FILE would be right")
    return name, file


def _title(scenarios: Sequence[Scenario]) -> str:
    names = list(dict.fromkeys(one.name for scenario in scenarios for one in scenario.sets))
    return f"{words.listing(names[1:])} compared with {names[0]}"


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


# ------------------------------------------------------------------------------------ the files


def _write(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """All files or none: each is complete before the first takes its place."""
    new = not folder.exists()
    try:
        for name, content in files.items():
            path = folder / name
            if not force and path.exists() and path.read_bytes() != content:
                raise click.ClickException(
                    f"{path} is there already and differs; another folder, or --force to write "
                    "over it, would be right"
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
