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
from netbisect.bisect.screen import Screen, screen
from netbisect.bisect.segments import boots_of
from netbisect.bisect.states import AlertKind

_SCENARIO = "forwarding"
_RELEARN = 5
"""Nights after which modes are learned anew; to save time, they hardly change."""


@dataclass
class _Series:
    levels: list[Level] = field(default_factory=list)
    pairs: list[Effect] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    noise: Noise = field(default_factory=Noise)
    modes: Modes | None = None
    first: int = 0
    """Night of the oldest suspect, while a change is being confirmed."""


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
            one.levels.append(Level(str(night), str(night), float(night), tuple(values)))
            if len(one.levels) < 2:
                continue
            if len(one.levels) % _RELEARN == 2:
                one.modes = modes.learn(boots_of(one.levels[:-1]))
            found = screen(one.levels[:-1], one.levels[-1], modes=one.modes)
            if one.pairs:
                confirming.append((index, found))
            elif (
                found.suspicious
                and found.kind is AlertKind.DROP
                and found.suspects[:1] == (str(night),)
            ):
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
        if not one.pairs:
            one.noise = noise_of(one.levels[:-1])
            one.used = set()
            suspects = list(found.suspects)
            one.first = min(int(name) for name in suspects)
        else:
            suspects = [str(night)]
        goods = [name for name in found.goods if int(name) < one.first]
        while True:
            bad = next((name for name in suspects if name not in one.used), None)
            good = next((name for name in goods if name not in one.used), None)
            if bad is None or good is None:
                return None  # the next night brings another image
            one.used |= {bad, good}
            ended = self._turns(index, good, bad, night, one.noise, found.ln_ratio)
            if not one.pairs and isinstance(ended, NotConfirmed):
                return None
            if not ended.effects:
                return None
            one.pairs.append(ended.effects[0])
            verdict = confirm.judge(one.pairs, one.noise.image)
            if verdict.word is Word.MORE:
                continue
            one.pairs = []
            if verdict.word is Word.NO:
                return None
            one.levels = [level for level in one.levels if int(level.revision) >= one.first]
            return one.first

    def _turns(
        self, index: int, good: str, bad: str, night: int, noise: Noise, suspected: float
    ) -> Confirmed | NotConfirmed:
        self.retests += 1
        question = Comparison(
            "main", str(index), good, bad, (_SCENARIO,), _SCENARIO, suspected, noise=noise
        )
        readings: list[Reading] = []
        turns = {name: self.lab.boots(index, int(name), night, 1, 30) for name in (good, bad)}
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
