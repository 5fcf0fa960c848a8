"""Series from history files of netbenches, without a database.

Unlike an import, this skips invalid lines, with a message.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from netbisect.bisect.model.entities import Level, SeriesName
from netbisect.store.netbenches.files import Imported, NetbenchesError, images_of, parsed

_SHOWN = 3
"""Most names in a sentence."""


class Histories:
    """Reads files of histories into series of levels."""

    def __init__(self) -> None:
        self.excluded: list[str] = []
        """Sentences about excluded and doubtful data."""
        self.refused: list[str] = []
        """Sentences about lines that are no histories."""
        self._points: defaultdict[SeriesName, dict[str, tuple[int, Level]]] = defaultdict(dict)
        self._origins: dict[tuple[SeriesName, str], str] = {}
        self._patched: list[str] = []

    def take(self, lines: Iterable[str], name: str) -> None:
        """Reads a file: JSON, one history per line; others are refused."""
        for count, line in enumerate(lines, 1):
            where = f"{name}:{count}"
            if not line.strip():
                continue
            try:
                say = self.excluded.append
                found = list(images_of(parsed(line, where), where, skip=say, fault=say))
            except NetbenchesError as error:
                self.refused.append(str(error))
                continue
            numbers = [image.revision.number for image in found]
            if any(early > late for early, late in itertools.pairwise(numbers)):
                self.excluded.append(
                    f"{where}: its points are not in the order of their revisions; they were "
                    "put in order"
                )
            self._take(found, where)

    def _take(self, found: Iterable[Imported], where: str) -> None:
        again: defaultdict[tuple[SeriesName, str], int] = defaultdict(int)
        for image in found:
            revision = image.revision
            series = SeriesName(image.testbed, image.scenario, image.branch)
            level = _level(image, self.excluded.append)
            if level is None:
                continue
            known = self._points[series].setdefault(revision.name, (revision.number, level))[1]
            origin = self._origins.setdefault((series, revision.name), where)
            if revision.variant:
                self._patched.append(revision.name)
            if known is level:
                continue
            if sorted(known.ln_pps) == sorted(level.ln_pps):
                again[series, origin] += 1
            else:
                self.excluded.append(
                    f"{where}: {revision.name} was measured in {series.title} by {origin} too, "
                    "with other values: those count"
                )
        for (series, origin), count in again.items():
            self.excluded.append(
                f"{where}: {_count(count, 'image')} of {series.title} are also in {origin}, with "
                "the same values: they count once"
            )

    def series(self) -> dict[SeriesName, list[Level]]:
        """Levels by series, in the order of their revisions."""
        return {
            name: [level for _, level in sorted(points.values(), key=lambda point: point[0])]
            for name, points in sorted(self._points.items(), key=lambda item: item[0].title)
        }

    def numbers(self) -> dict[str, dict[str, int]]:
        """By branch: numbers of the measured revisions."""
        found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for name, points in self._points.items():
            found[name.branch].update({each: number for each, (number, _) in points.items()})
        return dict(found)

    def remarks(self) -> Iterator[str]:
        """Sentences about all files."""
        yield from self.excluded
        if self._patched:
            yield (
                "images of patched or renamed revisions are series of their own: "
                f"{len(self._patched)} ({_names(dict.fromkeys(self._patched))})"
            )


def few_measurements(series: Mapping[SeriesName, Sequence[Level]]) -> Iterator[str]:
    """Sentences about series with one revision, and about revisions with one value.

    Such a value may be an outlier as well as a shift.
    """
    single = [name.title for name, levels in series.items() if len(levels) == 1]
    if single:
        yield f"series with a single revision show no change: {len(single)} ({_names(single)})"
    once = {name: sum(len(level.ln_pps) == 1 for level in series[name]) for name in series}
    if total := sum(once.values()):
        names = _names([name.title for name, count in once.items() if count])
        yield f"revisions with a single value, which may be an outlier: {total} (in {names})"


def _level(image: Imported, say: Callable[[str], None]) -> Level | None:
    revision = image.revision
    boots = tuple(math.log(run.pps) for run in image.runs if not run.problems)
    if not boots:
        say(f"{image.origin}: {revision.name} has no boot with a rate: a gap in the series")
        return None
    if len(boots) < len(image.runs):
        say(
            f"{image.origin}: {revision.name}: {len(image.runs) - len(boots)} of "
            f"{_count(len(image.runs), 'boot')} left out: no packet was received"
        )
    # As in an import, the number replaces the unknown time.
    return Level(revision.name, f"{image.testbed} {revision.name}", float(revision.number), boots)


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
