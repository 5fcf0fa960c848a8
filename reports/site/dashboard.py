"""The dashboard: how the watch is, on one screen, without script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netbisect.reports.documents.digest_types import MissingScenarios
from netbisect.reports.documents.types import AlertSummary
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment
from netbisect.reports.site import frame
from netbisect.reports.site.pages import branches_of, grid
from netbisect.reports.site.view_models import SiteOverview, alert_page, question_page

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

environment.filters.update(range_of=frame.culprit_or_range)


@dataclass(frozen=True, slots=True)
class NightProgress:
    """Progress of the last night."""

    planned: int
    """Series."""
    measured: int
    missing: tuple[MissingScenarios, ...]
    begun: float | None
    """None when there was none."""
    finished: float | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A running job."""

    kind: str
    """`night`, `comparison`, `bisection` or `profiling`."""
    number: int
    testbed: str
    branch: str
    since: float
    done: float | None
    """Share of the whole, 0 to 1; None if unknown."""
    left: float | None
    """Remaining lab time in seconds; None if unknown."""
    said: str
    """Progress in words."""
    now: str

    @property
    def page(self) -> str:
        """Its file in the site; "" for a night, or a profile, which has none."""
        paged = self.kind in {"comparison", "bisection"}
        return question_page(self.kind, self.number) if paged else ""


@dataclass(frozen=True, slots=True)
class QuarantineLine:
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
    """Of the site, with a slash at the end; "" if none."""

    def of(self, page: str) -> str:
        """Of a file of the site; "" if none."""
        return f"{self.site}{page}" if self.site and page else ""

    def alert(self, alert: AlertSummary) -> str:
        """Of an alert: in the site, or the service's own page of a drop."""
        here = f"{self.service}reports/alert-{alert.id}.html" if alert.kind == "drop" else ""
        return self.of(alert_page(alert.id)) or here


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Data of the dashboard."""

    overview: SiteOverview
    night: NightProgress
    running: Sequence[Progress]
    held: Sequence[QuarantineLine]
    addresses: Addresses
    at: float
    """Now, seconds since the epoch."""
    stalls: Sequence[str] = ()
    """Sentences about recent stalls of the master."""
    unread: int = 0
    """Testbeds and scenarios that are not in the grid yet."""
    mails_given_up: int = 0
    """Mails that are not tried any more, after errors."""


def page(view: Dashboard) -> str:
    """The page; it looks again by itself."""
    alerts = view.overview.alerts
    wanting = sorted((one for one in alerts if one.wanting), key=_severity)
    known = [one for one in alerts if one.state.standing and not one.wanting]
    over = [
        one for one in alerts if not one.state.standing and one.changed_at > view.at - NEWS_SECONDS
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


def _severity(alert: AlertSummary) -> tuple[bool, float]:
    """Drops first, the largest change of each kind first."""
    return alert.kind != "drop", -abs(alert.ln_ratio or 0.0)


def _several(scenarios: Sequence[str]) -> str:
    """The first few by name."""
    more = len(scenarios) - _NAMED
    named = list(scenarios[:_NAMED])
    return words.listing([*named, f"{more} more scenarios"] if more > 1 else list(scenarios))


def _headline(night: NightProgress) -> str:
    if night.begun is None:
        return "No night yet."
    day = words.day(night.begun)
    ran = f"{night.measured} of {night.planned} series"
    if night.finished is None:
        return f"The night of {day} is running: {ran} measured."
    gone = night.planned - night.measured
    end = f", {gone} missing" if gone else ", none missing"
    return f"Last night, {day}, ended {words.moment(night.finished)[11:]}: {ran} measured{end}."
