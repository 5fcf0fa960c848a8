"""Reads files of netbenches: histories as JSON lines, and folders of results.

A folder has for each label the output of pkt-gen, `bench.LABEL.ITERATION.receiver`, and a
description, `bench.LABEL.info`, often in a folder RAW; or one value per line, `LABEL.pps`; or both.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from netbisect.errors import UserError
from netbisect.store.netbenches.names import (
    Label,
    NetbenchesRevision,
    Place,
    info_of,
    label_of,
    numbered,
    place_of,
    revision_of,
    scenario_of,
    slug,
)

_RECEIVER = re.compile(r"bench\.(?P<label>.+)\.(?P<iteration>\d+)\.receiver")
_INFO = re.compile(r"bench\.(?P<label>.+)\.info")
_COUNTED = re.compile(r"bench\.(?P<label>.+)\.(?P<iteration>\d+)\.pmc\.(log|out)")
"""File beside a receiver's file that was overwritten while hwpmc was counting."""
_PPS = re.compile(r"(?P<label>.+)\.pps")
_RAW = {"RAW", "raw"}
_ARCH = "amd64"
"""Architecture of all machines of netbenches."""
_MOST = 2**31
"""Numbers of revisions are below it, in databases too."""
_DISTURBED = "PMC"
"""Folder of runs slowed down by hwpmc."""


class NetbenchesError(UserError, ValueError):
    """A file cannot be imported."""


@dataclass(frozen=True, slots=True)
class Parser:
    """Functions of workers/measure/pktgen.py that read a receiver's output."""

    sample: Callable[[str], float]
    """Packets per second of the run; raises ValueError."""
    rates: Callable[[str], list[float]]
    """Packets per second, for each second."""
    unnumbered: bool = False
    """Whether files that name no revision are of one that is called after their folder."""


@dataclass(frozen=True, slots=True)
class NetbenchesRun:
    """A boot with one run."""

    iteration: int
    pps: float
    received: tuple[float, ...] = ()
    problems: tuple[str, ...] = ()
    at: float = 0.0
    """Seconds since the epoch; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Imported:
    """All runs of an image in a scenario."""

    origin: str
    """File and line, or folder and label."""
    testbed: str
    scenario: str
    revision: NetbenchesRevision
    branch: str
    version: str
    """`uname -v` of the image, or the name of its release."""
    arch: str
    values: dict[str, str]
    """Known conditions."""
    runs: tuple[NetbenchesRun, ...]

    @property
    def at(self) -> float:
        """Time of its first run with a time, or else the number of its revision."""
        return next((run.at for run in self.runs if run.at), float(self.revision.number))


def read(
    path: Path,
    *,
    parser: Parser,
    skip: Callable[[str], None] = lambda _: None,
) -> Iterator[Imported]:
    """Reads images from a file of histories, or from a folder.

    `parser` reads receivers' files; `skip` gets messages about skipped and doubtful data.

    Raises:
        NetbenchesError: the file or folder does not exist, or a line is invalid.
    """
    try:
        if path.is_dir():
            yield from _read_tree(path, parser, skip)
        else:
            yield from _read_histories(path, skip)
    except OSError as error:
        raise NetbenchesError(f"{error.filename or path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class _Point:
    revision: int | str
    values: list[Any]
    image: str
    release: str
    patch: str

    @property
    def rates(self) -> list[float]:
        return [float(one) for one in self.values if _is_rate(one)]

    @property
    def complaint(self) -> str:
        """About values that are no rates, or ""."""
        bad = [f"{json.dumps(one):.40}" for one in self.values if not _is_rate(one)]
        boots = f"{len(self.values):,} boot{'' if len(self.values) == 1 else 's'}"
        left_out = f"{self.revision}: {len(bad)} of {boots} left out"
        why = f"no rate in packets per second is {', '.join(bad)}"
        return f"{left_out}: {why}" if bad else ""


def _read_histories(path: Path, skip: Callable[[str], None]) -> Iterator[Imported]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        for count, line in enumerate(stream, 1):
            if line.strip():
                where = f"{path}:{count}"
                yield from images_of(parsed(line, where), where, skip=skip)


def parsed(line: str, where: str) -> object:
    """Parses a line of JSON. Raises NetbenchesError with a message that starts with `where`."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:  # also for very long numbers
        raise NetbenchesError(f"{where}: not a line of JSON: {error}") from error


def images_of(
    line: object,
    where: str,
    *,
    skip: Callable[[str], None],
    fault: Callable[[str], None] | None = None,
) -> Iterator[Imported]:
    """The images of a history, in the order of its points; `where` is file and number of the line.

    `skip` gets messages about images without the number of a revision, `fault` those about invalid
    points and boots, which are left out. Without `fault`, they are errors.

    Raises NetbenchesError, whose message starts with `where`, if it is no history.
    """
    refusal = f"{where}: not a netbenches history: "
    record, points = _checked(line, refusal)

    def complain(problem: str, consequence: str = "") -> None:
        if fault is None:
            raise NetbenchesError(f"{refusal}{problem}")
        fault(f"{where}: {problem}{consequence}")

    texts = {key: _text(record, key) for key in ("hw", "nic", "dir", "cfg", "pktgen")}
    for count, value in enumerate(points, 1):
        try:
            point = _point(value)
        except ValueError as error:
            complain(f"point {count} {error}", ": it was left out")
            continue
        if point.complaint:
            complain(point.complaint)
        image = _image_of_point(texts, point, where)
        if image is None:
            skip(f"{where}: image {point.image or point.revision} names no revision by number")
        else:
            yield image


def _checked(line: object, refusal: str) -> tuple[dict[str, Any], list[object]]:
    """A line and its points."""
    if not isinstance(line, dict):
        raise NetbenchesError(f"{refusal}not an object, but {line!r:.40}")
    points = line.get("points")
    if not isinstance(points, list | None):
        raise NetbenchesError(f"{refusal}no list @ line.points")
    for key in ("points", "hw"):
        if line.get(key) is None:
            raise NetbenchesError(f"{refusal}required field missing @ line.{key}")
    return line, line["points"]


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return "" if value is None else str(value)


def _point(value: object) -> _Point:
    if not isinstance(value, dict):
        raise ValueError(f"is {value!r}, not an object")  # noqa: TRY004 - see images_of
    image, revision, values = _text(value, "image"), value.get("rev"), value.get("v")
    if revision is None:
        if revision_of(image, "", "") is None:
            raise ValueError("has no revision `rev`")
        revision = image
    is_number = isinstance(revision, int) and not isinstance(revision, bool)
    if not (isinstance(revision, str) or (is_number and 0 < revision < _MOST)):
        raise ValueError(f"has {revision!r} for its revision `rev`")
    if not isinstance(values, list):
        raise ValueError(f"({revision}) has no list of values `v`")  # noqa: TRY004 - see images_of
    return _Point(revision, values, image, _text(value, "release"), _text(value, "patch"))


def _is_rate(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= sys.float_info.max


def _image_of_point(texts: Mapping[str, str], point: _Point, where: str) -> Imported | None:
    parts = texts["dir"].split("/results/", 1)
    topic = parts[0].rpartition("/")[2] if len(parts) > 1 else ""
    place = Place(texts["hw"], texts["nic"], topic, parts[-1])
    image = point.image or str(point.revision)
    revision = revision_of(image, f" r{point.revision} ", "")
    if revision is None and isinstance(point.revision, int):
        # A number out of the range of `revision_of`.
        revision = numbered("r", point.revision, image.replace(str(point.revision), ""))
    if revision is None:
        return None
    if not revision.variant and (patch := slug(point.patch)):
        revision = replace(revision, name=f"{revision.name}+{patch}", variant=patch)
    label = Label(image, texts["cfg"], texts["pktgen"])
    runs = _runs_in_file_order(point.rates)
    return _imported(where, place, label, revision, point.release, runs)


def _imported(
    origin: str,
    place: Place,
    label: Label,
    revision: NetbenchesRevision,
    version: str,
    runs: tuple[NetbenchesRun, ...],
    arch: str = _ARCH,
) -> Imported:
    return Imported(
        origin=origin,
        testbed=place.testbed,
        scenario=scenario_of(label, place.topic),
        revision=revision,
        branch=revision.branch,
        version=version,
        arch=arch,
        values={
            "source": "netbenches",
            "directory": place.directory,
            "config": label.config,
            "traffic": label.traffic,
        },
        runs=runs,
    )


def _runs_in_file_order(values: list[float]) -> tuple[NetbenchesRun, ...]:
    """Runs of values in the order of netbenches, which is that of `ls`: 1, 10, 2, 3."""
    iterations = sorted(range(1, len(values) + 1), key=str)
    runs = (_run(iteration, pps) for iteration, pps in zip(iterations, values, strict=True))
    return tuple(sorted(runs, key=lambda run: run.iteration))


def _run(iteration: int, pps: float, received: tuple[float, ...] = ()) -> NetbenchesRun:
    problems = () if pps > 0 else ("no packet was received",)
    return NetbenchesRun(iteration, pps, received, problems)


@dataclass(slots=True)
class _Folder:
    """Files of a result by label, in RAW and beside it."""

    receivers: defaultdict[str, dict[int, Path]] = field(default_factory=lambda: defaultdict(dict))
    disturbed: set[tuple[str, int]] = field(default_factory=set)
    infos: dict[str, Path] = field(default_factory=dict)
    pps: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Adds a file if it is one of netbenches."""
        if found := _RECEIVER.fullmatch(path.name):
            self.receivers[found["label"]][int(found["iteration"])] = path
        elif found := _COUNTED.fullmatch(path.name):
            self.disturbed.add((found["label"], int(found["iteration"])))
        elif found := _INFO.fullmatch(path.name):
            self.infos[found["label"]] = path
        elif found := _PPS.fullmatch(path.name):
            # RAW has a copy of the file beside it.
            self.pps.setdefault(found["label"], path)


def _read_tree(top: Path, parser: Parser, skip: Callable[[str], None]) -> Iterator[Imported]:
    folders: defaultdict[Path, _Folder] = defaultdict(_Folder)
    for parent, names, files in os.walk(top.resolve()):
        directory = Path(parent)
        names.sort()
        if _DISTURBED in names:
            names.remove(_DISTURBED)
            skip(f"{directory / _DISTURBED}: measured while hwpmc was counting")
        result = directory.parent if directory.name in _RAW else directory
        for name in sorted(files):
            folders[result].add(directory / name)
    for directory, folder in folders.items():
        yield from _read_folder(directory, folder, parser, skip)


def _read_folder(
    directory: Path, folder: _Folder, parser: Parser, skip: Callable[[str], None]
) -> Iterator[Imported]:
    place = place_of(directory)
    for text in sorted(folder.receivers.keys() | folder.pps.keys()):
        info = folder.infos.get(text)
        info_fields = {} if info is None else info_of(info.read_text(errors="replace"))
        label = label_of(text, info_fields)
        revision = revision_of(label.image, info_fields.get("UNAME", ""), directory.name)
        if revision is None and parser.unnumbered:
            revision = NetbenchesRevision(directory.name, 0, "", counted_by_git=False)
        if revision is None:
            skip(f"{directory}: {text} names no revision by number")
            continue
        version = info_fields.get("UNAME", "")
        runs = _runs_of(text, folder, parser, skip)
        arch = (version.split() or [_ARCH])[-1]
        yield _imported(f"{directory}: {text}", place, label, revision, version, runs, arch)


def _runs_of(
    text: str, folder: _Folder, parser: Parser, skip: Callable[[str], None]
) -> tuple[NetbenchesRun, ...]:
    """Runs of a label: from the output of pkt-gen, or else from the values."""
    pps = folder.pps.get(text)
    values = () if pps is None else _runs_in_file_order(_values_of(pps))
    receivers = folder.receivers.get(text)
    if not receivers:
        return values
    by_iteration = {run.iteration: run for run in values} if len(values) == len(receivers) else {}
    runs = []
    for iteration, path in sorted(receivers.items()):
        if (text, iteration) not in folder.disturbed:
            runs.append(_run_of(path, iteration, parser, skip))
        elif iteration in by_iteration:
            runs.append(by_iteration[iteration])
        else:
            skip(f"{path}: overwritten while hwpmc was counting")
    if pps is not None and sorted(run.pps for run in values) != sorted(run.pps for run in runs):
        skip(f"{pps}: its values are not those of the receivers' files, which were taken")
    return tuple(runs)


def _run_of(
    path: Path, iteration: int, parser: Parser, skip: Callable[[str], None]
) -> NetbenchesRun:
    text = path.read_text(errors="replace")
    received = tuple(parser.rates(text))
    try:
        return _run(iteration, parser.sample(text), received)
    except ValueError as error:
        skip(f"{path}: no sample: {error}")
        return NetbenchesRun(iteration, 0.0, received, (str(error),))


def _values_of(path: Path) -> list[float]:
    values = []
    for count, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not _is_rate(value):
            raise NetbenchesError(
                f"{path}:{count}: {line.strip()!r} is not a rate in packets per second"
            )
        values.append(value)
    return values
