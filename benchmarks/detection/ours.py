"""The watch of netbisect in the simulated lab: screen, group, retest in turns, pairs of images."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from benchmarks.detection.lab import BOOTS, Lab
from netbisect.bisect import comparison, confirm, family, modes
from netbisect.bisect.confirm import Word
from netbisect.bisect.detect import noise_of
from netbisect.bisect.model import (
    Comparison,
    Confirmed,
    Effect,
    Evidence,
    Level,
    Noise,
    NotConfirmed,
    Reading,
    Visit,
)
from netbisect.bisect.modes import Modes
from netbisect.bisect.screen import SCREEN_SD, Screen, screen
from netbisect.bisect.segments import boots_of
from netbisect.bisect.states import AlertKind

_SCENARIO = "forwarding"
_RELEARN = 5
"""Nights after which modes are learned anew; to save time, they hardly change."""


@dataclass
class _Series:
    levels: list[Level] = field(default_factory=list)
    """Of the baseline: since the last change that was told."""
    history: list[Level] = field(default_factory=list)
    modes: Modes | None = None
    expected: float = SCREEN_SD
    """Image noise that all of its history shows."""
    noise: Noise = field(default_factory=Noise)
    pairs: list[Comparison] = field(default_factory=list)
    """Compared so far, while a change is being confirmed."""
    effects: list[Effect] = field(default_factory=list)
    since: int = 0
    """Night of the oldest suspect."""


@dataclass
class Watch:
    """Plays all nights of a lab."""

    lab: Lab
    boots: int = 0
    """Of retests."""
    retests: int = 0
    suspicious: int = 0

    def __post_init__(self) -> None:
        self.series = [_Series() for _ in self.lab.scatters]

    def night(self, night: int) -> list[tuple[int, int]]:
        """Measures one night; the alerts: series, and the night since which it is slower."""
        alerts = []
        suspicions = []
        confirming = []
        for index, one in enumerate(self.series):
            values = self.lab.boots(index, night, night, 0, BOOTS)
            level = Level(str(night), str(night), float(night), tuple(values))
            one.levels.append(level)
            one.history.append(level)
            if len(one.levels) < 2:
                continue
            if len(one.history) % _RELEARN == 2:
                one.modes = modes.learn(boots_of(one.history[:-1]))
                one.expected = noise_of(one.history[:-1]).image
            found = screen(one.levels[:-1], one.levels[-1], modes=one.modes, image_sd=one.expected)
            if one.pairs:
                confirming.append((index, found))
            elif found.asks and found.kind is AlertKind.DROP:
                self.suspicious += 1
                suspicions.append(family.Suspicion(str(index), _SCENARIO, found))
        groups = [family.Group((one,)) for one in suspicions]
        confirming += [
            (int(group.lead.testbed), group.lead.found) for group in family.choose(groups)
        ]
        for index, found in confirming:
            since = self._retest(index, found, night)
            if since is not None:
                alerts.append((index, since))
        return alerts

    def _retest(self, index: int, found: Screen, night: int) -> int | None:
        """Measures pairs of images as long as they leave a doubt and there are any."""
        one = self.series[index]
        if one.pairs:
            pair = family.next_pair(one.pairs, one.levels, one.noise)
        else:
            one.noise, one.effects = noise_of(one.history[:-1]), []
            one.since = min(int(name) for name in found.suspects)
            pair = Comparison(
                "main",
                str(index),
                found.good,
                str(night),
                (_SCENARIO,),
                _SCENARIO,
                found.ln_ratio,
                noise=one.noise,
            )
        while pair is not None:
            one.pairs.append(pair)
            ended = self._turns(index, pair, night)
            one.effects += ended.effects[:1]
            if len(one.pairs) == 1 and isinstance(ended, NotConfirmed):
                word = Word.NO
            else:
                goods = len({pair.good for pair in one.pairs})
                known = one.noise.image_weight
                word = confirm.judge(
                    one.effects, one.noise.image, goods=goods, image_weight=known
                ).word
            if word is not Word.MORE:
                one.pairs = []
            if word is Word.NO:
                return None
            if word is Word.CHANGED:
                one.levels = [level for level in one.levels if int(level.revision) >= one.since]
                return one.since
            pair = family.next_pair(one.pairs, one.levels, one.noise)
        return None  # the next night brings another image

    def _turns(self, index: int, question: Comparison, night: int) -> Confirmed | NotConfirmed:
        self.retests += 1
        readings: list[Reading] = []
        turns = {
            name: self.lab.boots(index, int(name), night, 1, 30)
            for name in (question.good, question.bad)
        }
        while True:
            move = comparison.next_move(question, Evidence(tuple(readings)))
            if not isinstance(move, Visit):
                assert isinstance(move, Confirmed | NotConfirmed)
                return move
            self.boots += 1
            name = move.revision
            count = sum(reading.revision == name for reading in readings)
            value = float(turns[name][count])
            assert math.isfinite(value)
            readings.append(Reading(f"{name}-{count}", name, name, {_SCENARIO: value}))
