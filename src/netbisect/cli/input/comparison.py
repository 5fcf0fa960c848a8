"""The raw values of a comparison: from files, results or a ledger."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import click

from netbisect.bisect.model.metric import metric_of, split_settings
from netbisect.cli.input import MAX_SUGGESTIONS, suggestion, without_number
from netbisect.cli.input.detection import of_database
from netbisect.reports.documents.netbenches_study import FlameGraph, Study
from netbisect.reports.model.compared import ComparedScenario, Set
from netbisect.reports.model.types import short_hash
from netbisect.reports.render.ministat import Variant
from netbisect.reports.render.ministat_input import read_points
from netbisect.store.ledger import open_ledger
from netbisect.store.netbenches import files
from netbisect.store.netbenches.files import Parser
from netbisect.workers.config.toml import load
from netbisect.workers.measure import pktgen

_DIGITS = 10
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
    variant: Literal["2013", "2015", "2017", "current"] = "current"
    width: int = 74
    confidence: float = 95.0


@dataclass(frozen=True, slots=True)
class ImageResults:
    """The boots of an image in a scenario, from results or a ledger."""

    testbed: str
    branch: str
    scenario: str
    revision: str
    label: str
    """Displayed name of the revision."""
    pps: tuple[float, ...]
    about: tuple[str, ...] = ()
    """Conditions, one per line."""


def of_study_file(path: Path) -> Study:
    """The study of a file; names of files in it are relative to it. Raises FileError."""
    found, folder = load(path, StudyFile), path.parent
    scenarios = []
    for one in found.scenario:
        sets = [set_of(name, folder / file) for name, file in one.sets.items()]
        scenarios.append(ComparedScenario(one.name, sets, one.heading))
    return Study(
        found.title,
        scenarios,
        found.conditions,
        [flame_graph_of(name, folder / file) for name, file in found.flame_graphs.items()],
        variant=Variant(found.variant),
        width=found.width,
        confidence=found.confidence,
    )


def set_of(name: str, path: Path) -> Set:
    """A set from a file with one value per line, as for ministat; at least three values."""
    try:
        return Set(name, read_points(path.read_bytes(), str(path)), path.name)
    except ValueError as error:
        raise click.ClickException(
            f"{error}; expected one rate in packets per second per line"
        ) from error


def flame_graph_of(name: str, path: Path) -> FlameGraph:
    """A flame graph from its file."""
    content = path.read_bytes()
    if path.suffix.lower() != ".svg" or b"<svg" not in content:
        raise click.ClickException(f"{path}: not an SVG file")
    return FlameGraph(name, re.sub(r"[^A-Za-z0-9_.+-]+", "-", path.name), content)


def of_results(path: Path, say: Callable[[str], None]) -> list[ImageResults]:
    """A folder of netbenches' results, or a file of histories. Raises NetbenchesError."""
    parser = Parser(pktgen.median_rate, pktgen.all_rates, unnumbered=True)
    found = []
    for image in files.read(path, parser=parser, skip=say):
        boots = tuple(run.pps for run in image.runs if not run.problems)
        if len(boots) < len(image.runs):
            say(f"{image.origin}: {len(image.runs) - len(boots)} boots without a rate left out")
        name = image.revision.name
        about = (f"{name}: {image.version}",) if image.version else ()
        if boots:
            results = ImageResults(image.testbed, "", image.scenario, name, name, boots, about)
            found.append(results)
    if not found:
        raise click.ClickException(
            f"{path}: no results found; expected .pps files or bench.*.receiver files named after "
            "their images, or histories as JSON lines"
        )
    return found


def of_ledger(address: str) -> list[ImageResults]:
    """The results of a database."""
    data = of_database(address)
    ledger = open_ledger(address)
    found = []
    for name, levels in data.series.items():
        conditions = ledger.series.conditions(name.testbed, name.scenario)
        values = {} if conditions is None else conditions.values
        # The digest of the scenario file is meaningless to a reader.
        about = tuple(
            f"{key.replace('_', ' ')}: {value}"
            for key, value in sorted(values.items())
            if key != "scenario"
        )
        number = metric_of(name.scenario).number
        place = (name.testbed, name.branch, name.scenario)
        for level in levels:
            pps = tuple(float(f"{number(one):.{_DIGITS}g}") for one in level.ln_pps)
            label = ledger.commits.label(level.revision)
            found.append(ImageResults(*place, level.revision, label, pps, about))
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """Selection of results; "" and () select all."""

    revisions: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    testbed: str = ""
    branch: str = ""


def chosen(found: Sequence[ImageResults], choice: Choice, say: Callable[[str], None]) -> Study:
    """Scenarios with the revisions side by side, the first of them in every one; without a title.

    Raises ClickException if a name is wrong, or is required but missing.
    """
    found = _one(found, "testbed", choice.testbed)
    found = _one(found, "branch", choice.branch)
    known = {one.revision: one.label for one in found}
    revisions = [_revision(name, known) for name in choice.revisions] or list(known)
    measured = list(dict.fromkeys(one.scenario for one in found))
    for name in choice.scenarios:
        if name not in measured:
            raise click.ClickException(f"there is no scenario {name!r}{suggestion(name, measured)}")
    names = choice.scenarios or sorted(measured)
    if len(revisions) == 1:
        own = [one for one in found if one.revision == revisions[0]]
        best = [image for name in names for image in _of_scenario(own, name, say).values()]
        return _of_revision(best, revisions[0])
    used: list[ImageResults] = []
    by_scenario: list[dict[str, ImageResults]] = []
    scenarios = []
    for name in names:
        its = _of_scenario(found, name, say)
        by_scenario.append(its)
        images = [its[revision] for revision in revisions if revision in its]
        if len(images) > 1 and revisions[0] in its:
            used += images
            sets = [Set(one.label, one.pps, f"{one.label}.{name}") for one in images]
            scenarios.append(ComparedScenario(name, sets, series=name))
        else:
            both = " and ".join(map(short_hash, revisions[:2]))
            say(f"{name} left out: not measured with {both}")
    if not scenarios:
        raise click.ClickException(
            f"nothing to compare: no scenario was measured with {short_hash(revisions[0])} and "
            "another revision"
        )
    for revision in revisions:
        images = [its[revision] for its in by_scenario if revision in its]
        scenarios += [
            replace(one, name=f"settings of {one.name} at {images[0].label}")
            for one in _by_setting(images)
        ]
    return Study("", scenarios, _conditions(used))


def _of_revision(images: Sequence[ImageResults], revision: str) -> Study:
    """One revision: its scenarios side by side, or the settings of each where some have them."""
    scenarios = _by_setting(images)
    if not scenarios and len(images) > 1:
        sets = [Set(one.scenario, one.pps, one.scenario) for one in images]
        scenarios = [ComparedScenario(images[0].label, sets)]
    if not scenarios:
        raise click.ClickException(
            f"nothing to compare: expected another revision beside {short_hash(revision)}, or a "
            "second scenario"
        )
    return Study("", scenarios, _conditions(images))


def _by_setting(images: Iterable[ImageResults]) -> list[ComparedScenario]:
    """Scenarios that were measured with and without settings; their settings side by side."""
    groups: dict[str, list[Set]] = {}
    for one in images:
        name, settings = split_settings(one.scenario)
        groups.setdefault(name, []).append(Set(settings or "without", one.pps, one.scenario))
    return [
        ComparedScenario(name, sets, series=name) for name, sets in groups.items() if len(sets) > 1
    ]


def _of_scenario(
    found: Iterable[ImageResults], scenario: str, say: Callable[[str], None]
) -> dict[str, ImageResults]:
    """The images of a scenario by revision, those with the most boots."""
    its: dict[str, ImageResults] = {}
    for one in found:
        if one.scenario != scenario:
            continue
        held = its.get(one.revision)
        if held is not None:
            say(f"{scenario}: {one.label} has several kernels; using the one with the most boots")
        if held is None or len(one.pps) > len(held.pps):
            its[one.revision] = one
    return its


def _conditions(used: Sequence[ImageResults]) -> tuple[str, ...]:
    """Testbed, branch and conditions of measurement, one per line."""
    first = used[0]
    branch = [f"branch {first.branch}"] if first.branch else []
    about = (line for one in used for line in one.about)
    return tuple(dict.fromkeys([f"testbed {first.testbed}", *branch, *about]))


def _one(found: Sequence[ImageResults], kind: str, wanted: str) -> list[ImageResults]:
    names = list(dict.fromkeys(getattr(one, kind) for one in found))
    if not wanted and len(names) > 1:
        shown = ", ".join(names[:MAX_SUGGESTIONS]) + (
            " and more" if len(names) > MAX_SUGGESTIONS else ""
        )
        plural = {"testbed": "testbeds", "branch": "branches"}[kind]
        raise click.ClickException(
            f"there are results of {len(names)} {plural}; expected --{kind} with one of {shown}"
        )
    if wanted and wanted not in names:
        raise click.ClickException(f"there is no {kind} {wanted!r}{suggestion(wanted, names)}")
    return [one for one in found if getattr(one, kind) == (wanted or names[0])]


def _revision(name: str, known: Mapping[str, str]) -> str:
    """The revision that a hash, its beginning or a label names; `known` has labels by revision."""
    name = without_number(name, known)
    for wanted in (name, f"r{name}"):
        if wanted in known:
            return wanted
    like = [one for one in known if one.startswith(name) or known[one].startswith(f"{name}-")]
    if len(like) == 1:
        return like[0]
    if like:
        shown = ", ".join(map(short_hash, like[:MAX_SUGGESTIONS]))
        raise click.ClickException(f"{name} is ambiguous: {shown}")
    raise click.ClickException(
        f"there is no revision {name!r}{suggestion(name, map(short_hash, known))}"
    )
