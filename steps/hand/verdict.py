"""How a search by hand has ended: in a sentence or two, and as an exit status.

The engine speaks of routers; here a boot is a run of the user's command, and a kernel a revision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

from netbisect.bisect.line import lay_out
from netbisect.bisect.model import (
    Belief,
    Bisection,
    Commit,
    Culprit,
    Drift,
    Effect,
    Finding,
    NotConfirmed,
    NotReproduced,
    Several,
    Suspects,
    Unfinished,
    Visit,
)
from netbisect.bisect.verify import moved
from netbisect.reports import picture, words
from netbisect.steps.hand import search
from netbisect.steps.hand.search import Entry, Search

_PLAIN = {"kernel": "revision", "testbed": "machine"}
_SPOKEN = re.compile(r"\b(boot|booted|kernel|testbed)(s?)\b")
_CLEAR = 0.01
"""p below which the ends differ: a bad one that is better is taken for the good one."""
_TOLD = 0.01
"""Chance from which an explanation other than one commit is mentioned."""
_LIKELIER = 0.5
"""Chance from which something is likelier than not."""


class Status(IntEnum):
    """Exit statuses of `netbisect bisect run`."""

    FOUND = 0
    """A commit is verified, or several are."""
    NOTHING = 1
    """Nothing changed."""
    USAGE = 2
    """What was asked cannot be searched: options, revisions, log or command."""
    NO_ANSWER = 3
    """The search ended without a commit."""
    INTERRUPTED = 130
    """It goes on when it is called again."""


def plainly(text: str, boot: str = "run") -> str:
    """A sentence of the engine's in the words of somebody who has no router.

    Args:
        text: The engine's.
        boot: What a boot is called: a run, or a visit where one may have several runs.
    """
    said = _PLAIN | {"boot": boot, "booted": boot}
    return _SPOKEN.sub(lambda match: said[match[1]] + match[2], text)


@dataclass(frozen=True, slots=True)
class Result:
    """A search that has ended, and all that its report needs."""

    entries: Sequence[Entry]
    """The whole log."""
    finding: Finding
    log: Path
    commits: Mapping[str, Commit] = field(default_factory=dict)
    """What is known of the culprits, by revision."""

    @property
    def search(self) -> Search:
        """What was asked."""
        first = self.entries[0]
        assert isinstance(first, Search)
        return first

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """All commits that are verified, the largest effect first."""
        match self.finding:
            case Culprit():
                return (self.finding,)
            case Several():
                return self.finding.culprits
            case _:
                return ()

    @property
    def boot(self) -> str:
        """What a boot of the engine's is called: a visit where one has had several runs."""
        several = any(isinstance(one, Visit) and one.runs > 1 for one in self.entries)
        return "visit" if several else "run"

    def sides(self, effect: Effect) -> str:
        """What an effect rests on, on either side."""
        return f"{effect.good_boots} + {effect.bad_boots} {self.boot}s"

    def plain(self, why: str) -> str:
        """A reason of the engine's as the tail of a sentence."""
        return plainly(words.reason(why), self.boot)

    @property
    def swapped(self) -> bool:
        """Whether the bad end is clearly better than the good one."""
        if not isinstance(self.finding, NotConfirmed) or not self.finding.effects:
            return False
        lead = self.finding.effects[0]
        return lead.p < _CLEAR and lead.ln_ratio >= self.search.drop(self.search.min_effect)

    @property
    def undecided(self) -> bool:
        """Whether the two ends may still differ by what was looked for, hidden by noise."""
        if not isinstance(self.finding, NotConfirmed) or not self.finding.effects:
            return False
        lead = self.finding.effects[0]
        return lead.p >= _CLEAR and lead.low <= -self.search.drop(self.search.min_effect)

    @property
    def moved(self) -> Effect | None:
        """How the good end itself became worse while it was searched; None if it did not."""
        question = search.last_question(self.entries)
        if not isinstance(self.finding, NotReproduced) or not isinstance(question, Bisection):
            return None
        return moved(lay_out(question, search.evidence(self.search, self.entries)))

    @property
    def status(self) -> Status:
        """The exit status."""
        match self.finding:
            case Culprit() | Several():
                return Status.FOUND
            case NotConfirmed() if self.swapped:
                return Status.USAGE
            case NotConfirmed() if self.undecided:
                return Status.NO_ANSWER
            case NotReproduced() if self.moved:
                return Status.NO_ANSWER
            case NotConfirmed() | NotReproduced():
                return Status.NOTHING
            case _:
                return Status.NO_ANSWER


def users(effect: Effect, asked: Search) -> Effect:
    """An effect on the number itself; the engine's own has a drop for whatever is worse."""
    if asked.sign > 0:
        return effect
    return replace(effect, ln_ratio=-effect.ln_ratio, low=-effect.high, high=-effect.low)


def label(asked: Search, revision: str) -> str:
    """A revision as people know it: short hash and subject."""
    return f"{revision[:12]} {words.clean(asked.subjects.get(revision, ''))}".rstrip()


def belief_of(finding: Finding) -> Belief | None:
    """What is held to be true at the end of a search; None if only the ends were compared."""
    if isinstance(finding, Culprit | Several | Drift | Suspects | Unfinished | NotReproduced):
        return finding.belief
    return None


def drawn(belief: Belief) -> list[str]:
    """A belief as a picture, with the other explanations where they count."""
    bars, one_of_them = picture.posterior(belief, lambda revision: revision[:12])
    alone = math.fsum(belief.chances.values())
    others = {"two commits or more": belief.two, "a drift": belief.drift}
    told = [f"{name}: {words.certainty(p)}" for name, p in others.items() if p >= _TOLD]
    if alone < _LIKELIER and belief.none < _LIKELIER:
        one_of_them = f"{'':>10}one commit alone: {words.certainty(alone)}"
        return [bars, "; ".join([one_of_them, *told])]
    return [bars, one_of_them, *([f"{'':>10}{'; '.join(told)}"] if told else [])]


def headline(result: Result) -> str:
    """How the search ended, in a sentence or two."""
    asked, finding = result.search, result.finding
    match finding:
        case Culprit():
            text = _culprit(result, finding)
            if finding.belief.two >= _LIKELIER:
                text += (
                    " Another commit of the range made a change too, with a certainty of "
                    f"{words.certainty(finding.belief.two)}, but none other was verified: search "
                    "the commits before this one, and those after it."
                )
        case Several(culprits=culprits):
            told = (_culprit(result, one) for one in culprits)
            text = " ".join([f"{len(culprits)} commits made a change each.", *told])
        case NotConfirmed():
            text = _not_confirmed(result, finding)
        case NotReproduced() if result.moved is not None:
            text = _moved(result, users(result.moved, asked))
        case NotReproduced():
            text = (
                "Nothing changed between the two ends, with a certainty of "
                f"{words.certainty(finding.belief.none)}: {result.plain(finding.why)}. "
                "No commit is named."
            )
        case Drift():
            text = (
                "The number changed bit by bit along the range, with a certainty of "
                f"{words.certainty(finding.belief.drift)}: {result.plain(finding.why)}. "
                "No commit is named."
            )
        case Suspects():
            text = (
                f"One of {words.count(len(finding.revisions), 'commit')} made the change, and "
                f"measuring cannot tell which: {result.plain(finding.why)}."
            )
            if "cannot be measured" in finding.why and not asked.overlays:
                text += " If a fix makes them run, --overlay puts it on top of them."
        case _:
            text = plainly(
                words.sentence(finding, lambda revision: label(asked, revision), lambda name: name),
                result.boot,
            )
    return text


def _culprit(result: Result, finding: Culprit) -> str:
    asked = result.search
    lead = users(finding.effects[0], asked)
    return (
        f"Commit {label(asked, finding.revision)} made the number "
        f"{'fall' if lead.ln_ratio < 0 else 'rise'}: {words.change(lead)}. It was verified "
        f"against its parent by fresh {result.boot}s in turns, {result.sides(lead)}. "
        f"Certainty that it is this commit: {words.certainty(finding.chance)}."
    )


def _moved(result: Result, effect: Effect) -> str:
    """The good end against itself: its earlier runs are the good side, its later ones the bad."""
    asked = result.search
    return (
        f"The good end, {label(asked, asked.good)}, is no longer what it was: "
        f"{words.change(effect)} between its first {words.count(effect.good_boots, result.boot)} "
        f"and its last {effect.bad_boots}. It is the machine or its surroundings, not a commit; "
        "none is named. --reset begins anew when it measures as before."
    )


def _not_confirmed(result: Result, finding: NotConfirmed) -> str:
    if not finding.effects:
        return f"Nothing changed: {result.plain(finding.why)}."
    lead = users(finding.effects[0], result.search)
    if result.swapped:
        return (
            f"The bad end is better than the good one, {words.change(lead)}, {result.sides(lead)}: "
            "--good and --bad are the wrong way round, or --direction is not "
            f"{result.search.direction}."
        )
    if result.undecided:
        return (
            f"The two ends scatter too much to be told apart: {words.change(lead)}, "
            f"{result.sides(lead)}. No commit is named; a command that measures longer, or the "
            "mean of several measurements, scatters less."
        )
    return (
        f"Nothing changed between the two ends, or too little to search for: {words.change(lead)}, "
        f"measured in turns: {result.plain(finding.why)}. No commit is named."
    )
