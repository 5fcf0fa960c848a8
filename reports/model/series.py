"""Documents of series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from netbisect.bisect.detection.level_difference import LevelEstimate, level_difference
from netbisect.bisect.model.detection_results import LevelDifference, LevelStep, SeriesHealth
from netbisect.bisect.model.entities import Level, Noise, SeriesName
from netbisect.bisect.model.metric import metric_of
from netbisect.reports.model.types import Hash, Time


def _rounded(number: float) -> float:
    """A number of a series, to seven digits: boots differ in the third."""
    return float(f"{number:.7g}")


@dataclass(frozen=True, slots=True)
class LevelDocument:
    """All boots of one kernel in a series."""

    revision: Hash
    label: str
    kernel: Annotated[str, "Identity of the kernel image, without dates and paths."]
    at: Time
    pps: Annotated[float, "Geometric mean over its boots, in the unit of the series."]
    boots: Annotated[tuple[float, ...], "One value per boot, in the unit of the series."]
    saturated: Annotated[bool, "Whether the generator was the limit."]
    baseline: Annotated[bool, "Whether measured since the last confirmed change."]
    number: Annotated[int, "Place of its commit on the branch; 0 if unknown."] = 0

    @classmethod
    def of(
        cls, level: Level, scenario: str, label: str, *, baseline: bool, number: int = 0
    ) -> Self:
        """The document of a level in the series of a scenario."""
        pps = metric_of(scenario).number
        return cls(
            revision=level.revision,
            label=label,
            kernel=level.identity,
            at=level.at,
            pps=_rounded(pps(level.mean)),
            boots=tuple(_rounded(pps(one)) for one in level.ln_pps),
            saturated=level.saturated,
            baseline=baseline,
            number=number,
        )


@dataclass(frozen=True, slots=True)
class EpochDocument:
    """Levels under the same conditions."""

    conditions: dict[str, str]
    levels: tuple[LevelDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesDocument:
    """The levels of a scenario on a testbed along a branch, under the newest conditions."""

    format: Literal["netbisect-series/1"] = "netbisect-series/1"
    testbed: str
    scenario: str
    branch: str
    unit: Annotated[str, "Unit of the levels: pps, or that of the metric."]
    better: Annotated[Literal["higher", "lower"], "Direction of better numbers."]
    conditions: dict[str, str]
    levels: Annotated[tuple[LevelDocument, ...], "In the order of the branch."]
    boot_noise: Annotated[
        float | None, "Standard deviation of ln numbers between boots of one image."
    ]
    image_noise: Annotated[float | None, "Standard deviation between images of the same code."]
    smallest_drop: Annotated[
        float | None, "Drop that one night detects with a power of 0.8, as a positive ln ratio."
    ]
    alerts: Annotated[tuple[int, ...], "Numbers of the alerts in this series."]
    title: Annotated[str, "Display name of the scenario."]
    hardware: Annotated[str, "Processor and network card of the testbed; may be empty."]
    commit_link: Annotated[str, "Address of a commit, with `{revision}` for its hash."]
    earlier: Annotated[tuple[EpochDocument, ...], "Levels under earlier conditions."]
    estimates: Annotated[
        tuple[LevelEstimate, ...], "Robust estimates of the levels, as ln numbers."
    ]
    baseline: Annotated[
        LevelEstimate | None,
        "Estimate of the levels since the last confirmed change, without the latest.",
    ]
    noise: Noise
    health: SeriesHealth
    steps: Annotated[tuple[LevelStep, ...], "Steps found in this series alone."]
    least: Annotated[float, "Smallest reported step, as a positive ln ratio."]
    kernels: int
    boots: int

    @property
    def latest(self) -> LevelDocument:
        """The newest level of the branch."""
        return self.levels[-1]

    @property
    def against(self) -> LevelDifference | None:
        """The latest level compared with the baseline."""
        return self.distances(len(self.levels) - 1)[1]

    def distances(self, at: int) -> tuple[LevelDifference | None, LevelDifference | None]:
        """A level, by its place, compared with the previous one, and with the baseline."""
        previous, estimate = None, self.estimates[at]
        if at:
            same_image = self.levels[at - 1].kernel == self.levels[at].kernel != ""
            previous = level_difference(
                self.estimates[at - 1], estimate, self.noise, same_image=same_image
            )
        base = level_difference(self.baseline, estimate, self.noise) if self.baseline else None
        return previous, base

    @property
    def name(self) -> SeriesName:
        """The name of the series."""
        return SeriesName(self.testbed, self.scenario, self.branch)

    def link(self, revision: str) -> str:
        """Address of a commit; "" if none."""
        return self.commit_link.replace("{revision}", revision)

    def latest_only(self, levels: int) -> Self:
        """The same with at most so many levels."""
        return replace(
            self, levels=self.levels[-levels:], estimates=self.estimates[-levels:], earlier=()
        )
