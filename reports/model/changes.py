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
    problems: Annotated[tuple[str, ...], "Reasons against the run; empty if valid."]
    warnings: Annotated[tuple[str, ...], "Remarks on a valid run."]
    conditions: Annotated[str, "Digest of the conditions; comparable runs have equal ones."]
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
    chance: Annotated[float | None, "Probability that this commit alone made the change, or null."]


@dataclass(frozen=True, slots=True)
class Chances:
    """Posterior of a search; with the probabilities of the candidates the values sum to 1."""

    none: Annotated[float, "Probability that nothing changed."]
    two: Annotated[float, "Probability of two changes."]
    drift: Annotated[float, "Probability of a gradual change."]


@dataclass(frozen=True, slots=True)
class StepDocument:
    """One step: a build, or a boot with its runs."""

    number: Annotated[int, "Number of the action within its job."]
    stage: Literal["kernel", "trial"]
    revision: Hash
    testbed: Annotated[str, "Testbed of the trial, or of the next trial of a built kernel."]
    why: str
    outcome: Annotated[str | None, "Null while running."]
    note: str
    at: Time
    finished_at: Time | None
    place: Annotated[int, "Place among all steps, from 1."]
    job: Annotated[int, "Number of the job: the search, or a comparison before it."]
    result: Annotated[str, "Result, for display."]
    pps: Annotated[float | None, "Rate in the leading scenario, in the unit of the series."]
    seconds: Seconds
    posterior: Annotated[Posterior | None, "Posterior before the step; null for comparisons."]


@dataclass(frozen=True, slots=True)
class KernelFailure:
    """A kernel that did not boot, or panicked, with its console log."""

    revision: Hash
    scenario: Annotated[str, "Scenario of a panic; empty for a failed boot."]
    why: str
    log: Annotated[str, "Panic with backtrace, or end of the console or build log."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDocument:
    """A change of level between two revisions on a testbed, and all that was measured for it."""

    number: int
    alert: Annotated[int | None, "Number of the alert."]
    address: Annotated[str, "Address of the page of the alert, or empty."] = ""
    branch: str
    testbed: str
    hardware: Annotated[str, "Processor and network card of the testbed; may be empty."]
    lead: Annotated[str, "Leading scenario."]
    scenarios: tuple[str, ...]
    titles: Annotated[dict[str, str], "Display names by scenario."]
    good: RevisionDocument
    bad: RevisionDocument
    candidates: Annotated[
        tuple[CandidateDocument, ...], "Oldest first; the last one is the bad end."
    ]
    labels: Annotated[dict[str, str], "Display names by revision."]
    opened_at: Time
    closed_at: Time | None
    outcome: Compared | Searched
    sentence: Annotated[str, "Outcome, for display."]
    unsearched: Annotated[str, "Why there is no search for the commit of a drop, or empty."] = ""
    differences: Annotated[
        tuple[Difference, ...], "Published differences, the leading scenario first."
    ]
    retest: Annotated[tuple[Difference, ...], "Differences of interleaved boots of both ends."]
    culprits: Annotated[tuple[VerifiedCommit, ...], "Verified commits."] = ()
    suspects: Annotated[tuple[str, ...], "Commits that measurements cannot separate."] = ()
    chances: Annotated[Chances | None, "Null before the first posterior."] = None
    steps: tuple[StepDocument, ...] = ()
    marks: Annotated[
        tuple[CommitMark, ...], "Marks by users, oldest first; the last one of a commit counts."
    ] = ()
    spent: Cost = field(default_factory=Cost)
    pps: Annotated[
        dict[str, dict[str, tuple[float, ...]]],
        "Values per boot by scenario and revision, in the unit of the series. The boots "
        "behind a difference are the latest of both sides.",
    ]
    levels: Annotated[
        tuple[LevelDocument, ...],
        "Levels of the leading scenario on the testbed around the change.",
    ]
    skipped: Annotated[dict[str, str], "Reasons by revision that could not be measured."]
    failures: tuple[KernelFailure, ...] = ()
    conditions: Annotated[dict[str, str], "Conditions of the boots."]
    command: Annotated[str, "Command that measures the difference again, or empty."] = ""
    committer: Annotated[str, "Mail address of the committer of the first culprit, or empty."] = ""
    diffstat: Annotated[str, "`git diff --stat` of the first culprit."] = ""
    diff: Annotated[
        str, "Diff of the first culprit in the files most relevant for the testbed, 80 lines."
    ] = ""
    backports: Annotated[
        tuple[str, ...], "Sentences about the culprit on the stable branches."
    ] = ()
    unaffected: Annotated[
        tuple[str, ...], "Testbeds and scenarios with the same commits and no change."
    ] = ()
    testbeds: Annotated[
        tuple[str, ...], "Testbeds of the search; empty if it used its own alone."
    ] = ()
    shown: Annotated[str, "Testbed of the boots in `pps`, if there are several."] = ""
    stand_ins: Annotated[
        dict[str, str],
        "Booted revision with the same kernel image, by revision that was not booted.",
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
    def posterior(self) -> Posterior | None:
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
