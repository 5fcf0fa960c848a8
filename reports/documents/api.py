"""Requests and responses of the API that are no published documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from netbisect.reports.model.types import Hash, Seconds, Time

Names: TypeAlias = tuple[str, ...]

# ----------------------------------------------------------------------------- what is sent


@dataclass(frozen=True, slots=True)
class PatchBody:
    """A diff, as `diff` or `base64`: one more subject, its base revision with the diff applied."""

    diff: Annotated[str, "As text."] = ""
    base64: Annotated[str, "As bytes, where it is not UTF-8."] = ""
    base: Annotated[str, "The revision that it is for; the first subject when left out."] = ""


@dataclass(frozen=True, slots=True)
class AskBody:
    """A new request."""

    kind: Literal["compare", "bisect", "series"]
    subjects: Annotated[
        Names,
        "Revisions; REV+D5180 with a review's patch, D5180 alone for the first one with it; of a "
        "search A..B, or B alone.",
    ] = ()
    patches: tuple[PatchBody, ...] = ()
    testbeds: Annotated[Names, "Optional if the lab has one."] = ()
    scenarios: Annotated[Names, "The leading one first; `all` for all of the testbed."] = ()
    tunables: Annotated[
        Names,
        "NAME=VALUE,sysctl:NAME=VALUE,...; each measures the scenarios once more, with these "
        "tunables and sysctls.",
    ] = ()
    branch: Annotated[str, "The first that is watched when left out."] = ""
    boots: Annotated[int | None, "Of each revision."] = None
    repeat: Annotated[bool, "Whether a second run with separate boots follows."] = False
    fresh: Annotated[bool, "Whether boots that were made for others do not count."] = False
    margin_percent: Annotated[float | None, "A drop that matters."] = None
    hours: Annotated[float | None, "Of the lab, for a search."] = None
    priority: Literal["low", "normal", "high"] = "normal"
    address: Annotated[str, "Where the answer is mailed to; empty for nowhere."] = ""
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


# ------------------------------------------------------------------------------ responses


@dataclass(frozen=True, slots=True)
class SearchEstimate:
    """Approximate cost of a search after the comparison of its ends, with the verification."""

    commits: Annotated[int, "Among which one is searched for."]
    builds: int
    boots: int
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class TestbedCost:
    """Maximum cost of a request on a testbed."""

    testbed: str
    builds: Annotated[Names, "Revisions whose kernels are not built yet."]
    boots: int
    shared: Annotated[int, "Boots that were made already, and count."]
    seconds: Seconds
    search: Annotated[SearchEstimate | None, "What follows if the ends of a range differ."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Cost of a request that is not queued."""

    format: Literal["netbisect-cost/1"] = "netbisect-cost/1"
    testbeds: tuple[TestbedCost, ...]
    build_seconds: Annotated[float, "Of builders; each kernel once."]


@dataclass(frozen=True, slots=True)
class RequestLine:
    """A request in a list."""

    number: int
    kind: Literal["compare", "bisect", "series"]
    state: Literal["open", "answered", "cancelled", "failed"]
    verdict: str
    who: str
    via: str
    subjects: Names
    labels: Annotated[Names, "The subjects for people."]
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
    deeds: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An accepted or refused action of a user."""

    number: int
    at: Time
    who: str
    via: str
    origin: Annotated[str, "From where; empty for the service's own host."]
    what: str
    request: int | None
    data: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Actions of users, oldest first."""

    format: Literal["netbisect-audit/1"] = "netbisect-audit/1"
    deeds: tuple[AuditLine, ...]


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
    commit: Annotated[NamedCommit | None, "The commit, or what a review is applied to."] = None
    review: str = ""
    good: Annotated[NamedCommit | None, "Of a range the older end, which is not in it."] = None
    bad: Annotated[NamedCommit | None, "Of a range the last one."] = None
    commits: Annotated[int | None, "How many a range has."] = None


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
    error: Annotated[str, "A sentence for people."]
    faults: Annotated[dict[str, str], "By field: what is wrong, and what would be right."]
    candidates: Annotated[tuple[RevisionMatch, ...], "What an ambiguous name may mean."] = ()
