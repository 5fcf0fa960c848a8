"""A drop, from the alert to the result of its search.

No logic here but names. Sequences of boots and attempts are oldest first; mappings keep the order
in which they were filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netbisect.bisect.model.alert_state import HistoryEntry
from netbisect.bisect.model.entities import (
    Commit,
    Level,
    Profile,
)
from netbisect.bisect.model.evidence import Cost
from netbisect.bisect.model.profile_stacks import Stacks
from netbisect.bisect.model.results import (
    Confirmed,
    Culprit,
    Drift,
    NotReproduced,
    Posterior,
    SeveralCulprits,
    Suspects,
    Unfinished,
)

Ending: TypeAlias = Culprit | SeveralCulprits | Suspects | Drift | NotReproduced | Unfinished
"""How a search ends."""

HASH_LENGTH = 12
"""As FreeBSD's newvers.sh shortens a hash."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One step of a case: a build, or a boot with its runs."""

    seq: int
    stage: Literal["kernel", "trial"]
    revision: str
    why: str
    """Why the search chose it."""
    outcome: str
    """How it went, in a few words; for a boot without result, why there is none."""
    belief: Posterior | None
    """The posterior before it."""
    ln_pps: float | None
    """Of the leading scenario; None where nothing was measured."""
    at: float
    """Seconds since the epoch."""
    seconds: float
    testbed: str = ""
    """Of a boot, where; empty: on that of the case."""


@dataclass(frozen=True, slots=True)
class KernelFailure:
    """A kernel that did not boot, or panicked, with its console log."""

    revision: str
    scenario: str
    """Scenario under which it went down; empty before the first one."""
    why: str
    log: str
    """The panic with its backtrace, or the end of the console or build log."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of related pages; empty ones are left out."""

    alert: str = ""
    """Address of the page of this case."""
    commit: str = ""
    """Address of a commit, with `{revision}` where its hash belongs."""
    review: str = "https://reviews.freebsd.org/{review}"
    """Address of a review, with `{review}` where its number, such as D12345, belongs."""

    def to_commit(self, revision: str) -> str:
        """Address of that commit; empty if none."""
        return self.commit.replace("{revision}", revision)

    def to_review(self, review: str) -> str:
        """Address of that review; empty if none."""
        return self.review.replace("{review}", review)


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile with its stacks."""

    profile: Profile
    stacks: Stacks


@dataclass(frozen=True, slots=True)
class ProfilePair:
    """Profiles of two kernels, or of one."""

    revisions: tuple[str, ...]
    """The earlier one first."""
    taken: tuple[StoredProfile, ...]
    """One for each, or none."""
    missing: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A drop on a testbed, with all data of its mails and pages."""

    number: int
    branch: str
    testbed: str
    hardware: str
    """Processor and network card; may be empty."""
    titles: Mapping[str, str]
    """Display names by scenario."""
    lead: str
    """The scenario that decides."""
    good: Commit
    bad: Commit
    commits: tuple[Commit, ...]
    """The candidates, oldest first: after `good`, to `bad` and with it."""
    confirmed: Confirmed | None
    pps: Mapping[str, Mapping[str, Sequence[float]]]
    """By scenario and revision: packets per second > 0, one value per boot, oldest first. The
    boots that a published effect counts are the latest ones of both its sides."""
    series: Mapping[str, Sequence[Level]]
    """By scenario: the nightly levels, oldest first."""
    labels: Mapping[str, str]
    """By revision: its short name, such as n302145-0a1b2c3d4e5f."""
    finding: Ending | None = None
    """None while the search runs."""
    attempts: tuple[Attempt, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """By revision: why it could not be measured."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """By revision: mark by a user, such as "marked good by ann: ..."."""
    failures: tuple[KernelFailure, ...] = ()
    """Each of them once, oldest first."""
    cost: Cost = field(default_factory=Cost)
    conditions: Mapping[str, str] = field(default_factory=dict)
    links: Links = Links()
    command: str = ""
    """A shell command that measures the difference again."""
    committer: str = ""
    """Mail address of the committer of the verified commit; empty: that of its author."""
    diffstat: str = ""
    """Of the verified commit, as `git diff --stat` prints it."""
    stable: tuple[str, ...] = ()
    """Sentences about the culprit on the stable branches."""
    unmoved: tuple[str, ...] = ()
    """Testbeds and scenarios with the same commits and no change."""
    history: tuple[HistoryEntry, ...] = ()
    """History of the alert, oldest first."""
    profiles: tuple[ProfilePair, ...] = ()
    """Of every culprit and its parent, if available."""
    testbeds: tuple[str, ...] = ()
    """Testbeds of the search; none if it used its own alone."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """By culprit or parent that the search did not boot: the one with the same kernel image that it
    booted instead."""
    shown: str = ""
    """Of these, the one whose boots are in `pps`; effects count the boots of all of them."""

    def label(self, revision: str) -> str:
        """Short name of a revision."""
        return self.labels.get(revision, revision[:HASH_LENGTH])

    def title(self, scenario: str) -> str:
        """Display name of a scenario."""
        return self.titles.get(scenario, scenario)

    def commit(self, revision: str) -> Commit | None:
        """The commit of that revision, if it is part of the case."""
        for commit in (self.good, *self.commits):
            if commit.revision == revision:
                return commit
        return None

    def boots(self, scenario: str, revision: str) -> Sequence[float]:
        """Packets per second, one value per boot; empty when there was none."""
        return self.pps.get(scenario, {}).get(revision, ())
