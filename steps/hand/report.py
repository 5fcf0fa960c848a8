"""Tells people how a search by hand has ended.

The engine speaks of routers; here a boot is a run of the user's command, and a kernel a revision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from netbisect.bisect.model import (
    Belief,
    Boot,
    Commit,
    Culprit,
    Dud,
    Effect,
    Finding,
    Kernel,
    NotConfirmed,
    NotReproduced,
    Reaction,
    Sample,
    Suspects,
    Unfinished,
)
from netbisect.reports import picture, words
from netbisect.reports.ministat import POINTS_MIN, ministat
from netbisect.reports.plaintext import table, wrap
from netbisect.steps.hand import search
from netbisect.steps.hand.search import Entry, Search

_PLAIN = {"boot": "run", "booted": "run", "kernel": "revision"}
_SPOKEN = re.compile(r"\b(boot|booted|kernel)(s?)\b")
_CLEAR = 0.01
"""p below which the ends differ: a bad one that is better is taken for the good one."""


class Status(IntEnum):
    """Exit statuses of `netbisect bisect run`."""

    FOUND = 0
    """A commit is verified."""
    NOTHING = 1
    """Nothing changed."""
    USAGE = 2
    """What was asked cannot be searched: options, revisions, log or command."""
    NO_ANSWER = 3
    """The search ended without one commit."""
    INTERRUPTED = 130
    """It goes on when it is called again."""


def plainly(text: str) -> str:
    """A sentence of the engine's in the words of somebody who has no router."""
    return _SPOKEN.sub(lambda match: _PLAIN[match[1]] + match[2], text)


@dataclass(frozen=True, slots=True)
class Result:
    """A search that has ended, and all that its report needs."""

    entries: Sequence[Entry]
    """The whole log."""
    finding: Finding
    log: Path
    commit: Commit | None = None
    """The culprit."""

    @property
    def search(self) -> Search:
        """What was asked."""
        first = self.entries[0]
        assert isinstance(first, Search)
        return first

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
    def status(self) -> Status:
        """The exit status."""
        match self.finding:
            case Culprit():
                return Status.FOUND
            case NotConfirmed() if self.swapped:
                return Status.USAGE
            case NotConfirmed() if self.undecided:
                return Status.NO_ANSWER
            case NotConfirmed():
                return Status.NOTHING
            case NotReproduced():
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


def _runs(effect: Effect) -> str:
    return f"{effect.good_boots} + {effect.bad_boots} runs"


def text(result: Result) -> str:
    """The report, several lines."""
    blocks = [wrap(headline(result))]
    if isinstance(result.finding, Culprit):
        blocks.append(_commit(result, result.finding))
    elif belief := belief_of(result.finding):
        blocks.append(_left(result, belief))
    if block := _ministat(result):
        blocks.append(block)
    if path := _path(result):
        blocks.append(f"What was measured, in the order of the commits:\n\n{path}")
    blocks.append(f"{wrap(_cost(result))}\nLog: {result.log}")  # a path is not cut
    return "\n\n".join(blocks)


def headline(result: Result) -> str:
    """How the search ended, in a sentence or two."""
    asked, finding = result.search, result.finding
    match finding:
        case Culprit():
            lead = users(finding.effects[0], asked)
            return (
                f"Commit {label(asked, finding.revision)} made the number "
                f"{'fall' if lead.ln_ratio < 0 else 'rise'}: {words.change(lead)}. It was verified "
                f"against its parent by fresh runs in turns, {_runs(lead)}. Certainty that it is "
                f"this commit: {words.certainty(finding.belief.chances[finding.revision])}."
            )
        case NotConfirmed():
            return _not_confirmed(result, finding)
        case Suspects():
            return (
                f"One of {words.count(len(finding.revisions), 'commit')} made the change, and "
                f"measuring cannot tell which: {plainly(words.reason(finding.why))}."
            )
        case _:
            return plainly(
                words.sentence(finding, lambda revision: label(asked, revision), lambda name: name)
            )


def _not_confirmed(result: Result, finding: NotConfirmed) -> str:
    if not finding.effects:
        return f"Nothing changed: {plainly(words.reason(finding.why))}."
    lead = users(finding.effects[0], result.search)
    if result.swapped:
        return (
            f"The bad end is better than the good one, {words.change(lead)}, {_runs(lead)}: --good "
            f"and --bad are the wrong way round, or --direction is not {result.search.direction}."
        )
    if result.undecided:
        return (
            f"The two ends scatter too much to be told apart: {words.change(lead)}, "
            f"{_runs(lead)}. No commit is named; a command that measures longer, or the mean of "
            "several measurements, scatters less."
        )
    return (
        f"Nothing changed between the two ends, or too little to search for: {words.change(lead)}, "
        f"measured in turns: {plainly(words.reason(finding.why))}. No commit is named."
    )


def _commit(result: Result, finding: Culprit) -> str:
    commit = result.commit
    rows = [("commit", finding.revision)]
    if commit is not None:
        rows += [
            ("subject", words.clean(commit.subject)),
            ("author", words.clean(f"{commit.author} <{commit.email}>")),
            ("date", words.moment(commit.at)),
        ]
    lead = users(finding.effects[0], result.search)
    rows += [
        ("parent", label(result.search, finding.parent)),
        ("effect", f"{words.change(lead)}, {_runs(lead)}"),
        ("chance", f"{words.odds(lead.p)} if both were equal"),
        ("certainty", words.certainty(finding.belief.chances[finding.revision])),
    ]
    return table(rows)


def belief_of(finding: Finding) -> Belief | None:
    """What is held to be true where no commit is named."""
    if isinstance(finding, Suspects | Unfinished | NotReproduced):
        return finding.belief
    return None


def _left(result: Result, belief: Belief) -> str:
    drawn = picture.posterior(belief, lambda revision: revision[:12])
    if isinstance(result.finding, NotReproduced):
        return "\n".join(drawn)
    rows = [
        (words.certainty(belief.chances[one]), label(result.search, one))
        for one in belief.credible(0.9)[:20]
    ]
    listing = f"\n\nThe likeliest, 90 % together:\n\n{table(rows)}" if rows else ""
    return "\n".join(drawn) + listing


def _ministat(result: Result) -> str:
    """The two sides as ministat shows them: of the verification, or of the two ends."""
    asked, finding = result.search, result.finding
    if isinstance(finding, Culprit):
        sides, effect = (finding.parent, finding.revision), finding.effects[0]
    elif isinstance(finding, NotConfirmed) and finding.effects:
        sides, effect = (asked.good, asked.line[-1].revision), finding.effects[0]
    else:
        return ""
    numbers = numbers_of(result.entries)
    good = numbers.get(sides[0], [])[-effect.good_boots :]
    bad = numbers.get(sides[1], [])[-effect.bad_boots :]
    if min(len(good), len(bad)) < POINTS_MIN:
        return ""
    return ministat([(sides[0][:12], good), (sides[1][:12], bad)]).rstrip("\n")


def numbers_of(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """What the command printed, by revision."""
    boots = {entry.id: entry.revision for entry in entries if isinstance(entry, Boot)}
    found: dict[str, list[float]] = {}
    for entry in entries:
        if isinstance(entry, Sample):
            found.setdefault(boots[entry.boot], []).append(entry.pps)
    return found


def skipped_of(entries: Sequence[Entry]) -> dict[str, str]:
    """Why a revision was skipped, by revision."""
    return {
        entry.revision: entry.why
        for entry in entries
        if isinstance(entry, Dud) and entry.reaction is Reaction.SKIP
    }


def _mean(numbers: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def _path(result: Result) -> str:
    asked = result.search
    numbers, skipped = numbers_of(result.entries), skipped_of(result.entries)
    good = numbers.get(asked.good)
    rows = []
    for revision in asked.subjects:
        if revision in numbers:
            mean = _mean(numbers[revision])
            against = words.percent(math.log(mean / _mean(good))) if good else ""
            against = "" if revision == asked.good else against
            count = words.count(len(numbers[revision]), "run")
            rows.append((label(asked, revision), count, f"{mean:.6g}", against))
        elif revision in skipped:
            rows.append((label(asked, revision), "skipped", words.clean(skipped[revision]), ""))
    return table(rows) if rows else ""


def _cost(result: Result) -> str:
    cost = cost_of(result.entries)
    builds = f", {words.count(cost['setups'], 'set-up')}" if result.search.setup else ""
    return (
        f"{words.count(cost['runs'], 'run')} of {words.count(cost['revisions'], 'revision')}"
        f"{builds}, {words.duration(cost['seconds'])}."
    )


def cost_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """What a search has taken."""
    return {
        "runs": sum(isinstance(entry, Sample) for entry in entries),
        "revisions": len(numbers_of(entries)),
        "setups": sum(isinstance(entry, Kernel) for entry in entries),
        "seconds": search.spent(entries),
    }
