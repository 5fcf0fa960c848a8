"""Kinds and priorities of requests; requests resolved against the tree and the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netbisect.bisect.model.entities import Commit
from netbisect.reports.documents.api import AskBody
from netbisect.workers.build.patches import Patch

COMPARE: Final = "compare"
BISECT: Final = "bisect"
SERIES: Final = "series"
PRIORITIES = {"low": 40, "normal": 150, "high": 190}
"""Nights have 100, followups of alerts 200."""


class InvalidRequestError(Exception):
    """A request with invalid fields."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in faults.items()))
        self.faults = faults
        """Messages by field."""


class PatchRightError(InvalidRequestError):
    """A request for patches without the right `patch`."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A valid request, with revisions and testbeds resolved."""

    body: AskBody
    branch: str
    subjects: tuple[str, ...]
    """Keys as in `bisect/model/revision_key.py`; for a search its ends."""
    commits: tuple[Commit, ...]
    patches: tuple[Patch, ...]
    testbeds: dict[str, tuple[str, ...]]
    """Scenarios by testbed, the leading one first."""
    boots: int
    margin: float
    """|ln ratio|."""
    hours: float
    range: tuple[Commit, ...] = ()
    """Candidates of a search whose good end is given."""
