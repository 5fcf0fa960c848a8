"""View models of the site."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netbisect.bisect.detection.level_difference import LevelDifference, LevelEstimate
from netbisect.bisect.model.detection_results import LevelStep, SeriesHealth
from netbisect.bisect.model.entities import Commit, Level, Noise
from netbisect.reports.documents.digest_types import MissingScenarios
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary
from netbisect.reports.render import words

SAFE = re.compile(r"[^A-Za-z0-9_]+")
_SLUG_MAX = 40
JOB_KINDS = ("comparison", "bisection")
"""Kinds of jobs that have a page."""
LISTED = 60
"""Latest levels in the table of a series, and in tables of many series."""
RECENT = 366
"""Most levels in a picture that shows every boot."""
TIMES = 1e9
"""Seconds since the epoch from which on they are times: imported levels have numbers there."""


def slug(name: str) -> str:
    """A part of the name of a file, the same for the same name and another for any other."""
    plain = SAFE.sub("-", name).strip("-")[:_SLUG_MAX]
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{plain}-{digest}".lstrip("-")


def when(at: float) -> str:
    """The day, or "no date" for imported data without times."""
    return words.day(at) if at >= TIMES else "no date"


def series_page(testbed: str, scenario: str, branch: str) -> str:
    """The file of a series."""
    # No slug has a full stop, so that no two series meet.
    return f"series-{slug(testbed)}.{slug(scenario)}.{slug(branch)}.html"


def testbed_page(testbed: str) -> str:
    """The file of a testbed."""
    return f"testbed-{slug(testbed)}.html"


def revisions_page(testbed: str, branch: str) -> str:
    """The file that has the revisions of a testbed side by side."""
    return f"revisions-{slug(testbed)}.{slug(branch)}.html"


def pair_page(before: str, after: str) -> str:
    """The file that compares two revisions."""
    return f"compare-{slug(before)[:HASH_LENGTH]}.{slug(after)[:HASH_LENGTH]}.html"


def alert_page(number: int | str) -> str:
    """The file of an alert."""
    return f"alert-{number}.html"


def question_page(kind: str, number: int) -> str:
    """The file of a comparison or a bisection, by its number."""
    return f"{kind}-{number}.html"


def document_file(page: str) -> str:
    """The JSON file of a page."""
    return f"{page.removesuffix('.html')}.json"


def revision_page(revision: str) -> str:
    """The file of a revision."""
    return f"revision-{slug(revision)[:HASH_LENGTH]}.html"


def badge_file(branch: str, testbed: str = "") -> str:
    """The file of a badge; "" for all testbeds."""
    return f"badge-{slug(branch)}{f'.{slug(testbed)}' if testbed else ''}.svg"


@dataclass(frozen=True, slots=True)
class SeriesEpoch:
    """Levels under the same conditions."""

    values: Mapping[str, str]
    levels: Sequence[Level]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """A series, as its page shows it."""

    testbed: str
    scenario: str
    branch: str
    title: str
    """Of the scenario, for people."""
    hardware: str
    epochs: Sequence[SeriesEpoch]
    """Oldest first, at least one; the last one is compared."""
    standings: Sequence[LevelEstimate]
    """Of the levels of the last epoch."""
    baseline: LevelEstimate | None
    """Of the levels before the latest one, since the last confirmed change."""
    baseline_from: str
    """Revision of the first of them; "" without any."""
    baselined: int
    """How many they are."""
    least: float
    """Smallest reported step, as a positive ln ratio."""
    numbers: Mapping[str, int]
    """By revision: its place on the branch."""
    noise: Noise
    health: SeriesHealth
    steps: Sequence[LevelStep]
    alerts: Sequence[AlertSummary] = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)
    """By revision, of the levels that are listed."""
    commit_link: str = ""
    """Address of a commit, with `{revision}` for its hash."""

    @property
    def levels(self) -> Sequence[Level]:
        """Those of the last epoch."""
        return self.epochs[-1].levels

    @property
    def page(self) -> str:
        """Its file."""
        return series_page(self.testbed, self.scenario, self.branch)

    def link(self, revision: str) -> str:
        """Address of a commit; "" if none."""
        return self.commit_link.replace("{revision}", revision)

    def label(self, revision: str) -> str:
        """Short name of a revision."""
        commit = self.commits.get(revision)
        return words.clean(commit.label if commit else revision[:HASH_LENGTH])


@dataclass(frozen=True, slots=True)
class Point:
    """A level in few numbers, for tables of many revisions."""

    number: int
    """Place of its commit on the branch."""
    revision: str
    label: str
    at: float
    mean: float
    """ln pps."""
    variance: float
    """Of its boots' mean."""
    boots: int
    identity: str
    """Of the kernel, shortened."""

    @property
    def standing(self) -> LevelEstimate:
        """As the core has it."""
        return LevelEstimate(self.mean, self.variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSummary:
    """A series in brief."""

    testbed: str
    scenario: str
    branch: str
    title: str
    hardware: str
    points: Sequence[Point]
    """The latest levels, oldest first; at least one."""
    levels: int
    boots: int
    baseline: LevelEstimate | None
    against: LevelDifference | None
    """The latest level compared with the baseline."""
    image_noise: float
    boot_noise: float
    smallest_drop: float | None
    """That one night shows, as a positive ln ratio."""
    smallest_lasting_drop: float | None
    saturated: bool
    bimodal: bool
    spark: str
    """The path of a small picture of the latest levels."""

    @property
    def page(self) -> str:
        """Its file."""
        return series_page(self.testbed, self.scenario, self.branch)

    @property
    def latest(self) -> Point:
        """The newest level of the branch."""
        return self.points[-1]

    @property
    def noise(self) -> Noise:
        """Its noise."""
        return Noise(boot=self.boot_noise, image=self.image_noise)

    @property
    def name(self) -> tuple[str, str, str]:
        """Testbed, scenario and branch."""
        return self.testbed, self.scenario, self.branch


@dataclass(frozen=True, slots=True)
class NightProgress:
    """Progress of the last night."""

    planned: int
    """Series."""
    measured: int
    missing: tuple[MissingScenarios, ...]
    begun: float | None
    """None when there was none."""
    finished: float | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """An open job and its progress."""

    kind: str
    """`night`, `comparison`, `bisection`, `measurement` or `profiling`."""
    number: int
    testbed: str
    branch: str
    since: float
    done: float | None
    """Share of the whole, 0 to 1; None if unknown."""
    left: float | None
    """Remaining lab time in seconds; None if unknown."""
    progress: str
    """Progress in words."""
    now: str

    @property
    def page(self) -> str:
        """Its file; "" for jobs without a page."""
        return question_page(self.kind, self.number) if self.kind in JOB_KINDS else ""


@dataclass(frozen=True, slots=True)
class QuarantineLine:
    """A testbed in quarantine."""

    testbed: str
    since: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Data of the pages about many series."""

    at: float
    """Now, or the time of the latest data in a static site; seconds since the epoch."""
    night: NightProgress
    alerts: Sequence[AlertSummary]
    """All that were announced, the newest first."""
    running: Sequence[RunningJob]
    series: Sequence[SeriesSummary]
    held: Sequence[QuarantineLine] = ()
    pairs: Sequence[tuple[str, str, str]] = ()
    """Requested comparisons: file and labels of the two revisions."""
    stalls: Sequence[str] = ()
    """Sentences about recent stalls of the master."""
    unread: int = 0
    """Testbeds and scenarios that are not in `series` yet."""
    mails_given_up: int = 0
    """Mails that are not tried any more, after errors."""
