"""The result of a local search: its headline and its exit status.

In the terms of the user: a boot is a run of the command, and a kernel is a revision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.marks import CommitMark
from netbisect.bisect.model.results import (
    Culprit,
    Drift,
    Effect,
    NotConfirmed,
    NotReproduced,
    Result,
    SeveralCulprits,
    Suspects,
    Trial,
    culprits_of,
)
from netbisect.bisect.search.search_space import build_search_space
from netbisect.localbisect import search
from netbisect.localbisect.search import Entry, SearchSpec
from netbisect.reports.render import words

_USER_TERMS = {"kernel": "revision", "testbed": "machine"}
_ENGINE_TERMS = re.compile(r"\b(boot|booted|kernel|testbed)(s?)\b")
_LESS_NOISE = " Print the mean of several measurements, or measure longer."
_NOISY = re.compile("did not settle it|do not differ as the search expects")
"""In the reasons of searches that less noise may help."""
_LIKELIER = 0.5
"""Probability from which an explanation is more likely than not."""


class ExitStatus(IntEnum):
    """Exit statuses of `netbisect bisect run`."""

    FOUND = 0
    """One or more commits are verified."""
    NOTHING = 1
    """Nothing changed."""
    USAGE = 2
    """Invalid options, revisions, log or command."""
    NO_ANSWER = 3
    """The search was inconclusive."""
    INTERRUPTED = 130
    """The next call resumes."""


def in_user_terms(text: str, boot: str = "run") -> str:
    """A sentence of the engine in the terms of the user.

    Args:
        text: Sentence of the engine.
        boot: Replacement of "boot": run, or trial if it has several runs.
    """
    terms = _USER_TERMS | {"boot": boot, "booted": boot}
    return _ENGINE_TERMS.sub(lambda match: terms[match[1]] + match[2], text)


def mark_sentences(entries: Sequence[Entry]) -> list[str]:
    """Marks of users on commits, one sentence each."""
    spec = search.spec_of(entries)
    return [
        words.clean(f"{label(spec, entry.revision)} was {entry}")
        for entry in entries
        if isinstance(entry, CommitMark)
    ]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search that has ended."""

    entries: Sequence[Entry]
    """The whole log."""
    finding: Result
    log: Path
    commits: Mapping[str, Commit] = field(default_factory=dict)
    """The culprits by revision."""
    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The ends of the branches that they merge, by revision."""

    @property
    def spec(self) -> SearchSpec:
        """The search."""
        return search.spec_of(self.entries)

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """Verified commits, largest effect first."""
        return culprits_of(self.finding)

    @property
    def boot(self) -> str:
        """The term for a boot: trial if one has several runs, else run."""
        several = any(isinstance(one, Trial) and one.runs > 1 for one in self.entries)
        return "trial" if several else "run"

    def sides(self, effect: Effect) -> str:
        """Numbers of runs on both sides."""
        return f"{effect.good_boots} + {effect.bad_boots} {self.boot}s"

    def plain(self, why: str) -> str:
        """A reason of the engine as the end of a sentence."""
        return in_user_terms(words.reason(why), self.boot)

    @property
    def ends(self) -> Effect | None:
        """The difference of the ends if it is not confirmed, or None."""
        found = self.finding
        return found.effects[0] if isinstance(found, NotConfirmed) and found.effects else None

    @property
    def swapped(self) -> bool:
        """Whether the bad end is clearly better than the good one."""
        least, lead = self.spec.drop(self.spec.min_effect), self.ends
        return lead is not None and lead.low > 0 and lead.ln_ratio >= least

    @property
    def undecided(self) -> bool:
        """Whether the interval leaves room for a relevant difference of the ends."""
        least, lead = self.spec.drop(self.spec.min_effect), self.ends
        return lead is not None and not self.swapped and lead.low <= -least

    @property
    def moved(self) -> Effect | None:
        """The deterioration of the good end during the search, or None."""
        job = search.last_job(self.entries)
        if not isinstance(self.finding, NotReproduced) or not isinstance(job, BisectJob):
            return None
        return build_search_space(job, search.evidence(self.spec, self.entries)).shift

    @property
    def status(self) -> ExitStatus:
        """The exit status."""
        match self.finding:
            case Culprit() | SeveralCulprits():
                return ExitStatus.FOUND
            case NotConfirmed() if self.swapped:
                return ExitStatus.USAGE
            case NotConfirmed() | NotReproduced() if not self.undecided and not self.moved:
                return ExitStatus.NOTHING
            case _:
                return ExitStatus.NO_ANSWER


def user_effect(effect: Effect, spec: SearchSpec) -> Effect:
    """An effect on the printed number; for the engine a deterioration is a drop."""
    if spec.sign > 0:
        return effect
    mirrored = -effect.ln_ratio, -effect.high, -effect.low
    return Effect(search.METRIC, *mirrored, effect.p, effect.good_boots, effect.bad_boots)


def label(spec: SearchSpec, revision: str) -> str:
    """Abbreviated hash and subject."""
    return f"{revision[:12]} {words.clean(spec.subjects.get(revision, ''))}".rstrip()


def headline(result: SearchResult) -> str:
    """The result in one or two sentences."""
    spec, finding = result.spec, result.finding
    match finding:
        case Culprit():
            text = _culprit(result, finding)
            if finding.posterior.two >= _LIKELIER:
                text += (
                    " Probability of a second change in the range: "
                    f"{words.certainty(finding.posterior.two)}; none is verified. Search the "
                    "commits before and after this one."
                )
        case SeveralCulprits(culprits=culprits):
            each = (_culprit(result, one) for one in culprits)
            text = " ".join([f"{len(culprits)} commits made a change each.", *each])
        case NotConfirmed():
            text = _not_confirmed(result, finding)
        case NotReproduced() if result.moved is not None:
            text = _moved(result, user_effect(result.moved, spec))
        case NotReproduced():
            text = (
                f"Nothing changed: {result.plain(finding.why)}. "
                f"Probability: {words.certainty(finding.posterior.none)}."
            )
        case Drift():
            text = (
                f"The number changed gradually over the range: {result.plain(finding.why)}. "
                f"Probability: {words.certainty(finding.posterior.drift)}."
            )
        case Suspects():
            text = (
                f"One of {words.count(len(finding.revisions), 'commit')} made the change; they "
                f"cannot be distinguished: {result.plain(finding.why)}."
            )
            if "cannot be measured" in finding.why and not spec.overlays:
                text += " --overlay can apply a fix to them."
            text += _stale(spec, finding.why)
        case _:
            text = in_user_terms(
                words.sentence(finding, lambda revision: label(spec, revision), lambda name: name),
                result.boot,
            )
            why = getattr(finding, "why", "")
            text += _stale(spec, why) + _LESS_NOISE * bool(_NOISY.search(why))
    return text


def _stale(spec: SearchSpec, why: str = "differ") -> str:
    """A hint if, for this reason, programs of another revision may have been measured."""
    if "differ" not in why or not spec.setup or "git clean" in spec.setup:
        return ""
    return (
        " If --setup does not rebuild all that a commit changes, begin it with `git clean -dfqx` "
        "and use --reset."
    )


def _culprit(result: SearchResult, finding: Culprit) -> str:
    spec = result.spec
    lead = user_effect(finding.effects[0], spec)
    merge = ""
    if ends := result.merged.get(finding.revision):
        base, tip = (one[:12] for one in ends)
        merge = f" It is a merge; to search its branch, use --good {base} --bad {tip} --reset."
    return (
        f"Commit {label(spec, finding.revision)} made the number "
        f"{'fall' if lead.ln_ratio < 0 else 'rise'}: {words.change(lead)}. Verified "
        f"against its parent by fresh interleaved {result.boot}s, {result.sides(lead)}. "
        f"Probability of this commit: {words.certainty(finding.chance)}.{merge}"
    )


def _moved(result: SearchResult, effect: Effect) -> str:
    """Early runs of the good end compared with its late runs."""
    spec = result.spec
    return (
        f"The good end, {label(spec, spec.good)}, has changed: "
        f"{words.change(effect)} between its first {words.count(effect.good_boots, result.boot)} "
        f"and its last {effect.bad_boots}. The cause is the machine or its environment, not a "
        "commit. Use --reset once it measures as before."
    )


def _not_confirmed(result: SearchResult, finding: NotConfirmed) -> str:
    if result.ends is None:
        return f"Nothing changed: {result.plain(finding.why)}."
    lead = user_effect(result.ends, result.spec)
    if result.swapped:
        other = "lower" if result.spec.sign > 0 else "higher"
        return (
            f"The bad end is better than the good one, {words.change(lead)}, {result.sides(lead)}. "
            f"If {other} numbers are better, or to find the improvement, use --direction {other} "
            "and --reset."
        )
    if result.undecided:
        return (
            f"The noise is too large to distinguish the two ends: {words.change(lead)}, "
            f"{result.sides(lead)}: {result.plain(finding.why)}.{_LESS_NOISE}"
        )
    return (
        f"No relevant change between the two ends: {words.change(lead)}, "
        f"interleaved: {result.plain(finding.why)}. If you expected one, check that the command "
        f"runs the program of its checkout, not an installed one.{_stale(result.spec)}"
    )
