"""From a suspicion to a verdict: which pairs of images are compared, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.bisect import confirm, family
from netbisect.bisect.confirm import Word
from netbisect.bisect.detect import noise_of
from netbisect.bisect.family import Tonight
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Effect,
    Night,
    Noise,
    NotConfirmed,
)
from netbisect.bisect.states import AlertState
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked


@dataclass(frozen=True, slots=True)
class Answer:
    """What all comparisons of one suspicion say."""

    word: Word
    effects: tuple[Effect, ...]
    """Over all pairs, the leading scenario first."""
    why: str
    first: Comparison
    """The first pair: its ends are those of a search."""


def tonight(ledger: Ledger, night: Night, min_effect: float) -> Tonight:
    """What the series that the night has measured say: what to compare, and whose modes shift."""
    series, noises = {}, {}
    for scenario in night.scenarios:
        levels = ledger.levels(night.testbed, scenario, night.branch)
        if levels.baseline and levels.baseline[-1].revision == night.revision:
            series[scenario] = levels.baseline
            # The noise is that of the machine: it does not begin anew with every change.
            noises[scenario] = noise_of(levels.whole[:-1])
    return family.tonight(night, series, min_effect, noises)


def doubtful(ledger: Ledger, testbed: str, branch: str) -> tuple[Alert, Asked] | None:
    """A change of this testbed that is being confirmed, and its last comparison."""
    for alert in ledger.pending_alerts():
        here = (alert.testbed, alert.branch) == (testbed, branch)
        if here and alert.state is AlertState.CONFIRMING and alert.comparison is not None:
            return alert, ledger.question(alert.comparison)
    return None


def next_pair(ledger: Ledger, asked: Asked) -> Comparison | None:
    """The comparison of two further images for the change that this one left in doubt."""
    pairs = [one.question for one in _compared(ledger, asked)]
    first = pairs[0]
    if first.noise is None:
        return None
    levels = ledger.baseline(first.testbed, first.lead, first.branch)
    return family.next_pair(pairs, levels, first.noise)


def answer(ledger: Ledger, asked: Asked, finding: Confirmed | NotConfirmed) -> Answer:
    """Judges what a comparison has found, together with those before it about the same change."""
    compared = _compared(ledger, asked)
    first = compared[0].question
    retests = [one.finding.effects for one in compared[:-1]] + [finding.effects]
    noise = first.noise or Noise()
    if isinstance(finding, NotConfirmed) and (len(compared) == 1 or not finding.effects):
        return Answer(Word.NO, finding.effects, finding.why, first)
    sign = 1 if first.suspected > 0 else -1
    leads = [effects[0] for effects in retests]
    goods = len({one.question.good for one in compared})
    verdict = confirm.judge(leads, noise.image, first.min_effect, sign, goods, noise.image_weight)
    effects = confirm.effects_together(retests, noise.image, goods)
    return Answer(verdict.word, effects, verdict.why, first)


@dataclass(frozen=True, slots=True)
class _Compared:
    question: Comparison
    finding: Confirmed | NotConfirmed


def chain(ledger: Ledger, asked: Asked) -> list[Asked]:
    """The comparisons about one change that lead to this one, the first one first."""
    found = []
    one: Asked | None = asked
    while one is not None and isinstance(one.question, Comparison):
        found.append(one)
        one = ledger.question(one.parent) if one.parent is not None else None
    return found[::-1]


def _compared(ledger: Ledger, asked: Asked) -> list[_Compared]:
    """The same with what they found; the last may be open."""
    found = []
    for one in chain(ledger, asked):
        assert isinstance(one.question, Comparison)
        finding = one.finding
        if not isinstance(finding, Confirmed | NotConfirmed):
            finding = NotConfirmed((), "it is not answered yet")
        found.append(_Compared(one.question, finding))
    return found
