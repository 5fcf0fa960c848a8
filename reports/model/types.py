"""Documents: their fields are the published JSON schema.

The field `format` has the name and version of a document; fields may be added within a
version, and none goes or changes its meaning. Times are seconds since the epoch, UTC.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias

from netbisect.bisect.model.alert_change import ChangeBasis
from netbisect.bisect.model.alert_state import AlertKind, AlertState, HistoryEntry
from netbisect.bisect.model.detection_results import (
    DetectionRecord,
    RepeatedNights,
    SeriesReport,
    SplitHalfTest,
)
from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.evidence import Cost
from netbisect.bisect.model.metric import SeriesMetric, metric_of
from netbisect.bisect.model.results import Effect, Posterior

Time: TypeAlias = Annotated[float, "Seconds since the epoch, UTC."]
Seconds: TypeAlias = Annotated[float, "Seconds."]
Pps: TypeAlias = Annotated[float, "Packets per second."]
Chance: TypeAlias = Annotated[float, "A probability, 0 to 1."]
Hash: TypeAlias = Annotated[str, "Full hash of a commit, or its name in an imported history."]
Address: TypeAlias = Annotated[str, "Address of a page for people; empty if none."]
Percent: TypeAlias = Annotated[float, "Percent of the good side; negative is slower."]
LnRatio: TypeAlias = Annotated[float, "ln of bad over good; negative is slower."]

Kind: TypeAlias = Literal["Night", "Comparison", "Bisection", "Profiling", "Measurement"]
RequestKind: TypeAlias = Literal["compare", "bisect", "series"]
RequestChange: TypeAlias = Literal["ask", "cancel", "resume", "extend", "priority", "answer"]
HASH_LENGTH = 12
"""As FreeBSD's newvers.sh shortens a hash."""


def short_label(label: str) -> str:
    """The part of a label that fits under an axis: n302145; without a number, the hash."""
    return label.split("-", maxsplit=1)[0][:HASH_LENGTH]


@dataclass(frozen=True, slots=True)
class RevisionDocument:
    """A commit."""

    revision: Hash
    label: Annotated[str, "What people call it, such as n302145-0a1b2c3d4e5f."]
    subject: Annotated[str, "First line of its message; empty without the tree."]
    author: str
    at: Annotated[float | None, "When it was committed; null where that is not known."]
    address: Address
    email: Annotated[str, "Of the author; empty if not known."] = ""
    trailers: Annotated[
        tuple[tuple[str, str], ...], "Names and values of those about its review and its MFC."
    ] = ()

    @classmethod
    def of(
        cls, commit: Commit, address: str = "", trailers: Sequence[tuple[str, str]] = ()
    ) -> Self:
        """The document of a known commit."""
        name, label, subject = commit.revision, commit.label, commit.subject
        author, email = commit.author, commit.email
        return cls(name, label, subject, author, commit.at, address, email, tuple(trailers))

    @property
    def short(self) -> str:
        """Its short label."""
        return short_label(self.label)


@dataclass(frozen=True, slots=True)
class Difference:
    """A change of level in a scenario, with its 95 % interval; null is an end that is open."""

    scenario: str
    percent: Percent
    percent_low: Percent | None
    percent_high: Percent | None
    ln_ratio: LnRatio
    ln_low: LnRatio | None
    ln_high: LnRatio | None
    p: Chance | None
    good_boots: int
    bad_boots: int

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """The document of an effect; ends that are not finite are open."""
        metric = metric_of(effect.scenario)
        low, high = metric.ends(effect.low, effect.high)
        return cls(
            scenario=effect.scenario,
            percent=_percent(metric, effect.ln_ratio) or 0.0,
            percent_low=_percent(metric, low),
            percent_high=_percent(metric, high),
            ln_ratio=effect.ln_ratio,
            ln_low=_finite(effect.low),
            ln_high=_finite(effect.high),
            p=_finite(effect.p),
            good_boots=effect.good_boots,
            bad_boots=effect.bad_boots,
        )

    @property
    def low(self) -> float:
        """Lower end of the interval, as an ln ratio."""
        return -math.inf if self.ln_low is None else self.ln_low

    @property
    def high(self) -> float:
        """Upper end of the interval, as an ln ratio."""
        return math.inf if self.ln_high is None else self.ln_high


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _percent(metric: SeriesMetric, ln_ratio: float) -> float | None:
    """As a percentage of the good side; None for an open end, or one too large."""
    try:
        return _finite(metric.percent(ln_ratio))
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class SeenIn:
    """A series of the testbeds of an alert, at the time of its announcement."""

    testbed: str
    scenario: str
    branch: str
    good: Hash
    bad: Hash
    moved: bool
    difference: Annotated[Difference | None, "Null where it was seen and not measured again."]
    at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDocument:
    """A confirmed change of level, from the first suspicion until it is over."""

    format: Literal["netbisect-alert/1"] = "netbisect-alert/1"
    number: int
    id: Annotated[str, "Of the alert in the feed too; it never changes."]
    kind: AlertKind
    state: AlertState
    branch: str
    testbed: str
    lead: Annotated[str, "The scenario that decides."]
    good: RevisionDocument
    bad: RevisionDocument
    culprit: Annotated[RevisionDocument | None, "Null while no commit is verified."]
    differences: Annotated[tuple[Difference, ...], "As announced last, the leading one first."]
    basis: Annotated[ChangeBasis, "Measurements behind the differences."]
    series: tuple[SeenIn, ...]
    comparison: Annotated[int | None, "Number of the comparison that confirmed it."]
    bisection: Annotated[int | None, "Number of the search for its commit."]
    opened_at: Time
    announced_at: Time | None
    closed_at: Time | None
    muted_until: Time | None
    recovery: Annotated[str, "First revision whose level was back; empty while it is not known."]
    merged_into: Annotated[int | None, "Number of the alert that stands for this one."]
    history: tuple[HistoryEntry, ...]
    address: Address

    @property
    def since(self) -> float:
        """When it was announced, or else opened."""
        return self.opened_at if self.announced_at is None else self.announced_at

    @property
    def changed_at(self) -> float:
        """When it was changed last."""
        return self.history[-1].at if self.history else self.since


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job of the lab."""

    id: int
    kind: Kind
    branch: str
    testbed: str
    opened_at: Time
    decisions: Annotated[int, "Orders so far."]
    now: Annotated[str, "The last order, for people; empty while it waits for the first."]
    belief: Annotated[Posterior | None, "As of the last decision; null before any."]


@dataclass(frozen=True, slots=True)
class AlertSummary:
    """An alert in brief."""

    id: int
    kind: AlertKind
    branch: str
    testbed: str
    lead: str
    ln_ratio: LnRatio | None
    percent: Percent | None
    good: Hash
    bad: Hash
    culprit: Annotated[str, "Revision; empty while there is none."]
    state: AlertState
    standing: Annotated[bool, "The change is there and counts."]
    opened_at: Time
    title: Annotated[str, "Name of the leading scenario for people."]
    since: Annotated[float, "When it was announced, or else opened."]
    difference: Annotated[Difference | None, "Of the leading scenario, as announced last."]
    basis: Annotated[ChangeBasis, "Measurements behind the difference."]
    changes: Annotated[
        dict[str, Difference | None],
        "By scenario that moved on this testbed: the difference announced last.",
    ]
    others: Annotated[int, "Number of further series that moved."]
    muted_until: Time | None
    recovery: Annotated[str, "First revision whose level was back; empty while it is not known."]
    merged_into: Annotated[int | None, "Number of the alert that stands for this one."]
    changed_at: Annotated[float, "Time of the last action on it."]


@dataclass(frozen=True, slots=True)
class QuarantineDocument:
    """A testbed without jobs until its owner releases it."""

    id: int
    testbed: str
    since: Time
    fault: Annotated[str, "Its name in the table of faults; empty when put there by hand."]
    why: str
    by: str
    wanted_at: Annotated[float | None, "Time at which its release was requested."]
    wanted_by: str
    note: str
    refused: Annotated[str, "Why it was not released; empty if that never happened."]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """Current status of the lab."""

    format: Literal["netbisect-status/1"] = "netbisect-status/1"
    at: Time
    jobs: tuple[OpenJob, ...]
    alerts: Annotated[tuple[AlertSummary, ...], "The newest first."]
    quarantines: tuple[QuarantineDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthDocument:
    """Health of the monitoring; docs/operations.md explains the fields."""

    format: Literal["netbisect-health/1"] = "netbisect-health/1"
    at: Time
    series: tuple[SeriesReport, ...]
    record: DetectionRecord
    halves: Annotated[SplitHalfTest, "Boots of one image, one half compared with the other."]
    repeats: Annotated[RepeatedNights, "Nights that measured a kernel again."]
    warnings: Annotated[tuple[str, ...], "What is off, a sentence each."]


@dataclass(frozen=True, slots=True)
class ComparedRevision:
    """A revision compared with the first one, in a scenario on a testbed."""

    testbed: str
    run: Annotated[int, "2 for what repeats the first."]
    scenario: str
    subject: str
    difference: Annotated[Difference | None, "Of the two kernels; null if none."]
    code_low: Annotated[LnRatio | None, "95 % interval of the code: offsets of images count."]
    code_high: LnRatio | None
    word: Literal["slower", "faster", "no regression", "inconclusive"]
    why: Annotated[str, "Why there is no difference; empty if there is one."]


@dataclass(frozen=True, slots=True)
class ComparedSetting:
    """A setting compared with the scenario without it, on the kernel of one revision."""

    testbed: str
    run: Annotated[int, "2 for what repeats the first."]
    scenario: str
    setting: Annotated[str, "NAME=VALUE,sysctl:NAME=VALUE"]
    subject: str
    difference: Annotated[Difference, "Of pairs of runs, one per trial."]


@dataclass(frozen=True, slots=True)
class SecondRun:
    """The second run of a difference compared with the first."""

    testbed: str
    scenario: str
    subject: str
    ln_ratio: LnRatio
    ln_low: LnRatio
    ln_high: LnRatio
    consistent: bool

    @property
    def low(self) -> float:
        """Lower end of the interval, as an ln ratio."""
        return self.ln_low

    @property
    def high(self) -> float:
        """Upper end of the interval, as an ln ratio."""
        return self.ln_high


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A job of a request: one for each testbed and run, and their follow-ups."""

    job: int
    kind: Kind
    testbed: str
    run: int
    scenarios: tuple[str, ...]
    state: Literal["open", "closed", "held"]
    boots: Annotated[int, "That were made, or count though others have made them."]
    boots_wanted: Annotated[int, "Of a search, at most."]
    place: Annotated[int | None, "In the queue of its testbed, from 1; null when it is over."]
    seconds_left: Annotated[float | None, "About, with what comes first; null when it is over."]
    now: Annotated[str, "What is done for it, or why it waits; empty when it is over."]
    sentence: Annotated[str, "Its answer; empty before."]


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """A change of a request."""

    at: Time
    who: str
    via: str
    what: RequestChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDocument:
    """A request and its results."""

    format: Literal["netbisect-request/1"] = "netbisect-request/1"
    number: int
    kind: RequestKind
    state: Literal["open", "answered", "cancelled", "failed"]
    verdict: Annotated[
        str, "regression, no regression, inconclusive or failed; empty before the answer."
    ]
    status: Annotated[int | None, "Exit status of a command that waited; null before the answer."]
    sentence: Annotated[str, "The answer, or why there is none; empty before."]
    who: str
    via: str
    priority: str
    branch: str
    subjects: Annotated[tuple[str, ...], "Revisions as they are measured; HASH+MARK with a patch."]
    labels: Annotated[tuple[str, ...], "The same for people."]
    boots: Annotated[int, "Of each revision."]
    runs: int
    margin_percent: Annotated[float, "A drop that matters."]
    parts: tuple[RequestPart, ...]
    differences: tuple[ComparedRevision, ...]
    settings: tuple[ComparedSetting, ...]
    repeats: tuple[SecondRun, ...]
    remarks: Annotated[tuple[str, ...], "Sentences about undecided differences."] = ()
    values: Annotated[tuple[str, ...], "Addresses of its folders of values."] = ()
    spent: Cost
    opened_at: Time
    closed_at: Time | None
    history: tuple[RequestEntry, ...]
    address: Address

    @property
    def margin(self) -> float:
        """A drop that matters, as |ln ratio|."""
        return -math.log1p(-self.margin_percent / 100)
