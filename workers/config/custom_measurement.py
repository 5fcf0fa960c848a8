"""Commands and metrics of a scenario file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from netbisect.bisect.model import metric
from netbisect.workers.config.toml import FileError
from netbisect.workers.config.validation import check, check_choice, check_form

_PLACES = ("dut", "generator", "receiver")
_PATH = re.compile(r"[\w-]+(?:\.[\w-]+)*\Z")


@dataclass(frozen=True, slots=True)
class HostCommand:
    """A script of sh(1) for one host."""

    on: str
    """dut, generator or receiver."""
    run: str = ""
    """Text of the script."""
    file: str = ""
    """File with the text, beside the scenario file."""
    timeout: int = 60
    """Seconds, in addition to those of a run for `measure`."""

    def __post_init__(self) -> None:
        check_choice(self, "on", _PLACES, ", ".join(_PLACES))
        check(bool(self.run) != bool(self.file), "expected either run or file")
        check(self.timeout > 0, f"timeout {self.timeout}: expected seconds > 0")

    def with_text(self, folder: Path) -> HostCommand:
        """The command with the text of its file.

        Raises:
            FileError: the file cannot be read.
        """
        if not self.file:
            return self
        path = folder / self.file
        try:
            return replace(self, run=path.read_text(), file="")
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class MetricTable:
    """A number that `measure` prints."""

    name: str
    unit: str
    better: str
    """higher or lower."""
    title: str = ""
    """For reports."""
    path: str = ""
    """Keys in the JSON of `measure`, joined by dots; default: the name."""
    least: float = 0.0
    """A smaller number is no sample."""
    most: float = math.inf
    """A larger number is no sample."""

    def __post_init__(self) -> None:
        letters = "lower-case letters, digits and '-', such as cpu"
        check_form(self, "name", metric.NAME, letters, optional=False)
        check_form(self, "unit", metric.UNIT, "letters such as ns or bit/s, or %", optional=False)
        check_choice(self, "better", ("higher", "lower"))
        check_form(self, "path", _PATH, "keys such as end.sum_received.bits_per_second")

    @property
    def metric(self) -> metric.SeriesMetric:
        """What its numbers are."""
        return metric.SeriesMetric(self.name, self.unit, lower=self.better == "lower")
