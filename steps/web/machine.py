"""Answers for programs: documents, the feed and badges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from twisted.web.server import Request

from netbisect.reports import badge, feed, metrics, schema
from netbisect.reports.documents import Document
from netbisect.steps import badges
from netbisect.steps.documents import Desk
from netbisect.steps.metrics import gather
from netbisect.steps.web.answers import Guarded, not_found, send
from netbisect.store.database import StoreError
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import load_lab

_JSON = "application/json"
_BADGE_SECONDS = 60
_NUMBER = re.compile(r"[0-9]{1,9}")
_NUMBERED: Mapping[str, Callable[[Desk, int], Document]] = {
    "alert": Desk.alert,
    "comparison": Desk.comparison,
    "bisection": Desk.bisection,
}


class Overview(Guarded):
    """`overview.json`."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with a Status."""

        async def answer(request: Request) -> None:
            told = await self.ask(lambda ledger: Desk.of(ledger, self.settings).status())
            send(request, _JSON, schema.as_text(told))

        return self.guarded(request, answer)


class Data(Guarded):
    """`data/alert-7.json`, and so for comparisons and bisections."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with that document."""

        async def answer(request: Request) -> None:
            name = _name(request)
            told = await self.ask(lambda ledger: self._told(ledger, name))
            if told is None:
                not_found(request, f"There is no {name}.")
            else:
                send(request, _JSON, told)

        return self.guarded(request, answer)

    def _told(self, ledger: Ledger, name: str) -> str | None:
        kind, _, number = name.removesuffix(".json").rpartition("-")
        if kind not in _NUMBERED or not _NUMBER.fullmatch(number):
            return None
        try:
            return schema.as_text(_NUMBERED[kind](Desk.of(ledger, self.settings), int(number)))
        except StoreError:
            return None


class Feed(Guarded):
    """`feed.atom`."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with the alerts."""

        async def answer(request: Request) -> None:
            told = await self.ask(lambda ledger: Desk.of(ledger, self.settings).atom())
            send(request, feed.MEDIA_TYPE, told)

        return self.guarded(request, answer)


class Metrics(Guarded):
    """`metrics`."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with the figures for Prometheus."""

        async def answer(request: Request) -> None:
            lab = load_lab(self.settings.lab)
            told = await self.ask(lambda ledger: gather(ledger, lab))
            send(request, metrics.MEDIA_TYPE, told)

        return self.guarded(request, answer)


class Badges(Guarded):
    """`badges/<branch>.svg` and `badges/<branch>/<testbed>.svg`."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        """Answers with a picture."""

        async def answer(request: Request) -> None:
            name = _name(request)
            wanted = name.removesuffix(".svg")
            found = await self.ask(lambda ledger: badges.conditions(ledger, self.settings.branches))
            place = badges.named(wanted, found)
            if place is None or not name.endswith(".svg"):
                not_found(request, f"There is no badge {name}.")
            else:
                told = badge.badge(badges.title(place), found[place])
                send(request, badge.MEDIA_TYPE, told, seconds=_BADGE_SECONDS)

        return self.guarded(request, answer)


def _name(request: Request) -> str:
    """What stands behind the name of the resource."""
    parts = [part.decode("utf-8", "replace") for part in request.postpath or ()]
    return "/".join(parts)
