"""Where the raw values of a comparison come from: files, results or a ledger."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from netbisect.reports.ministat import Variant
from netbisect.reports.ministat_input import read_points
from netbisect.reports.netbenches import FlameGraph, Scenario, Set
from netbisect.steps.detect_material import of_database
from netbisect.steps.memory import open_ledger
from netbisect.store import netbenches_files
from netbisect.store.netbenches_files import NetbenchesError, Parser
from netbisect.workers import pktgen
from netbisect.workers.tomlfile import load

_LIKE = 6
_SIZE = 10
"""Significant digits that survive a logarithm and its exponential."""


@dataclass(frozen=True, slots=True)
class StudyScenario:
    """A `[[scenario]]` of a study file."""

    name: str
    sets: dict[str, str]
    """From the names of sets to their files, in the order in which they are shown."""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A study file."""

    title: str
    scenario: tuple[StudyScenario, ...]
    conditions: tuple[str, ...] = ()
    flame_graphs: dict[str, str] = field(default_factory=dict)
    variant: str = Variant.CURRENT.value
    width: int = 74
    confidence: float = 95.0


@dataclass(frozen=True, slots=True)
class Found:
    """The boots of one image in one scenario, from results or a ledger."""

    testbed: str
    branch: str
    scenario: str
    revision: str
    label: str
    """What people call the revision."""
    pps: tuple[float, ...]
    about: tuple[str, ...] = ()
    """Under which conditions, a line each."""


# ---------------------------------------------------------------------------------------- files


def study_file(path: Path) -> StudyFile:
    """Reads a study file; names of files in it are relative to it.

    Raises:
        FileError: it is no such file.
    """
    return load(path, StudyFile)


def scenarios_of(study: StudyFile, folder: Path) -> tuple[Scenario, ...]:
    """The scenarios of a study file with the values of their files.

    Raises:
        click.ClickException: a file cannot be read.
    """
    return tuple(
        Scenario(
            one.name,
            [set_of(name, folder / file) for name, file in one.sets.items()],
            one.heading,
        )
        for one in study.scenario
    )


def set_of(name: str, path: Path) -> Set:
    """A set from a file with a value on every line, as ministat reads it.

    Raises:
        click.ClickException: it cannot be read, or holds no three values.
    """
    try:
        return Set(name, read_points(path.read_bytes(), str(path)), path.name)
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise click.ClickException(
            f"{error}; one rate in packets per second on every line would be right"
        ) from error


def flame_graph_of(name: str, path: Path) -> FlameGraph:
    """A flame graph from its file.

    Raises:
        click.ClickException: it cannot be read, or is no SVG.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix.lower() != ".svg" or b"<svg" not in content:
        raise click.ClickException(f"{path}: not an SVG, as flame graphs are")
    return FlameGraph(name, re.sub(r"[^A-Za-z0-9_.+-]+", "-", path.name), content)


# ----------------------------------------------------------------------- results and the ledger


def of_results(path: Path, say: Callable[[str], None]) -> list[Found]:
    """A folder of netbenches' results, or a file of histories.

    Raises:
        click.ClickException: it cannot be read, or nothing is there.
    """
    parser = Parser(pktgen.sample, pktgen.all_rates)
    found = []
    try:
        for image in netbenches_files.read(path, parser=parser, skip=say):
            boots = tuple(run.pps for run in image.runs if not run.problems)
            if len(boots) < len(image.runs):
                say(f"{image.origin}: {len(image.runs) - len(boots)} boots without a rate left out")
            name = image.revision.name
            about = (f"{name}: {image.version}",) if image.version else ()
            if boots:
                found.append(Found(image.testbed, "", image.scenario, name, name, boots, about))
    except NetbenchesError as error:
        raise click.ClickException(str(error)) from error
    if not found:
        raise click.ClickException(
            f"{path}: no results are there; .pps files or bench.*.receiver files named after "
            "their images, or histories as JSON lines, would be right"
        )
    return found


def of_ledger(address: str) -> list[Found]:
    """All that a database holds.

    Raises:
        click.ClickException: it cannot be read, or nothing is there.
    """
    material = of_database(address)
    ledger = open_ledger(address)
    found = []
    for name, levels in material.series.items():
        conditions = ledger.conditions(name.testbed, name.scenario)
        values = {} if conditions is None else conditions.values
        # The digest of a scenario's file differs between scenarios, and says nothing to people.
        about = tuple(
            f"{key.replace('_', ' ')}: {value}"
            for key, value in sorted(values.items())
            if key != "scenario"
        )
        for level in levels:
            pps = tuple(float(f"{math.exp(one):.{_SIZE}g}") for one in level.ln_pps)
            label = ledger.label(level.revision)
            found.append(
                Found(name.testbed, name.branch, name.scenario, level.revision, label, pps, about)
            )
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be compared of all that is there; "" or () for no choice."""

    revisions: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    testbed: str = ""
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """What was chosen."""

    scenarios: tuple[Scenario, ...]
    conditions: tuple[str, ...]
    """Testbed, branch, and all that is known of how it was measured, a line each."""


def chosen(found: Sequence[Found], choice: Choice, say: Callable[[str], None]) -> Compared:
    """Scenarios with the revisions side by side, the first of them in every one.

    Raises:
        click.ClickException: a name is wrong, or is missing where there are several.
    """
    found = _one(found, "testbed", choice.testbed)
    found = _one(found, "branch", choice.branch)
    known = list(dict.fromkeys(one.revision for one in found))
    revisions = [_revision(name, known) for name in choice.revisions] or known
    names = list(dict.fromkeys(one.scenario for one in found))
    for name in choice.scenarios:
        if name not in names:
            raise click.ClickException(f"there is no scenario {name!r}{_instead(name, names)}")
    used: list[Found] = []
    scenarios = []
    for name in choice.scenarios or sorted(names):
        its = _of_scenario(found, name, say)
        images = [its[revision] for revision in revisions if revision in its]
        if len(images) > 1 and revisions[0] in its:
            used += images
            sets = [Set(one.label, one.pps, f"{one.label}.{name}") for one in images]
            scenarios.append(Scenario(name, sets))
        else:
            both = " and ".join(revisions[:2])
            say(f"{name} is left out: it was not measured with {both}")
    if not scenarios:
        raise click.ClickException(
            f"no scenario was measured with {revisions[0]} and another revision, so that there "
            "is nothing to compare"
        )
    return Compared(tuple(scenarios), _conditions(used))


def _of_scenario(
    found: Iterable[Found], scenario: str, say: Callable[[str], None]
) -> dict[str, Found]:
    """By revision, the images of a scenario; of several the one with the most boots."""
    its: dict[str, Found] = {}
    for one in found:
        if one.scenario != scenario:
            continue
        held = its.get(one.revision)
        if held is not None:
            say(
                f"{scenario}: {one.label} has several kernels; the one with the most boots is "
                "compared"
            )
        if held is None or len(one.pps) > len(held.pps):
            its[one.revision] = one
    return its


def _conditions(used: Sequence[Found]) -> tuple[str, ...]:
    first = used[0]
    lines = [f"testbed {first.testbed}"]
    if first.branch:
        lines.append(f"branch {first.branch}")
    lines += [line for one in used for line in one.about]
    return tuple(dict.fromkeys(lines))


def _one(found: Sequence[Found], kind: str, wanted: str) -> list[Found]:
    names = list(dict.fromkeys(getattr(one, kind) for one in found))
    if not wanted and len(names) > 1:
        shown = ", ".join(names[:_LIKE]) + (" and more" if len(names) > _LIKE else "")
        plural = {"testbed": "testbeds", "branch": "branches"}[kind]
        raise click.ClickException(
            f"there are results of {len(names)} {plural}; --{kind} with one of them would be "
            f"right: {shown}"
        )
    if wanted and wanted not in names:
        raise click.ClickException(f"there is no {kind} {wanted!r}{_instead(wanted, names)}")
    return [one for one in found if getattr(one, kind) == (wanted or names[0])]


def _revision(name: str, known: Sequence[str]) -> str:
    for wanted in (name, f"r{name}"):
        if wanted in known:
            return wanted
    like = [one for one in known if one.startswith(name)]
    if len(like) == 1:
        return like[0]
    if like:
        raise click.ClickException(f"{name} is the beginning of {', '.join(like[:_LIKE])}")
    raise click.ClickException(f"there is no revision {name!r}{_instead(name, known)}")


def _instead(name: str, known: Iterable[str]) -> str:
    names = [one for one in known if one]
    like = difflib.get_close_matches(name, names, n=_LIKE) or names[:_LIKE]
    return f"; there is {', '.join(like)}" if like else " at all"
