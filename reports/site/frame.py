"""Common parts of the site's pages: frame and formats."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from netbisect.bisect.model.detection_results import LevelDifference
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.types import HASH_LENGTH, AlertSummary
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment
from netbisect.reports.site import files


@dataclass(frozen=True, slots=True)
class Serving:
    """Links that only the pages of the running service have."""

    builds: str
    """Address of Buildbot's own pages."""
    login: str = ""
    """Address that logs a user in; "" if there are no logins."""


REFRESH = 60
"""Seconds until a page about work in progress renews itself."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the static site and of the service."""

    template: str
    """File in the folder `site`."""
    values: Mapping[str, object]

    def html(self, live: Serving | None = None) -> str:
        """The page as the service serves it; without `live` that of the static site."""
        return environment.get_template(f"site/{self.template}").render(self.values, live=live)


File: TypeAlias = Callable[[], Page | str]
"""A function that makes a page, or the text of another file."""
AlternateForm: TypeAlias = tuple[str, str, str]
"""The content of a page in another format: media type, title and address."""
FEED = "feed.atom"
"""The file of the feed of alerts."""
FEEDS: tuple[AlternateForm] = (("application/atom+xml", "Alerts", FEED),)


def as_document(page: str) -> AlternateForm:
    """The JSON document of a page."""
    return "application/json", "For programs", files.document_file(page)


def culprit_or_range(alert: AlertSummary) -> str:
    """The commit of an alert, or between which revisions it lies."""
    if alert.culprit:
        return words.clean(alert.culprit[:HASH_LENGTH])
    return words.clean(f"{alert.good[:HASH_LENGTH]}..{alert.bad[:HASH_LENGTH]}")


def distance_text(distance: LevelDifference | None, series: str) -> str:
    """A distance in a series with its interval, and ~ where it may be nothing."""
    if distance is None:
        return ""
    effect = Effect(series, distance.ln_ratio, distance.low, distance.high, 1.0, 0, 0)
    return words.change(effect) if distance.clear else f"~ {words.change(effect)}"


def short_distance(distance: LevelDifference | None, series: str) -> str:
    """A distance in a series without its interval, and ~ where it may be nothing."""
    if distance is None:
        return ""
    text = words.percent(distance.ln_ratio, series)
    return text if distance.clear else f"~ {text}"


_names_of_files = inspect.getmembers(files, inspect.isfunction)
environment.globals.update(_names_of_files)
environment.filters.update(
    _names_of_files, culprit_or_range=culprit_or_range, distance=distance_text
)


def make_page(
    template: str,
    page_title: str,
    *,
    current: str = "",
    alternates: Sequence[AlternateForm] = (),
    trail: Sequence[tuple[str, str]] = (),
    changing: bool = False,
    **values: object,
) -> Page:
    """A page from a file in the folder `site`; its title is also its first heading.

    `current` is the file in the navigation, by default its own; `alternates` are other forms of the
    same, `trail` files and names of the pages above it. A browser reloads a `changing` page, which
    shows work in progress.
    """
    frame: dict[str, Any] = {
        "page_title": page_title,
        "current": current or template,
        "alternates": alternates,
        "trail": trail,
        "changing": changing,
        "wide": False,
        "as_of": "",
        "refresh": REFRESH,
    }
    return Page(template, frame | values)


def message(title: str, text: str, *, table: str = "", login: bool = False) -> Page:
    """A page with a sentence, preformatted text below it, and a login if that may help."""
    return make_page("message.html", title, message=text, table=table, may_log_in=login)
