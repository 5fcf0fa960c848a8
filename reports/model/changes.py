"""Documents of changes: comparisons and searches, with all that was measured for them.

Mails, pages and JSON are made from these. Boots and steps are oldest first; mappings keep the order
in which they were filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from netbisect.bisect.model.evidence import Cost
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.results import Posterior
from netbisect.reports.model.series import LevelDocument
from netbisect.reports.model.types import (
    HASH_LENGTH,
    Chance,
    Difference,
    Hash,
    Pps,
    RevisionDocument,
    Seconds,
    Time,
)

Compared: TypeAlias = Literal["running", "confirmed", "not-confirmed", "unfinished"]
Searched: TypeAlias = Literal[
    "running", "culprit", "several", "suspects", "drift", "not-reproduced", "unfinished"
]


@dataclass(frozen=True, slots=True)
class RunDocument:
    """A scenario on a boot."""

    scenario: str
    pps: Pps
    offered_pps: Pps
    valid: bool
    problems: Annotated[tuple[str, ...], "What speaks against it; empty where it is valid."]
    warnings: Annotated[tuple[str, ...], "What a reader should know; no reason against it."]
    conditions: Annotated[str, "Digest of what must be equal for two runs to be comparable."]
    at: Time


@dataclass(frozen=True, slots=True)
class BootDocument:
    """A boot for a job; one boot is one sample."""

    boot: str
    revision: Hash
    kernel: Annotated[str, "Key of the kernel."]
    at: Time
    runs: tuple[RunDocument, ...]


@dataclass(frozen=True, slots=True)
class VerifiedCommit:
    """A commit that was verified against its parent by fresh interleaved boots."""

    revision: Hash
    parent: Hash
    chance: Chance
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class CandidateDocument:
    """A commit that may have made the change."""

    commit: RevisionDocument
    weight: Annotated[float, "Prior weight, not normalised."]
    chance: Annotated[float | None, "That it alone made the change; null before any belief."]


@dataclass(frozen=True, slots=True)
class Chances:
    """Posterior of a search; with the probabilities of the candidates the values sum to 1."""

    none: Annotated[float, "That nothing changed."]
    two: Annotated[float, "That two commits made a change each."]
    drift: Annotated[float, "That the level changed bit by bit."]


@dataclass(frozen=True, slots=True)
class StepDocument:
    """One step: a build, or a boot with its runs."""

    number: Annotated[int, "Of the action, within its job."]
    stage: Literal["kernel", "trial"]
    revision: Hash
    testbed: Annotated[str, "For which it was: where a kernel that was built is to be measured."]
    why: str
    outcome: Annotated[str | None, "Null while it is under way."]
    note: str
    at: Time
    finished_at: Time | None
    place: Annotated[int, "Among all steps, from 1."]
    job: Annotated[int, "Number of its job: of the search, or of a comparison before it."]
    result: Annotated[str, "How it went, for people."]
    pps: Annotated[float | None, "Of the leading scenario, in the unit of its series."]
    seconds: Seconds
    belief: Annotated[Posterior | None, "Before the step; null for comparisons."]


@dataclass(frozen=True, slots=True)
class KernelFailure:
    """A kernel that did not boot, or panicked, with its console log."""

    revision: Hash
    scenario: Annotated[str, "Under which it went down; empty before the first one."]
    why: str
    log: Annotated[str, "Panic with backtrace, or end of the console or build log."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDocument:
    """A change of level between two revisions on a testbed, and all that was measured for it."""

    number: int
    alert: Annotated[int | None, "Number of its alert."]
    address: Annotated[str, "Of the page of its alert; empty if none."] = ""
    branch: str
    testbed: str
    hardware: Annotated[str, "Processor and network card of the testbed; may be empty."]
    lead: Annotated[str, "The scenario that decides."]
    scenarios: tuple[str, ...]
    titles: Annotated[dict[str, str], "By scenario: its name for people."]
    good: RevisionDocument
    bad: RevisionDocument
    candidates: Annotated[
        tuple[CandidateDocument, ...], "Oldest first; the last one is the bad end."
    ]
    labels: Annotated[dict[str, str], "By revision: its name for people."]
    opened_at: Time
    closed_at: Time | None
    outcome: Compared | Searched
    sentence: Annotated[str, "The outcome, for people."]
    differences: Annotated[tuple[Difference, ...], "As published, the leading one first."]
    retest: Annotated[tuple[Difference, ...], "Of interleaved boots of both ends."]
    culprits: Annotated[tuple[VerifiedCommit, ...], "Only what was verified."] = ()
    suspects: Annotated[tuple[str, ...], "Commits that measuring cannot tell apart."] = ()
    chances: Annotated[Chances | None, "Null before any belief."] = None
    steps: tuple[StepDocument, ...] = ()
    marks: Annotated[tuple[CommitMark, ...], "Oldest first; the last one of a commit counts."] = ()
    spent: Cost = field(default_factory=Cost)
    pps: Annotated[
        dict[str, dict[str, tuple[float, ...]]],
        "By scenario and revision: one value per boot, in the unit of the series. The boots "
        "behind a difference are the latest of both sides.",
    ]
    levels: Annotated[
        tuple[LevelDocument, ...], "Of the leading scenario on the testbed, around the change."
    ]
    skipped: Annotated[dict[str, str], "By revision: why it could not be measured."]
    failures: tuple[KernelFailure, ...] = ()
    conditions: Annotated[dict[str, str], "Of the boots."]
    command: Annotated[str, "Measures the difference again; empty if unknown."] = ""
    committer: Annotated[str, "Mail address, of the first verified commit; may be empty."] = ""
    diffstat: Annotated[str, "Of the first verified commit, as `git diff --stat` prints it."] = ""
    backports: Annotated[tuple[str, ...], "Sentences about it on the stable branches."] = ()
    unaffected: Annotated[
        tuple[str, ...], "Testbeds and scenarios with the same commits and no change."
    ] = ()
    testbeds: Annotated[tuple[str, ...], "That measured, unless its own did alone."] = ()
    shown: Annotated[str, "Of these, the one whose boots are in `pps`."] = ""
    stand_ins: Annotated[
        dict[str, str],
        "By revision that was not booted: the one with the same kernel image that was.",
    ] = field(default_factory=dict)

    def label(self, revision: str) -> str:
        """Short name of a revision."""
        return self.labels.get(revision, revision[:HASH_LENGTH])

    def title(self, scenario: str) -> str:
        """Display name of a scenario."""
        return self.titles.get(scenario, scenario)

    def commit(self, revision: str) -> RevisionDocument | None:
        """The commit of that revision, if it is the good end or a candidate."""
        commits = (self.good, *(one.commit for one in self.candidates))
        return next((one for one in commits if one.revision == revision), None)

    def link(self, revision: str) -> str:
        """Address of that commit; "" if there is none."""
        commit = self.commit(revision)
        return commit.address if commit else ""

    def numbers(self, scenario: str, revision: str) -> Sequence[float]:
        """One value per boot, in the unit of the series; empty without boots."""
        return self.pps.get(scenario, {}).get(revision, ())

    @property
    def belief(self) -> Posterior | None:
        """The latest posterior."""
        if self.chances is None:
            return None
        known = {one.commit.revision: one.chance for one in self.candidates}
        chances = {name: chance for name, chance in known.items() if chance is not None}
        return Posterior(chances, self.chances.none, self.chances.two, self.chances.drift)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument(ChangeDocument):
    """Whether one revision is slower than another on a testbed."""

    format: Literal["netbisect-comparison/1"] = "netbisect-comparison/1"
    outcome: Compared
    boots: tuple[BootDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionDocument(ChangeDocument):
    """A search for the commit that made a change."""

    format: Literal["netbisect-bisection/1"] = "netbisect-bisection/1"
    outcome: Searched
