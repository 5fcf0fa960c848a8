"""What the dashboard shows, kept between two looks: only what has changed is read anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from netbisect.reports.documents import Missing
from netbisect.reports.site import series as series_pages
from netbisect.reports.site.nouns import AlertLine, Overview, Summary
from netbisect.steps import digest
from netbisect.steps import site_material as material
from netbisect.steps.settings import Settings
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.marks import Counted
from netbisect.store.records import Asked, Decision, Event
from netbisect.workers.lab import Lab

Place = tuple[str, str]
"""Testbed and scenario."""

_MANY = 10_000
"""Events of which it is no less work to read all anew."""


@dataclass(frozen=True, slots=True)
class Late:
    """Series that are to be read."""

    place: Place
    mark: str
    """The state of what they are made from."""


@dataclass(frozen=True, slots=True)
class _News:
    """What has happened since the ledger was looked at last."""

    measured: frozenset[str] | None = None
    """Testbeds whose samples were taken in; None where nobody knows."""
    alerts: frozenset[int] = frozenset()
    """Those to which something was done."""
    questions: frozenset[int] | None = None
    """Those of which anything was told; None where nobody knows."""


@dataclass
class Board:
    """What is known of one service; its methods belong into the ledger's thread."""

    settings: Settings
    lab: Lab
    _series: dict[Place, tuple[str, list[Summary]]] = field(default_factory=dict)
    """With the state of what they were made from."""
    _event: int = -1
    """The last one that is known; there may be thousands of alerts, and millions of samples."""
    _counted: dict[Place, Counted] = field(default_factory=dict)
    """The samples of all series."""
    _touched: dict[Place, int] = field(default_factory=dict)
    """Where something was done to an alert since the board was opened: up to which event."""
    _begun: int = -1
    """The event up to which all was read at once."""
    _lines: list[AlertLine] = field(default_factory=list)
    """Alerts that stand, or that were changed lately; oldest first."""
    _missing: dict[int, list[Missing]] = field(default_factory=dict)
    """By night, what of it was not measured."""
    _progress: dict[int, tuple[tuple[int, int], Progress]] = field(default_factory=dict)
    """By question, with how many orders there were and how many were over."""

    def late(self, ledger: Ledger) -> list[Late]:
        """What has changed since it was read."""
        self._learn(ledger)
        marks = {place: self._mark(place) for place in sorted(self._counted)}
        for place in [one for one in self._series if one not in marks]:
            del self._series[place]
        return [
            Late(place, mark)
            for place, mark in marks.items()
            if place not in self._series or self._series[place][0] != mark
        ]

    def read(self, ledger: Ledger, late: Late) -> None:
        """Reads the series of a testbed and scenario."""
        found = [
            series_pages.summary(
                # No line of the dashboard tells of the alerts of a series by its steps.
                material.view_of(ledger, trail, self._names, [], self.settings.min_effect)
            )
            for trail in ledger.trails(*late.place)
        ]
        self._series[late.place] = (late.mark, found)

    def look(self, ledger: Ledger) -> Dashboard:
        """What there is to show; series that have not been read are only counted."""
        now = ledger.clock()
        self._learn(ledger)
        series = [one for _, found in self._series.values() for one in found]
        series.sort(key=lambda one: one.name)
        return Dashboard(
            overview=Overview(
                at=now,
                nights=[],
                night_at=None,
                alerts=self._lines[::-1],
                running=[],
                series=series,
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

    def _learn(self, ledger: Ledger) -> None:
        """Reads what has happened, and of what is known that which it makes old.

        To count all samples takes a third of a second where there are millions, so they are
        counted again only of testbeds that have measured since; and alerts are read, with their
        series, only if something was done to one, and only those that may be shown.
        """
        event, before = ledger.last_event(), self._event
        if event == before:
            return
        news = _News()
        if 0 <= before < event:
            events, last = ledger.events_since(before, _MANY)
            if len(events) < _MANY:
                news, event = _news_of(events), last
        if news.measured is None:
            self._counted = ledger.counted()
        elif news.measured:
            self._counted |= ledger.counted(news.measured)
        if news.questions is None:
            self._missing, self._touched, self._begun = {}, {}, event
        else:
            self._missing = {
                night: found
                for night, found in self._missing.items()
                if night not in news.questions
            }
        if news.alerts:
            places = ledger.places_of_alerts(news.alerts)
            self._touched |= dict.fromkeys(places, event)
        if news.alerts or news.questions is None:
            self._lines = self._read_alerts(ledger)
        self._event = event

    def _mark(self, place: Place) -> str:
        """The state of what a series is made from: samples, and alerts by which baselines begin."""
        counted = self._counted[place]
        return f"{counted.samples} {counted.latest!r} {self._touched.get(place, self._begun)}"

    def _read_alerts(self, ledger: Ledger) -> list[AlertLine]:
        alerts = ledger.current_alerts(ledger.clock() - dashboard.NEWS_SECONDS)
        changed = ledger.alert_news([one.id for one in alerts])
        return [
            material.alert_line(one, self._names, changed.get(one.id, (0, 0.0))[1])
            for one in alerts
        ]

    def _night(self, ledger: Ledger) -> dashboard.Night:
        nights = ledger.last_nights(material.NIGHT_SECONDS)
        names = digest.Names(self.lab)
        self._missing = {
            night.id: self._missing[night.id]
            if night.id in self._missing
            else digest.missing_of(ledger, night, names)
            for night in nights
        }
        missing = [one for found in self._missing.values() for one in found]
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
        asked = ledger.open_questions()
        kept = {one.id for one in asked}
        counts = ledger.progress(kept)
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


def _news_of(events: Sequence[Event]) -> _News:
    measured: set[str] = set()
    known = True
    for event in events:
        if event.kind == "sample":
            measured.add(event.data["testbed"])
        elif event.kind == "import":
            # Imported by a version that did not say from where: anything may be new.
            known = known and event.data.get("testbeds") is not None
            measured.update(event.data.get("testbeds") or ())
    return _News(
        measured=frozenset(measured) if known else None,
        alerts=frozenset(one.data["alert"] for one in events if one.kind == "alert"),
        questions=frozenset(one.question for one in events if one.question is not None),
    )


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
