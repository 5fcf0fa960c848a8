"""The nouns: what a lab reports, what is asked of it, and how an answer ends.

Units: rates in packets per second (pps), effects as ln ratios (ln bad - ln good), times in
seconds. One boot is one sample: runs within a boot share its luck, so nothing here lets
seconds of a run count as samples.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from netbisect.bisect import validity

# ---------------------------------------------------------------------------------- the facts


class Stage(StrEnum):
    """Where on its way a kernel failed to become a sample."""

    CHECKOUT = "checkout"
    BUILD = "build"
    DEPLOY = "deploy"
    BOOT = "boot"
    BENCH = "bench"


class Reaction(StrEnum):
    """What a failure asks for; the table of docs/lab.md."""

    RETRY = "retry"
    """Passing trouble: the same visit again."""
    SKIP = "skip"
    """The revision cannot be measured: a search goes round it."""
    INFRA = "infra"
    """Bad infrastructure, never the revision's doing: again, on another builder if there is one;
    a testbed where it comes back is put in quarantine."""
    QUARANTINE = "quarantine"
    """The testbed cannot be trusted until its owner has looked at it."""
    ABORT = "abort"
    """Nobody can say what to do next: the question ends without an answer."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A built kernel. Two kernels of one identity run the same instructions."""

    revision: str
    """A laboratory says which layout too, as in `kernel_name`."""
    config: str
    arch: str
    identity: str
    """Hash of what runs, without version strings, dates and paths."""
    key: str
    """Hash of the artefact, byte for byte; its name in the artefact store."""
    version: str
    """The text `uname -v` must contain once this kernel runs."""
    size: int
    """Bytes of the artefact."""
    at: float
    seconds: float
    """What the build took."""
    layout: int = 0
    """0 as the linker has it; else the seed of another order of its sections, the same code at
    other addresses."""


@dataclass(frozen=True, slots=True)
class Boot:
    """A testbed that came up on the kernel it was told to run: the sampling unit."""

    id: str
    testbed: str
    kernel: str
    """Key of the kernel."""
    revision: str
    at: float
    """When its reboot was ordered, by the clock of the worker."""
    seconds: float
    """From the order to reboot until the machine answered."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that must be equal for two samples to be comparable, under one digest."""

    digest: str
    testbed: str
    scenario: str
    values: dict[str, str]

    @classmethod
    def of(cls, testbed: str, scenario: str, values: dict[str, str]) -> Conditions:
        """These conditions under the digest of their values, whatever the order of those."""
        described = json.dumps(values, sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        return cls(digest, testbed, scenario, values)


@dataclass(frozen=True, slots=True)
class Sample:
    """One scenario on one boot: the receiver's median, and all that is needed to doubt it."""

    id: str
    boot: str
    testbed: str
    scenario: str
    pps: float
    offered_pps: float
    received: tuple[float, ...]
    """Packets per second, second by second."""
    offered: tuple[float, ...]
    problems: tuple[str, ...]
    """Why this is not a sample; empty when it is one."""
    conditions: str
    """Digest of its Conditions."""
    at: float
    seconds: float

    @property
    def valid(self) -> bool:
        """Nothing speaks against it, and a logarithm exists."""
        return not self.problems and self.pps > 0

    @property
    def saturated(self) -> bool:
        """Limited by the generator: it neither improves nor regresses."""
        return validity.saturated(self.pps, self.offered_pps)


@dataclass(frozen=True, slots=True)
class Dud:
    """A revision that could not be asked: no number came of it, and none may be made up."""

    id: str
    revision: str
    stage: Stage
    reaction: Reaction
    why: str
    at: float
    seconds: float
    testbed: str = ""
    scenario: str = ""
    log: str = ""
    """The end of what the machine said, for people."""
    fault: str = ""
    """Its name in the table of `bisect/faults.py`; "" where none was named."""
    layout: int = 0
    """Of the kernel."""


Fact: TypeAlias = Kernel | Boot | Conditions | Sample | Dud


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a kernel spent its time in a boot of its own, below saturation.

    No fact of a series: sampling slows a router down, and the load was chosen.
    """

    revision: str
    kernel: str
    """Key of the kernel."""
    testbed: str
    scenario: str
    event: str
    """What was counted between two samples, as pmcstat(8) calls it; "" when it never began."""
    pps: float
    """Packets per second that the generator was told to send."""
    samples: int
    lost: int | None
    """Samples that the kernel had no room for; None where it does not tell."""
    at: float
    seconds: float
    """For which samples were taken."""
    problem: str = ""
    """Why its stacks are of no use, and were not kept; empty when they were."""


# ------------------------------------------------------------------------------ the background


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on the first-parent line of a branch."""

    revision: str
    """Full hash; in imported histories of old, such as r311849."""
    number: int
    """Place on the first-parent line, as in `git rev-list --first-parent --count`."""
    subject: str
    body: str
    author: str
    email: str
    at: float
    """Commit time, seconds since the epoch."""
    paths: tuple[str, ...] = ()
    """Files it touches, against its first parent."""
    lines: int = 0
    """Lines added and removed."""

    @property
    def label(self) -> str:
        """What people call it: `n302145-0a1b2c3d4e5f`, or r311849 where histories count so."""
        short = self.revision[:12]
        return short if short == self.revision else f"n{self.number}-{short}"


@dataclass(frozen=True, slots=True)
class Level:
    """All boots of one image on one testbed in one scenario: a point of a series."""

    revision: str
    identity: str
    """Of the kernel."""
    at: float
    """When the first of its boots was measured, seconds since the epoch."""
    ln_pps: tuple[float, ...]
    """One value per boot; valid samples only, at least one."""
    saturated: bool = False
    """Most of its boots were limited by the generator: between two such levels nothing can be
    seen, and such a level never improves or regresses."""

    @property
    def mean(self) -> float:
        """Mean ln pps over its boots."""
        return math.fsum(self.ln_pps) / len(self.ln_pps)


# ------------------------------------------------------------------------------- the questions


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit on the first-parent line that may have made the change."""

    revision: str
    weight: float = 1.0
    """Prior weight, not normalised; never 0."""


@dataclass(frozen=True, slots=True)
class Night:
    """How fast is this branch on this testbed tonight?"""

    branch: str
    testbed: str
    revision: str
    scenarios: tuple[str, ...]
    boots: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Is `bad` slower than `good`? Measured in turns, each boot fresh."""

    branch: str
    testbed: str
    good: str
    bad: str
    scenarios: tuple[str, ...]
    lead: str
    """The scenario that decides."""
    suspected: float
    """Effect that the screen saw, ln ratio; never reported as the answer."""
    min_effect: float = math.log(1 / 0.98)
    """Smallest |ln ratio| worth an alert."""
    noise: Noise | None = None
    """How the testbed scatters in the leading scenario; None: nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """Which of these commits made it slower?"""

    branch: str
    testbed: str
    good: str
    candidates: tuple[Candidate, ...]
    """Oldest first; the last one is the bad end."""
    scenarios: tuple[str, ...]
    lead: str
    effect: float
    """Confirmed effect, ln ratio, negative for a drop."""
    noise: Noise
    budget_seconds: float = math.inf
    """Of the lab, after which the search ends with what it knows."""
    others: dict[str, Noise] = field(default_factory=dict)
    """By name: other testbeds of the same make that may help, and how their boots scatter. Each
    has a level of its own; the change and the offsets of images are the same on all of them."""
    layouts: int = 0
    """How many further layouts of a revision the lab can link; each is an image of its own, with
    an offset of its own. Asked for only where `noise.image` is above 0."""

    @property
    def testbeds(self) -> tuple[str, ...]:
        """All testbeds that may measure, the one that is asked about first."""
        return (self.testbed, *(name for name in self.others if name != self.testbed))

    def noise_of(self, testbed: str) -> Noise:
        """How the boots of that testbed scatter; as those of the question's where none is told."""
        return self.noise if testbed == self.testbed else self.others.get(testbed, self.noise)


@dataclass(frozen=True, slots=True)
class Noise:
    """How a testbed scatters in one scenario, as standard deviations of ln pps."""

    boot: float = 0.009
    """Between boots of one image."""
    image: float = 0.0
    """Between images that do the same work; no number of boots averages it out."""
    run: float = 0.0
    """Between runs within one boot."""
    slow_share: float = 0.0
    """Chance of a boot to come up in a slower mode."""
    slow_gap: float = 0.0
    """How much slower that mode is, as a positive ln ratio; `boot` is the scatter within one."""
    image_weight: float = 12.5
    """Degrees of freedom of `image`: from how many images it is known, a guess before included."""

    def variance_of_boot(self, runs: int = 1) -> float:
        """Variance of the mean ln pps of so many runs of one boot, all modes together."""
        mixed = self.slow_share * (1 - self.slow_share) * self.slow_gap**2
        return self.boot**2 + self.run**2 / runs + mixed

    def variance_of_mean(self, boots: int) -> float:
        """Variance of the mean ln pps over `boots` boots of one image."""
        return self.image**2 + self.boot**2 / boots


@dataclass(frozen=True, slots=True)
class Profiling:
    """In which functions do these kernels spend their time?"""

    branch: str
    testbed: str
    revisions: tuple[str, ...]
    """A culprit's parent and the culprit; or one revision alone."""
    scenarios: tuple[str, ...]
    """One."""
    pps: float = 0.0
    """Packets per second to send, below what the slowest of them forwards; 0: not known yet, so
    each is first asked what it forwards."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How fast are these, side by side? Measured in turns, each as often as asked."""

    branch: str
    testbed: str
    revisions: tuple[str, ...]
    """Two or more; the others are held against the first. One with a patch has a name of its own,
    so that it is never taken for the revision without."""
    scenarios: tuple[str, ...]
    boots: int
    """Of each revision."""
    min_effect: float = math.log(1 / 0.98)
    """|ln ratio| of a drop that matters."""
    noise: dict[str, Noise] = field(default_factory=dict)
    """By scenario: how the testbed scatters; nothing is known of those that are left out."""
    shared_since: float = math.inf
    """From when on boots that were made for other measurements count, seconds since the epoch;
    infinite: none do."""


Question: TypeAlias = Night | Comparison | Bisection | Profiling | Measurement

# -------------------------------------------------------------------------------- the evidence


@dataclass(frozen=True, slots=True)
class Reading:
    """What one boot said: ln pps by scenario, valid samples only."""

    boot: str
    revision: str
    identity: str
    """Of the kernel; readings of one identity are readings of one image."""
    ln_pps: dict[str, float]
    fresh: bool = True
    """Measured for the question it is shown to, not inherited from an earlier one."""
    runs: int = 1
    """Of each scenario within the boot; `ln_pps` is the mean over them."""
    testbed: str = ""
    """Where it was measured; empty: on the testbed that the question is about."""
    layout: int = 0
    """Of the kernel."""


def kernel_name(revision: str, layout: int = 0) -> str:
    """Tells under which name evidence and builds have a kernel: its revision, and its layout.

    The ordinary kernel of a revision has the name of the revision alone; `#` is in no revision.
    """
    return f"{revision}#{layout}" if layout else revision


def split_kernel_name(name: str) -> tuple[str, int]:
    """Tells revision and layout of what `kernel_name` made."""
    revision, _, layout = name.partition("#")
    return revision, int(layout or 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All facts that bear on a question. Beliefs are computed from this and nothing else."""

    readings: tuple[Reading, ...] = ()
    kernels: dict[str, Kernel] = field(default_factory=dict)
    """By `kernel_name`: what is built."""
    skipped: dict[str, str] = field(default_factory=dict)
    """By `kernel_name`: why it cannot be measured."""
    profiled: dict[str, str] = field(default_factory=dict)
    """By revision that was visited for a profile: why there is none, or "" where there is one."""

    def of(self, revision: str) -> list[Reading]:
        """Readings of the ordinary kernel of that revision, oldest first."""
        return [r for r in self.readings if r.revision == revision and not r.layout]


@dataclass(frozen=True, slots=True)
class Prices:
    """What an action costs, in seconds of the lab."""

    build: float = 600.0
    boot: float = 180.0
    run: float = 30.0
    relink: float | None = None
    """Of a further layout of a revision; None: as much as a build."""

    def of_kernel(self, layout: int) -> float:
        """Tells what it costs to make a kernel of this layout."""
        return self.build if not layout or self.relink is None else self.relink


@dataclass(frozen=True, slots=True)
class Cost:
    """What questions have cost the lab so far, failures included."""

    builds: int = 0
    boots: int = 0
    runs: int = 0
    seconds: float = 0.0
    """Of build hosts and testbeds together."""


# --------------------------------------------------------------------------------- the answers


@dataclass(frozen=True, slots=True)
class Belief:
    """What a search holds to be true; all its chances sum to 1."""

    chances: dict[str, float]
    """By revision: that this commit, and no other of them, made the change."""
    none: float
    """That nothing changed."""
    two: float = 0.0
    """That two commits made a change each, of whichever sign."""
    drift: float = 0.0
    """That the level changed bit by bit, and no commit made it."""

    def credible(self, mass: float = 0.9) -> list[str]:
        """Fewest revisions that together hold `mass`, likeliest first."""
        chosen: list[str] = []
        total = 0.0
        for revision, chance in sorted(self.chances.items(), key=lambda item: -item[1]):
            if total >= mass:
                break
            chosen.append(revision)
            total += chance
        return chosen


@dataclass(frozen=True, slots=True)
class Visit:
    """The next thing worth doing: build it if need be, boot it once, run every scenario."""

    revision: str
    why: str
    belief: Belief | None = None
    runs: int = 1
    """Of each scenario, within this boot."""
    testbed: str = ""
    """Where; empty: on the testbed that the question is about."""
    layout: int = 0
    """Of the kernel; not 0 only where the question allows further layouts."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference with its interval; ln ratio of bad over good."""

    scenario: str
    ln_ratio: float
    low: float
    high: float
    p: float
    good_boots: int
    bad_boots: int

    @property
    def percent(self) -> float:
        """The same as a percentage of the good side."""
        return 100 * math.expm1(self.ln_ratio)


@dataclass(frozen=True, slots=True)
class NightDone:
    """Measured as often as asked."""

    boots: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The difference was measured again, in turns, and is there."""

    effects: tuple[Effect, ...]
    """The leading scenario first."""


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """The difference did not come back."""

    effects: tuple[Effect, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Culprit:
    """One commit, verified against its parent by fresh boots in turns."""

    revision: str
    parent: str
    belief: Belief
    effects: tuple[Effect, ...]
    """From the verification only; the leading scenario first."""
    chance: float = 0.0
    """That this commit made a change, alone or as one of two."""


@dataclass(frozen=True, slots=True)
class Several:
    """Two commits or more, each verified against its own parent."""

    culprits: tuple[Culprit, ...]
    """The largest effect first; their signs may differ."""
    belief: Belief


@dataclass(frozen=True, slots=True)
class Drift:
    """It became slower bit by bit: no commit is to be named."""

    belief: Belief
    why: str


@dataclass(frozen=True, slots=True)
class Suspects:
    """A few commits that measuring cannot tell apart.

    They do not build or do not boot, or the offsets of their images hide which of them it is.
    """

    revisions: tuple[str, ...]
    belief: Belief
    why: str


@dataclass(frozen=True, slots=True)
class NotReproduced:
    """Within the range nothing changed."""

    belief: Belief
    why: str


@dataclass(frozen=True, slots=True)
class Profiled:
    """There is a profile of each."""

    revisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A revision that was held against the first one of a measurement."""

    revision: str
    effects: tuple[Effect, ...]
    """A scenario each, as far as both have two boots; empty where `why` says why."""
    why: str = ""
    """Why there is nothing to hold against it: it cannot be measured, or is the same kernel."""
    same: bool = False
    """It builds the same kernel as the first one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Each was measured as often as asked."""

    held: tuple[Held, ...]
    """The revisions but the first one, in the order in which they were given."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """It cannot go on; what is known so far, and never a name."""

    why: str
    belief: Belief | None = None


Finding: TypeAlias = (
    NightDone
    | Confirmed
    | NotConfirmed
    | Culprit
    | Several
    | Suspects
    | Drift
    | NotReproduced
    | Profiled
    | Measured
    | Unfinished
)
Move: TypeAlias = Visit | Finding
