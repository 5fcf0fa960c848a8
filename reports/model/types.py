"""Documents: their fields are the published JSON schema.

The field `format` has the name and version of a document; fields may be added within a
version, and none goes or changes its meaning. Times are seconds since the epoch, UTC.
"""

from __future__ import annotations

import math
import re
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
from netbisect.bisect.model.evidence import Cost
from netbisect.bisect.model.metric import SeriesMetric, metric_of
from netbisect.bisect.model.results import Effect, Posterior

Time: TypeAlias = Annotated[float, "Seconds since the epoch, UTC."]
Seconds: TypeAlias = Annotated[float, "Seconds."]
Pps: TypeAlias = Annotated[float, "Packets per second."]
Chance: TypeAlias = Annotated[float, "A probability, 0 to 1."]
Hash: TypeAlias = Annotated[str, "Full hash of a commit, or its name in an imported history."]
Address: TypeAlias = Annotated[str, "Address of a page for people; empty if none."]
Percent: TypeAlias = Annotated[float, "Change of the number in percent of the good side."]
LnRatio: TypeAlias = Annotated[float, "ln of bad over good; negative is worse."]

Kind: TypeAlias = Literal["Night", "Comparison", "Bisection", "Profiling", "Measurement"]
RequestKind: TypeAlias = Literal["compare", "bisect", "series"]
RequestChange: TypeAlias = Literal["ask", "cancel", "resume", "extend", "priority", "answer"]
NOISY_PERCENT = 10
NOISY = -math.log1p(-NOISY_PERCENT / 100)
"""Smallest drop that one night detects, above which a series is noisy; a ln ratio."""
HASH_LENGTH = 12
"""As FreeBSD's newvers.sh shortens a hash."""
_HASH = re.compile(r"[0-9a-f]{40}")


def short_label(label: str) -> str:
    """The part of a label that fits under an axis: n302145; without a number, the hash."""
    return label.split("-", maxsplit=1)[0][:HASH_LENGTH]


def short_hash(revision: str) -> str:
    """The beginning of a hash; another name, such as release-14.2, as it is."""
    return revision[:HASH_LENGTH] if _HASH.fullmatch(revision) else revision


@dataclass(frozen=True, slots=True)
class RevisionDocument:
    """A commit."""

    revision: Hash
    label: Annotated[str, "Display name, such as n302145-0a1b2c3d4e5f."]
    subject: Annotated[str, "First line of the message; empty without the tree."]
    author: str
    at: Annotated[float | None, "Commit time; null if unknown."]
    address: Address
    email: Annotated[str, "Mail address of the author; empty if unknown."] = ""
    trailers: Annotated[
        tuple[tuple[str, str], ...], "Names and values of the trailers about review and MFC."
    ] = ()

    @property
    def short(self) -> str:
        """Short label."""
        return short_label(self.label)


@dataclass(frozen=True, slots=True)
class Difference:
    """A change of level in a scenario, with its 95 % interval; null for an open end."""

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
    difference: Annotated[Difference | None, "Null if not measured again."]
    at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDocument:
    """A confirmed change of level, from the first suspicion to its end."""

    format: Literal["netbisect-alert/1"] = "netbisect-alert/1"
    number: int
    id: Annotated[str, "Permanent identifier, also in the feed."]
    kind: AlertKind
    state: AlertState
    branch: str
    testbed: str
    lead: Annotated[str, "Leading scenario."]
    good: RevisionDocument
    bad: RevisionDocument
    culprit: Annotated[RevisionDocument | None, "Verified commit, or null."]
    differences: Annotated[
        tuple[Difference, ...], "Latest announcement, the leading scenario first."
    ]
    basis: Annotated[ChangeBasis, "Measurements behind the differences."]
    series: tuple[SeenIn, ...]
    comparison: Annotated[int | None, "Number of the comparison that confirmed the change."]
    bisection: Annotated[int | None, "Number of the search for the commit."]
    opened_at: Time
    announced_at: Time | None
    closed_at: Time | None
    muted_until: Time | None
    recovery: Annotated[str, "First revision with the recovered level; empty if unknown."]
    merged_into: Annotated[int | None, "Number of the alert that replaces this one."]
    history: tuple[HistoryEntry, ...]
    address: Address

    @property
    def since(self) -> float:
        """Time of the announcement, or else of the opening."""
        return self.opened_at if self.announced_at is None else self.announced_at

    @property
    def changed_at(self) -> float:
        """Time of the last change."""
        return self.history[-1].at if self.history else self.since


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job of the lab."""

    id: int
    kind: Kind
    branch: str
    testbed: str
    opened_at: Time
    decisions: Annotated[int, "Number of decisions so far."]
    now: Annotated[str, "Last decision, for display; empty before the first."]
    posterior: Annotated[Posterior | None, "Posterior at the last decision, or null."]


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
    culprit: Annotated[str, "Hash of the verified commit, or empty."]
    state: AlertState
    standing: Annotated[bool, "Whether the change is present and counts."]
    opened_at: Time
    title: Annotated[str, "Display name of the leading scenario."]
    since: Annotated[float, "Time of the announcement, or else of the opening."]
    difference: Annotated[Difference | None, "Latest announcement for the leading scenario."]
    basis: Annotated[ChangeBasis, "Measurements behind the difference."]
    changes: Annotated[
        dict[str, Difference | None],
        "Latest announced difference by scenario that moved on this testbed.",
    ]
    others: Annotated[int, "Number of further series that moved."]
    series: Annotated[tuple[SeenIn, ...], "Latest announcement of each series that moved."]
    muted_until: Time | None
    recovery: Annotated[str, "First revision with the recovered level; empty if unknown."]
    merged_into: Annotated[int | None, "Number of the alert that replaces this one."]
    changed_at: Annotated[float, "Time of the last change."]

    def is_on(self, *, testbed: str = "", branch: str = "") -> bool:
        """Whether a series of this testbed and branch moved; "" for any."""
        places = {(self.testbed, self.branch), *((one.testbed, one.branch) for one in self.series)}
        return any(testbed in ("", on) and branch in ("", of) for on, of in places)


@dataclass(frozen=True, slots=True)
class QuarantineDocument:
    """A testbed in quarantine, without jobs until its owner releases it."""

    id: int
    testbed: str
    since: Time
    fault: Annotated[str, "Name in the table of faults; empty for a manual quarantine."]
    why: str
    by: str
    wanted_at: Annotated[float | None, "Time of the request for release."]
    wanted_by: str
    note: str
    refused: Annotated[str, "Reason of the last refused release, or empty."]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDocument:
    """Current status of the lab."""

    format: Literal["netbisect-status/1"] = "netbisect-status/1"
    at: Time
    jobs: tuple[OpenJob, ...]
    alerts: Annotated[tuple[AlertSummary, ...], "The newest first."]
    quarantines: tuple[QuarantineDocument, ...]


@dataclass(frozen=True, slots=True)
class MissingScenarios:
    """Scenarios of a night without a sample, by reason."""

    place: str
    """Testbed and branch, for display."""
    scenarios: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDocument:
    """The nights and alerts of a day."""

    format: Literal["netbisect-digest/1"] = "netbisect-digest/1"
    since: Time
    until: Time
    planned: Annotated[int, "Number of planned series."]
    measured: int
    missing: tuple[MissingScenarios, ...] = ()
    unchanged: Annotated[tuple[str, ...], "Testbeds and branches without new commits."] = ()
    drops: Annotated[tuple[AlertSummary, ...], "New drops."] = ()
    gains: Annotated[tuple[AlertSummary, ...], "New improvements."] = ()
    other: Annotated[tuple[AlertSummary, ...], "Changes in the share of slow boots."] = ()
    over: Annotated[tuple[AlertSummary, ...], "Ended alerts."] = ()
    standing: Annotated[tuple[AlertSummary, ...], "Other open drops."] = ()
    searches: Annotated[tuple[str, ...], "Sentences about running searches."] = ()
    drifts: Annotated[tuple[str, ...], "Sentences about series that drift."] = ()
    warnings: Annotated[tuple[str, ...], "Sentences about data."] = ()
    page: Address = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthDocument:
    """Health of the detection; noise and changes are ln ratios."""

    format: Literal["netbisect-health/1"] = "netbisect-health/1"
    at: Time
    series: tuple[SeriesReport, ...]
    record: DetectionRecord
    halves: Annotated[SplitHalfTest, "One half of the boots of an image compared with the other."]
    repeats: Annotated[RepeatedNights, "Nights that measured a kernel again."]
    warnings: Annotated[tuple[str, ...], "Sentences."]


@dataclass(frozen=True, slots=True)
class ComparedRevision:
    """A revision compared with the first one, in a scenario on a testbed."""

    testbed: str
    run: Annotated[int, "2 for the repetition."]
    scenario: str
    subject: str
    difference: Annotated[Difference | None, "Difference of the two kernels, or null."]
    code_low: Annotated[
        LnRatio | None, "95 % interval of the code, which includes offsets of images."
    ]
    code_high: LnRatio | None
    word: Literal["slower", "faster", "no regression", "inconclusive"]
    why: Annotated[str, "Reason for a missing difference, or empty."]


@dataclass(frozen=True, slots=True)
class ComparedSetting:
    """A setting compared with the scenario without it, on the kernel of one revision."""

    testbed: str
    run: Annotated[int, "2 for the repetition."]
    scenario: str
    setting: Annotated[str, "NAME=VALUE,sysctl:NAME=VALUE"]
    subject: str
    difference: Annotated[Difference, "Difference of pairs of runs, one pair per trial."]


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


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A job of a request: one for each testbed and run, and their follow-ups."""

    job: int
    kind: Kind
    testbed: str
    run: int
    scenarios: tuple[str, ...]
    state: Literal["open", "closed", "held"]
    boots: Annotated[int, "Boots so far, including shared ones."]
    boots_wanted: Annotated[int, "Maximum; an estimate for searches."]
    place: Annotated[int | None, "Place in the queue of the testbed, from 1; null after the end."]
    seconds_left: Annotated[
        float | None, "Estimate, including the jobs before it; null after the end."
    ]
    now: Annotated[str, "Current action, or reason of waiting; empty after the end."]
    sentence: Annotated[str, "Result; empty before."]


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
        str, "regression, no regression, inconclusive or failed; empty before the result."
    ]
    status: Annotated[int | None, "Exit status of a waiting command; null before the result."]
    sentence: Annotated[str, "Result, or reason for its absence; empty before."]
    who: str
    via: str
    priority: str
    branch: str
    subjects: Annotated[tuple[str, ...], "Measured revisions; HASH+MARK with a patch."]
    labels: Annotated[tuple[str, ...], "Display names of the subjects."]
    boots: Annotated[int, "Boots per revision."]
    runs: int
    margin_percent: Annotated[float, "Relevant drop, in percent."]
    parts: tuple[RequestPart, ...]
    differences: tuple[ComparedRevision, ...]
    settings: tuple[ComparedSetting, ...]
    repeats: tuple[SecondRun, ...]
    remarks: Annotated[tuple[str, ...], "Sentences about undecided differences."] = ()
    values: Annotated[tuple[str, ...], "Addresses of the folders with values."] = ()
    spent: Cost
    opened_at: Time
    closed_at: Time | None
    history: tuple[RequestEntry, ...]
    address: Address

    @property
    def margin(self) -> float:
        """A drop that matters, as |ln ratio|."""
        return -math.log1p(-self.margin_percent / 100)
