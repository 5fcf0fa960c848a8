"""Requests and responses of the API that are no published documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from netbisect.reports.model.types import Hash, RequestKind, Seconds, Time

Names: TypeAlias = tuple[str, ...]
RequestState: TypeAlias = Literal["open", "answered", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class PatchBody:
    """A diff, as `diff` or `base64`: one more subject, its base revision with the diff applied."""

    diff: Annotated[str, "As text."] = ""
    base64: Annotated[str, "As bytes, for a diff that is not UTF-8."] = ""
    base: Annotated[str, "Base revision; default: the first subject."] = ""


@dataclass(frozen=True, slots=True)
class AskBody:
    """A new request."""

    kind: RequestKind
    subjects: Annotated[
        Names,
        "Revisions; REV+D5180 with the patch of a review, D5180 for the first revision with it; "
        "for a search A..B, or B alone.",
    ] = ()
    patches: tuple[PatchBody, ...] = ()
    testbeds: Annotated[Names, "Optional if the lab has one."] = ()
    scenarios: Annotated[Names, "The leading one first; `all` for all of the testbed."] = ()
    tunables: Annotated[
        Names,
        "NAME=VALUE,sysctl:NAME=VALUE,...; each measures the scenarios once more, with these "
        "tunables and sysctls.",
    ] = ()
    branch: Annotated[str, "Default: the first watched branch."] = ""
    boots: Annotated[int | None, "Boots per revision."] = None
    repeat: Annotated[bool, "Whether a second run with separate boots follows."] = False
    fresh: Annotated[bool, "Whether boots of other requests are ignored."] = False
    margin_percent: Annotated[float | None, "Relevant drop, in percent."] = None
    hours: Annotated[float | None, "Lab hours of a search."] = None
    priority: Literal["low", "normal", "high"] = "normal"
    address: Annotated[str, "Mail address for the result, or empty."] = ""
    dry_run: Annotated[bool, "Whether only the cost is estimated."] = False


@dataclass(frozen=True, slots=True)
class CancelBody:
    """Why a request is cancelled."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class ResumeBody:
    """No content."""


@dataclass(frozen=True, slots=True)
class ExtendBody:
    """More boots of each revision, or more hours of a search."""

    boots: int = 0
    hours: float = 0.0


@dataclass(frozen=True, slots=True)
class PriorityBody:
    """Another priority."""

    priority: Literal["low", "normal", "high"]


@dataclass(frozen=True, slots=True)
class SearchEstimate:
    """Approximate cost of a search after the comparison of its ends, with the verification."""

    commits: Annotated[int, "Number of commits in the range."]
    builds: int
    boots: int
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class TestbedCost:
    """Maximum cost of a request on a testbed."""

    testbed: str
    builds: Annotated[Names, "Revisions whose kernels are not built yet."]
    boots: int
    shared: Annotated[int, "Existing boots that count."]
    seconds: Seconds
    search: Annotated[SearchEstimate | None, "Search if the ends of the range differ."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Cost of a request that is not queued."""

    format: Literal["netbisect-cost/1"] = "netbisect-cost/1"
    testbeds: tuple[TestbedCost, ...]
    build_seconds: Annotated[float, "Time of builders, each kernel once."]


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request in a list."""

    number: int
    kind: RequestKind
    state: RequestState
    verdict: str
    who: str
    via: str
    subjects: Names
    labels: Annotated[Names, "Display names of the subjects."]
    testbeds: Names
    opened_at: Time
    closed_at: Time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestList:
    """Requests, newest first."""

    format: Literal["netbisect-requests/1"] = "netbisect-requests/1"
    requests: tuple[RequestLine, ...]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A change of a request."""

    number: int
    at: Time
    who: str
    via: str
    what: str
    data: Annotated[dict[str, str], "Further details."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLog:
    """All changes of a request, oldest first."""

    format: Literal["netbisect-log/1"] = "netbisect-log/1"
    number: int
    entries: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An accepted or refused action of a user."""

    number: int
    at: Time
    who: str
    via: str
    origin: Annotated[str, "Network address; empty for the host of the service."]
    what: str
    request: int | None
    data: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Actions of users, oldest first."""

    format: Literal["netbisect-audit/1"] = "netbisect-audit/1"
    entries: tuple[AuditLine, ...]


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """A commit, by all its names."""

    revision: Hash
    label: Annotated[str, "Such as n302145-0a1b2c3d4e5f."]
    number: int
    branches: Names
    subversion: Names
    date: str
    author: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionMatches:
    """Meaning of a revision name: a commit, a review with or without its base, or a range."""

    format: Literal["netbisect-name/1"] = "netbisect-name/1"
    name: str
    kind: Literal["commit", "review", "range"]
    commit: Annotated[NamedCommit | None, "The commit, or the base of a review."] = None
    review: str = ""
    good: Annotated[NamedCommit | None, "Older end of a range, which is not part of it."] = None
    bad: Annotated[NamedCommit | None, "Last commit of a range."] = None
    commits: Annotated[int | None, "Number of commits of a range."] = None


@dataclass(frozen=True, slots=True)
class RevisionMatch:
    """A possible meaning of an ambiguous name, with its unambiguous name."""

    name: str
    revision: Hash
    label: str
    date: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller and its rights."""

    format: Literal["netbisect-caller/1"] = "netbisect-caller/1"
    who: Annotated[str, "Empty for an anonymous user."]
    rights: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refusal with its reason."""

    format: Literal["netbisect-refusal/1"] = "netbisect-refusal/1"
    error: Annotated[str, "Sentence."]
    faults: Annotated[dict[str, str], "Messages by field, with the error and the expectation."]
    candidates: Annotated[tuple[RevisionMatch, ...], "Possible meanings of an ambiguous name."] = ()
