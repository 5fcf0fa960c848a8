"""What somebody asks the lab for, in their words, and what that means."""

from __future__ import annotations

from dataclasses import dataclass, field

from netbisect.bisect.model import Commit
from netbisect.workers.patches import Patch

COMPARE, BISECT, SERIES = "compare", "bisect", "series"
KINDS = (COMPARE, BISECT, SERIES)
PRIORITIES = {"low": 40, "normal": 150, "high": 190}
"""By name: nights have 100, what follows from an alert 200. No alert waits for a request."""
MOST_SUBJECTS = 7
"""As many as ministat takes."""
MOST_RUNS = 2
ALL = "all"
"""Every scenario of a testbed."""
MOST_COMMITS = 10_000
"""In which a commit is searched for; FreeBSD has about as many in a year."""


class WishError(Exception):
    """A wish that cannot be granted; a sentence for every field that is wrong."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {said}" for name, said in faults.items()))
        self.faults = faults
        """By field: what is wrong, and what would be right."""


class NoPatchError(WishError):
    """A wish for patches of somebody who may not have them measured."""


@dataclass(frozen=True, slots=True)
class PatchFile:
    """A diff that somebody has brought along."""

    data: bytes
    base: str = ""
    """The revision that it is for; the first one of the wish when left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody asks for, in their words."""

    kind: str
    """compare, bisect or series."""
    subjects: tuple[str, ...]
    """Revisions by any name; `REV+D5180` is one with a review, `D5180` the first one with it.
    Of a search `A..B`, or `B` alone, whose good end is then found in what was measured."""
    who: str
    patches: tuple[PatchFile, ...] = ()
    """Each a further subject: the revision that it is for, with it."""
    testbeds: tuple[str, ...] = ()
    """May be left out where the lab has one."""
    scenarios: tuple[str, ...] = ()
    """The first of the testbed's when left out; `all` for all of them."""
    branch: str = ""
    """The first that is watched when left out."""
    boots: int | None = None
    """Of each revision; what the settings say when left out."""
    repeat: bool = False
    """Whether all of it is done once more, with boots of its own."""
    fresh: bool = False
    """Whether boots that were made for others do not count."""
    margin_percent: float | None = None
    """A drop that matters; that of the settings when left out."""
    hours: float | None = None
    """Of the lab, that a search may take; what the settings say when left out."""
    priority: str = "normal"
    address: str = ""
    """Where the answer is mailed to; "" for nowhere."""
    via: str = "command"
    may_patch: bool = True
    """Whether who asks may have patches measured: their code runs on the lab's machines."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a wish means."""

    wish: Wish
    branch: str
    subjects: tuple[str, ...]
    """As `bisect/subject.py` names them; of a search the good end, if it is given, and the bad."""
    commits: tuple[Commit, ...]
    patches: tuple[Patch, ...]
    testbeds: dict[str, tuple[str, ...]]
    """By name: scenarios, the leading one first."""
    boots: int
    margin: float
    """|ln ratio|."""
    hours: float
    range: tuple[Commit, ...] = ()
    """Of a search whose good end is given: the commits in question."""


@dataclass
class Faults:
    """Sentences by field; the first of each stands."""

    found: dict[str, str] = field(default_factory=dict)
    no_patch: bool = False
    """Whether patches were asked for that may not be."""

    def add(self, name: str, sentence: str) -> None:
        self.found.setdefault(name, sentence)
