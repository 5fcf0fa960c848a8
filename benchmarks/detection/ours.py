"""The monitoring of netbisect in the simulated lab: screen, choice of retests, retest."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.detection.lab import BOOTS, Lab
from netbisect.bisect.detection import confirmation, retest, screening, trend
from netbisect.bisect.detection.histories import estimate_noise
from netbisect.bisect.detection.nightly_screen import screen
from netbisect.bisect.model.alert_state import AlertKind
from netbisect.bisect.model.detection_results import MIN_EFFECT, ScreenResult
from netbisect.bisect.model.entities import Level, Noise
from netbisect.bisect.model.evidence import Evidence, Observation, Prices
from netbisect.bisect.model.jobs import CompareJob
from netbisect.bisect.model.results import Confirmed, NotConfirmed, Trial

_SCENARIO = "forwarding"
_DAY = 86400.0
_RETESTS = 5
"""Maximum retests of a night, of all testbeds."""
_RELEARN = 5
"""Interval in nights at which the noise is estimated again, to save time."""


@dataclass
class _Series:
    levels: list[Level] = field(default_factory=list)
    """Levels of the baseline, which begins at the last alert."""
    history: list[Level] = field(default_factory=list)
    known: Noise = field(default_factory=lambda: Noise(image_weight=0.0))
    """Noise estimated from the whole history."""
    alerted: set[AlertKind] = field(default_factory=set)
    """Kinds among modes and drift that have had an alert."""


@dataclass
class Watch:
    """Screens and retests the nights of a lab."""

    lab: Lab
    work: Counter[str] = field(default_factory=Counter)
    """Boots of retests, retests and suspicious series."""
    alerts: list[tuple[int, int, AlertKind]] = field(default_factory=list)
    """Night, series and kind of all alerts; modes and drift once per series."""

    def __post_init__(self) -> None:
        self.series = [_Series() for _ in self.lab.scatters]

    def night(self, night: int) -> list[tuple[int, int]]:
        """Measures a night; returns alerts: series, and the first slower night."""
        alerts = []
        suspicions: dict[str, ScreenResult] = {}
        for index, one in enumerate(self.series):
            values = self.lab.boots(index, night, night, 0, BOOTS)
            level = Level(str(night), str(night), _DAY * night, tuple(values))
            one.levels.append(level)
            one.history.append(level)
            if len(one.levels) < 2:
                continue
            if len(one.history) % _RELEARN == 2:
                one.known = estimate_noise(one.history[:-1])
            found = screen(one.levels, MIN_EFFECT, one.known)
            if found.suspicious and found.kind is AlertKind.MODES:
                self._alert_once(night, index, AlertKind.MODES)
            if trend.drift(one.levels, one.known) is not None:
                self._alert_once(night, index, AlertKind.DRIFT)
            self.work["suspicious"] += found.asks
            if found.asks and screening.retest_decides(found, one.known):
                suspicions[str(index)] = found
        for name in screening.retest_order(suspicions)[:_RETESTS]:
            index, found = int(name), suspicions[name]
            since = self._retest(index, found, night)
            if since is not None:
                drop = found.ln_ratio < 0
                kind = AlertKind.DROP if drop else AlertKind.IMPROVEMENT
                self.alerts.append((night, index, kind))
                alerts += [(index, since)] * drop
        return alerts

    def _alert_once(self, night: int, index: int, kind: AlertKind) -> None:
        if kind not in self.series[index].alerted:
            self.series[index].alerted.add(kind)
            self.alerts.append((night, index, kind))

    def _retest(self, index: int, found: ScreenResult, night: int) -> int | None:
        """Retests a suspicion; returns the first changed night, or None if not confirmed."""
        one = self.series[index]
        job = CompareJob(
            "main",
            str(index),
            found.good,
            str(night),
            (_SCENARIO,),
            _SCENARIO,
            found.ln_ratio,
            noise=estimate_noise(one.history[:-1]),
            agreed=found.agreed,
            commits=30,
        )
        result = self._interleaved_boots(index, job, night)
        if isinstance(result, Confirmed):
            result = confirmation.judge(job, result)
        if isinstance(result, NotConfirmed):
            return None
        # As in the service, until its search has found a commit.
        one.levels = one.levels[-1:]
        return int(found.good) + 1

    def _interleaved_boots(
        self, index: int, job: CompareJob, night: int
    ) -> Confirmed | NotConfirmed:
        self.work["retests"] += 1
        observations: list[Observation] = []
        boots = {
            name: [
                boot
                for turn in range(1, 5)
                for boot in self.lab.boots(index, int(name), night, turn, 60).tolist()
            ]
            for name in (job.good, job.bad)
        }
        while True:
            move = retest.next_move(job, Evidence(tuple(observations)), Prices())
            if not isinstance(move, Trial):
                assert isinstance(move, Confirmed | NotConfirmed)
                return move
            self.work["boots"] += 1
            name = move.revision
            count = sum(reading.revision == name for reading in observations)
            value = boots[name][count]
            assert math.isfinite(value)
            observations.append(Observation(f"{name}-{count}", name, name, {_SCENARIO: value}))
