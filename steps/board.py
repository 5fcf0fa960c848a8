"""What the dashboard shows, kept between two looks: only what has changed is read anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netbisect.bisect import plan
from netbisect.bisect.comparison import LOOKS
from netbisect.bisect.measurement import remaining
from netbisect.bisect.model import (
    Bisection,
    Boot,
    Comparison,
    Level,
    Measurement,
    Night,
    Prices,
    Profiling,
)
from netbisect.reports import dashboard, words
from netbisect.reports.dashboard import Addresses, Dashboard, Held, Progress
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.nouns import AlertLine, Overview, Summary
from netbisect.steps import digest
from netbisect.steps import site_material as material
from netbisect.steps.settings import Settings
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.marks import Counted
from netbisect.store.records import Asked, Decision
from netbisect.workers.lab import Lab

Place = tuple[str, str]
"""Testbed and scenario."""


@dataclass(frozen=True, slots=True)
class Late:
    """Series that are to be read."""

    place: Place
    mark: str
    """The state of what they are made from."""
    alerts: list[AlertLine]
    """That moved one of them."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is read of all series and alerts at once, up to an event; there may be thousands."""

    event: int = -1
    marks: Mapping[Place, str] = field(default_factory=dict)
    """The state of what series are made from: samples, and alerts by which baselines begin."""
    lines: tuple[AlertLine, ...] = ()
    """Alerts that were announced, oldest first."""
    touching: Mapping[Place, list[AlertLine]] = field(default_factory=dict)
    """Those that moved a series of a testbed and scenario."""


@dataclass
class Board:
    """What is known of one service; its methods belong into the ledger's thread."""

    settings: Settings
    lab: Lab
    _series: dict[Place, tuple[str, list[Summary]]] = field(default_factory=dict)
    """With the state of what they were made from."""
    _known: _Known = field(default_factory=_Known)
    _counted: dict[Place, Counted] = field(default_factory=dict)
    """The samples of all series, up to that event."""
    _progress: dict[int, tuple[tuple[int, int], Progress]] = field(default_factory=dict)
    """By question, with how many orders there were and how many were over."""

    def late(self, ledger: Ledger) -> list[Late]:
        """What has changed since it was read."""
        known = self._of(ledger)
        for place in [one for one in self._series if one not in known.marks]:
            del self._series[place]
        return [
            Late(place, mark, known.touching.get(place, []))
            for place, mark in known.marks.items()
            if place not in self._series or self._series[place][0] != mark
        ]

    def read(self, ledger: Ledger, late: Late) -> None:
        """Reads the series of a testbed and scenario."""
        found = [
            series_pages.summary(
                material.view_of(ledger, trail, self._names, late.alerts, self.settings.min_effect)
            )
            for trail in ledger.trails(*late.place)
        ]
        self._series[late.place] = (late.mark, found)

    def look(self, ledger: Ledger) -> Dashboard:
        """What there is to show; series that have not been read are only counted."""
        now = ledger.clock()
        lines = list(self._of(ledger).lines)
        series = [one for _, found in self._series.values() for one in found]
        series.sort(key=lambda one: one.name)
        return Dashboard(
            overview=Overview(
                at=now, nights=[], night_at=None, alerts=lines[::-1], running=[], series=series
            ),
            night=self._night(ledger),
            running=list(self._running(ledger)),
            held=[
                Held(one.testbed, one.since, one.why)
                for _, one in sorted(ledger.quarantined().items())
            ],
            addresses=Addresses(
                f"{self.settings.web.url}plugins/netbisect/", self.settings.links.site
            ),
            at=now,
            unread=len(self.late(ledger)),
        )

    @property
    def _names(self) -> OfLedger:
        return OfLedger(self.settings.links.commit, self.lab)

    def _of(self, ledger: Ledger) -> _Known:
        """What is known now.

        To count all samples takes a third of a second where there are millions, so they are
        counted again only of testbeds that have measured since.
        """
        event, before = ledger.last_event(), self._known.event
        if before != event:
            measured = ledger.measured_since(before) if 0 <= before < event else None
            if measured is None:
                self._counted = ledger.counted()
            elif measured:
                self._counted |= ledger.counted(measured)
            self._known = self._read_all(ledger, event)
        return self._known

    def _read_all(self, ledger: Ledger, event: int) -> _Known:
        alerts, news, names = ledger.alerts(), ledger.alert_news(), self._names
        states: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
        lines = []
        touching: defaultdict[Place, list[AlertLine]] = defaultdict(list)
        for one in alerts:
            states[one.testbed].append((one.id, one.state.value, one.bad, one.culprit, one.testbed))
            lines.append(material.alert_line(one, names, news.get(one.id, (0, 0.0))[1]))
            for place in {(seen.testbed, seen.scenario) for seen in one.series if seen.moved}:
                touching[place].append(lines[-1])
        said = {testbed: str(of_testbed) for testbed, of_testbed in states.items()}
        marks = {
            (testbed, scenario): f"{counted.samples} {counted.latest!r} {said.get(testbed, '[]')}"
            for (testbed, scenario), counted in sorted(self._counted.items())
        }
        return _Known(event, marks, tuple(lines), touching)

    def _night(self, ledger: Ledger) -> dashboard.Night:
        nights = ledger.last_nights(material.NIGHT_SECONDS)
        names = digest.Names(self.lab)
        missing = [one for night in nights for one in digest.missing_of(ledger, night, names)]
        planned = sum(
            len(one.question.scenarios) for one in nights if isinstance(one.question, Night)
        )
        ends = [one.closed_at for one in nights]
        return dashboard.Night(
            planned=planned,
            measured=planned - sum(len(one.scenarios) for one in missing),
            missing=tuple(missing),
            begun=min((one.opened_at for one in nights), default=None),
            finished=None if None in ends else max((one for one in ends if one), default=None),
        )

    # ------------------------------------------------------------------------------ under way

    def _running(self, ledger: Ledger) -> Iterable[Progress]:
        counts = ledger.progress()
        asked = ledger.open_questions()
        kept = {one.id for one in asked}
        self._progress = {one: told for one, told in self._progress.items() if one in kept}
        for one in asked:
            count = counts.get(one.id, (0, 0))
            if self._progress.get(one.id, ((-1, -1), None))[0] != count:
                self._progress[one.id] = (count, self._progress_of(ledger, one))
            yield self._progress[one.id][1]

    def _progress_of(self, ledger: Ledger, asked: Asked) -> Progress:
        question = asked.question
        decisions = ledger.decisions(asked.id)
        prices = ledger.prices(question.testbed)
        share: float | None
        left: float | None
        match question:
            case Night():
                done = _boots(ledger, asked)
                share, left, said = _of_boots(done, question.boots, prices, question.scenarios)
            case Comparison():
                done = _fewest(ledger, question)
                share, left, said = _of_boots(done, LOOKS[-1], prices, question.scenarios, sides=2)
            case Bisection():
                share, left, said = self._search(ledger, asked, question, prices)
            case Profiling():
                # As long as nobody knows what to send, each is first asked what it forwards.
                boots = len(question.revisions) * (1 if question.pps else 2)
                done = _boots(ledger, asked)
                share, left, said = _of_boots(done, boots, prices, question.scenarios)
            case Measurement():
                boots = len(question.revisions) * question.boots
                done = boots - remaining(question, self._names.evidence(ledger, asked))
                share, left, said = _of_boots(done, boots, prices, question.scenarios)
        orders = [one for one in decisions if one.outcome is None] or decisions[-1:]
        order = "; ".join(_order(ledger, one, question.testbed) for one in orders) or "waits"
        return Progress(
            kind=type(question).__name__.lower(),
            number=asked.id,
            testbed=question.testbed,
            branch=question.branch,
            since=asked.opened_at,
            done=share,
            left=left,
            said=said,
            now=order,
        )

    def _search(
        self, ledger: Ledger, asked: Asked, question: Bisection, prices: Prices
    ) -> tuple[float | None, float | None, str]:
        evidence = self._names.evidence(ledger, asked)
        ahead = plan.outlook(question, evidence, prices)
        left, spent = 3600 * ahead.hours_left, ledger.cost([asked.id]).seconds
        best, chance = max(ahead.belief.chances.items(), key=lambda one: one[1])
        said = f"{words.count(len(question.candidates), 'commit')}; likeliest "
        if ahead.belief.none > chance:
            said += f"no change, {words.certainty(ahead.belief.none)}"
        else:
            said += f"{ledger.label(best)}, {words.certainty(chance)}"
        return spent / (spent + left) if spent + left else None, left, said


def _order(ledger: Ledger, decision: Decision, own: str) -> str:
    """What is being done, and where that is not the testbed that it is done for."""
    guest = f" on {decision.testbed}" if decision.testbed != own else ""
    return f"{decision.stage.value} {ledger.label(decision.revision)}{guest}: {decision.why}"


def _boots(ledger: Ledger, asked: Asked) -> int:
    return sum(isinstance(fact, Boot) for fact in ledger.facts_of(asked.id))


def _fewest(ledger: Ledger, question: Comparison) -> int:
    """Boots of the side that has fewer, of the leading scenario."""
    levels: list[Level] = ledger.series(question.testbed, question.lead, question.branch)
    return min(
        sum(len(one.ln_pps) for one in levels if one.revision == end)
        for end in (question.good, question.bad)
    )


def _of_boots(
    done: int, most: int, prices: Prices, scenarios: tuple[str, ...], sides: int = 1
) -> tuple[float, float, str]:
    """Share, seconds left at most, and words, of so many boots on every side."""
    left = max(most - done, 0) * sides * (prices.boot + prices.run * len(scenarios))
    on_each = " on either side" if sides > 1 else ""
    at_most = "at most " if sides > 1 else ""
    said = f"{done} of {at_most}{words.count(most, 'boot')}{on_each}"
    return min(done / most, 1.0), left, said
