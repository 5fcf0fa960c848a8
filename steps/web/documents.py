"""JSON documents, metrics, the Atom feed and badges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from buildbot.www.plugin import Application
from twisted.web.server import Request

from netbisect.reports.documents import atom, json_schema, prometheus
from netbisect.reports.documents.json_schema import Document
from netbisect.reports.plots import badge
from netbisect.steps.queries import badges
from netbisect.steps.queries.documents import DocumentQueries
from netbisect.steps.queries.metrics import gather
from netbisect.steps.service import stalls
from netbisect.steps.service.settings import Settings
from netbisect.steps.web.responses import ProtectedResource, send, send_not_found
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import load_lab

_BADGE_SECONDS = 60
_NUMBER = re.compile(r"[0-9]{1,9}")
_NUMBERED: Mapping[str, Callable[[DocumentQueries, int], Document]] = {
    "alert": DocumentQueries.alert,
    "comparison": DocumentQueries.comparison,
    "bisection": DocumentQueries.bisection,
}

Build = Callable[[Ledger, Settings, str], str | None]
"""Builds a document from the path below its resource; None for an unknown path."""


class DocumentResource(ProtectedResource):
    """A document built from the database."""

    def __init__(
        self, application: Application, media_type: str, build: Build, seconds: int = 0
    ) -> None:
        super().__init__(application)
        self._media_type = media_type
        self._build = build
        self._seconds = seconds

    async def respond(self, request: Request) -> None:
        path = "/".join(part.decode("utf-8", "replace") for part in request.postpath or ())
        settings = self.settings
        text = await self.query(lambda ledger: self._build(ledger, settings, path))
        if text is None:
            send_not_found(request, path)
        else:
            send(request, self._media_type, text, seconds=self._seconds)


def resources(application: Application) -> dict[bytes, DocumentResource]:
    """The resources by name."""
    return {
        b"overview.json": DocumentResource(application, "application/json", _overview),
        b"data": DocumentResource(application, "application/json", _data),
        b"metrics": DocumentResource(application, prometheus.MEDIA_TYPE, _metrics),
        b"feed.atom": DocumentResource(application, atom.MEDIA_TYPE, _feed),
        b"badges": DocumentResource(application, badge.MEDIA_TYPE, _badge, _BADGE_SECONDS),
    }


def _overview(ledger: Ledger, settings: Settings, _: str) -> str:
    lab = load_lab(settings.lab)
    return json_schema.as_text(DocumentQueries.of(ledger, settings, lab).status())


def _data(ledger: Ledger, settings: Settings, path: str) -> str | None:
    """`data/alert-7.json`, `data/comparison-7.json`, `data/bisection-7.json`."""
    kind, _, number = path.removesuffix(".json").rpartition("-")
    if kind not in _NUMBERED or not _NUMBER.fullmatch(number):
        return None
    try:
        return json_schema.as_text(
            _NUMBERED[kind](DocumentQueries.of(ledger, settings), int(number))
        )
    except StoreError:
        return None


def _metrics(ledger: Ledger, settings: Settings, _: str) -> str:
    return gather(ledger, load_lab(settings.lab), stalls.read(settings.state))


def _feed(ledger: Ledger, settings: Settings, _: str) -> str:
    return DocumentQueries.of(ledger, settings).atom()


def _badge(ledger: Ledger, settings: Settings, path: str) -> str | None:
    """`badges/BRANCH.svg` and `badges/BRANCH/TESTBED.svg`."""
    found = badges.conditions(ledger, settings.branches)
    place = badges.named(path.removesuffix(".svg"), found)
    if place is None or not path.endswith(".svg"):
        return None
    return badge.badge(badges.title(place), found[place])
