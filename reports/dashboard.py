"""The dashboard: how the watch is, on one screen, without script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.reports import words
from netbisect.reports.documents import Missing
from netbisect.reports.site import frame as site_frame
from netbisect.reports.site.nouns import AlertLine, Overview, question_page
from netbisect.reports.site.pages import branches_of, grid
from netbisect.reports.templating import environment

ALERTS_MAX = 10
"""Of each kind, largest change first."""
_MISSING_MAX = 8
_NAMED = 3
"""Scenarios that were not measured for one reason, by name."""
_DAY = 86400.0
NEWS_SECONDS = 30 * _DAY
"""That an alert is shown after something was done to it last, when it is over."""
_SOON, _CALM = 5, 60
"""Seconds until the page looks again: while series are read, and else."""

environment.filters.update(range_of=site_frame.culprit_or_range)


@dataclass(frozen=True, slots=True)
class Night:
    """What the last night came to."""

    planned: int
    """Series."""
    measured: int
    missing: tuple[Missing, ...]
    begun: float | None
    """None when there was none."""
    finished: float | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A question that is being measured."""

    kind: str
    """`night`, `comparison`, `bisection` or `profiling`."""
    number: int
    testbed: str
    branch: str
    since: float
    done: float | None
    """Share of the whole, 0 to 1; None where nobody can tell."""
    left: float | None
    """Seconds of the lab; None where nobody can tell."""
    said: str
    """How far it is, for people."""
    now: str

    @property
    def page(self) -> str:
        """Its file in the site; "" for a night, or a profile, which has none."""
        paged = self.kind in {"comparison", "bisection"}
        return question_page(self.kind, self.number) if paged else ""


@dataclass(frozen=True, slots=True)
class Held:
    """A testbed in quarantine."""

    testbed: str
    since: float
    why: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the page leads to."""

    service: str
    """Of the service's own pages, with a slash at the end."""
    site: str = ""
    """Of the site, with a slash at the end; "" where there is none."""

    def of(self, page: str) -> str:
        """Of a file of the site; "" where there is none."""
        return f"{self.site}{page}" if self.site and page else ""

    def alert(self, alert: AlertLine) -> str:
        """Of an alert: in the site, or the service's own page of a drop."""
        here = f"{self.service}reports/alert-{alert.number}.html" if alert.kind == "drop" else ""
        return self.of(alert.page) or here


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """What the page tells."""

    overview: Overview
    night: Night
    running: Sequence[Progress]
    held: Sequence[Held]
    addresses: Addresses
    at: float
    """Now, seconds since the epoch."""
    unread: int = 0
    """Testbeds and scenarios that are not in the grid yet."""


def page(view: Dashboard) -> str:
    """The page; it looks again by itself."""
    alerts = view.overview.alerts
    wanting = sorted((one for one in alerts if one.wanting), key=_severity)
    known = [one for one in alerts if one.state.standing and not one.wanting]
    over = [
        one for one in alerts if not one.state.standing and one.changed > view.at - NEWS_SECONDS
    ]
    return environment.get_template("dashboard.html").render(
        view=view,
        refresh=_SOON if view.unread else _CALM,
        headline=_headline(view.night),
        missing=[
            (words.clean(f"{one.place}: {_several(one.scenarios)}"), one.why)
            for one in view.night.missing[:_MISSING_MAX]
        ],
        missing_more=max(len(view.night.missing) - _MISSING_MAX, 0),
        wanting=wanting[:ALERTS_MAX],
        wanting_more=max(len(wanting) - ALERTS_MAX, 0),
        standing=len(wanting),
        known=known[:ALERTS_MAX],
        known_more=max(len(known) - ALERTS_MAX, 0),
        over=over[:ALERTS_MAX],
        over_more=max(len(over) - ALERTS_MAX, 0),
        grids=[grid(view.overview, name) for name in branches_of(view.overview.series)],
        link=view.addresses,
    )


def _severity(alert: AlertLine) -> tuple[bool, float]:
    """Drops first, the largest change of each kind first."""
    effect = alert.effect
    return alert.kind != "drop", -abs(effect.ln_ratio) if effect is not None else 0.0


def _several(scenarios: Sequence[str]) -> str:
    """The first few by name."""
    more = len(scenarios) - _NAMED
    named = list(scenarios[:_NAMED])
    return words.listing([*named, f"{more} more scenarios"] if more > 1 else list(scenarios))


def _headline(night: Night) -> str:
    if night.begun is None:
        return "No night has been asked for yet."
    day = words.day(night.begun)
    ran = f"{night.measured} of {night.planned} series"
    if night.finished is None:
        return f"The night of {day} is under way: {ran} measured."
    gone = night.planned - night.measured
    end = f", {gone} missing" if gone else ", none missing"
    return f"Last night, {day}, ended {words.moment(night.finished)[11:]}: {ran} measured{end}."
