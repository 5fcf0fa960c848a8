"""Requests as submitted, and as resolved against the tree and the lab."""

from __future__ import annotations

from dataclasses import dataclass, field

from netbisect.bisect.model.entities import Commit
from netbisect.workers.build.patches import Patch

COMPARE, BISECT, SERIES = "compare", "bisect", "series"
KINDS = (COMPARE, BISECT, SERIES)
PRIORITIES = {"low": 40, "normal": 150, "high": 190}
"""Nights have 100, followups of alerts 200."""
MOST_SUBJECTS = 7
"""Limit of ministat."""
ALL = "all"
"""Stands for all scenarios of a testbed."""
MOST_COMMITS = 10_000
"""Longest range of a search; FreeBSD has about as many commits in a year."""


class InvalidRequestError(Exception):
    """A request with invalid fields."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in faults.items()))
        self.faults = faults
        """Messages by field."""


class PatchRightError(InvalidRequestError):
    """A request for patches without the right `patch`."""


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A diff."""

    data: bytes
    base: str = ""
    """Revision to patch; defaults to the first subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec:
    """A request as submitted."""

    kind: str
    """compare, bisect or series."""
    subjects: tuple[str, ...]
    """Revisions; `REV+D5180` is one with a review, `D5180` the first one with it. For a search
    `A..B`, or `B`, whose good end is then taken from earlier measurements."""
    who: str
    patches: tuple[PatchFile, ...] = ()
    """Each is a further subject."""
    testbeds: tuple[str, ...] = ()
    """Optional if the lab has one."""
    scenarios: tuple[str, ...] = ()
    """Defaults to the first of the testbed; `all` for all."""
    tunables: tuple[str, ...] = ()
    """`NAME=VALUE,sysctl:NAME=VALUE,...`; each measures the scenarios once more, with these
    loader tunables and sysctls.
    """
    branch: str = ""
    """Defaults to the first watched branch."""
    boots: int | None = None
    """Per revision; the default is in the settings, as for margin_percent and hours."""
    repeat: bool = False
    """Whether a second run with its own boots follows."""
    fresh: bool = False
    """Whether boots of other requests are ignored."""
    margin_percent: float | None = None
    hours: float | None = None
    """Lab time of a search."""
    priority: str = "normal"
    address: str = ""
    """Recipient of the result, or ""."""
    via: str = "command"
    may_patch: bool = True
    """Whether the user has the right PATCH."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A valid request, with revisions and testbeds resolved."""

    spec: RequestSpec
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


@dataclass
class FieldErrors:
    """The first error of each field."""

    found: dict[str, str] = field(default_factory=dict)
    no_patch: bool = False
    """Whether the right PATCH is missing."""

    def add(self, name: str, sentence: str) -> None:
        self.found.setdefault(name, sentence)
