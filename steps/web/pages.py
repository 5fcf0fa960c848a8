"""The pages of the service."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from buildbot.www.plugin import Application
from twisted.internet import defer, threads
from twisted.web import http, server
from twisted.web.server import Request

from netbisect.steps.policy.alert_actions import AlertActionError, act
from netbisect.steps.service.compute import RemoteModule
from netbisect.steps.service.rights import MissingRightError, Right, User
from netbisect.steps.service.settings import Settings
from netbisect.steps.site.source import SiteSource
from netbisect.steps.web.login import user_name, user_rights
from netbisect.steps.web.responses import ProtectedResource, fail, is_same_origin, send
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import load_lab

_live = RemoteModule("netbisect.steps.site.live")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}[.](html|json|svg)")
_ALERT = re.compile(r"alert-[1-9][0-9]{0,8}[.]html")
_LONGEST = 200
"""Characters of a name in a search."""
_TYPES = {"html": "text/html", "json": "application/json", "svg": "image/svg+xml"}
_one_at_a_time = defer.DeferredLock()
"""Requests that wait for the compute process take no thread."""


def is_page(name: str) -> bool:
    """Whether a page may have this name."""
    return _NAME.fullmatch(name) is not None


def page_resource(application: Application, name: str) -> PageResource:
    """The resource of a page."""
    kind = AlertResource if _ALERT.fullmatch(name) else PageResource
    return kind(application, name)


def source_of(settings: Settings) -> SiteSource:
    """What the pages of a service are about."""
    lab = load_lab(settings.lab)
    return SiteSource(settings.database, settings.links.commit, lab, settings.min_effect, settings)


def _builds(settings: Settings) -> str:
    """Address of Buildbot's own pages."""
    return f"{settings.web.url}#/builders"


async def _in_turn(work: Callable[[], Any]) -> Any:
    """Runs a call of the compute process in a thread, after those before it."""
    async with _one_at_a_time:
        return await threads.deferToThread(work)


async def _refuse(request: Request, status: int, settings: Settings, title: str, why: str) -> None:
    """Sends a page that says why something was not done."""
    text = await _in_turn(lambda: _live.refusal(title, why, _builds(settings)))
    request.setResponseCode(status)
    send(request, "text/html", text)


class PageResource(ProtectedResource):
    """A page, or another file about the same; rendered in the compute process."""

    def __init__(self, application: Application, name: str) -> None:
        super().__init__(application)
        self.name = name

    async def respond(self, request: Request) -> None:
        settings = self.settings
        text = await _in_turn(lambda: _live.file(source_of(settings), self.name, _builds(settings)))
        if text is None:
            why = f"There is no page {self.name}."
            await _refuse(request, http.NOT_FOUND, settings, "Not found", why)
        else:
            send(request, _TYPES[self.name.rpartition(".")[2]], text)


class AlertResource(PageResource):
    """The page of an alert, with the form that changes its state."""

    def render_POST(self, request: Request) -> int:
        defer.ensureDeferred(self._change(request)).addErrback(fail, request)
        return int(server.NOT_DONE_YET)

    async def _change(self, request: Request) -> None:
        try:
            user = self._user(request)
            await self.query(lambda ledger: self._act(ledger, user, _fields(request)))
        except (AlertActionError, MissingRightError, StoreError) as error:
            status = http.CONFLICT if isinstance(error, StoreError) else http.FORBIDDEN
            await _refuse(request, status, self.settings, "Not changed", str(error))
            return
        request.setResponseCode(http.SEE_OTHER)
        request.setHeader(b"location", self.name.encode())
        request.finish()

    def _user(self, request: Request) -> User:
        """Who sent the form.

        Raises:
            AlertActionError: The user is not logged in, or the form is from another server.
            MissingRightError: The user may not.
        """
        info = self.application.master.www.getUserInfos(request)
        name = user_name(info)
        if not name:
            raise AlertActionError("changing an alert needs a login")
        if not is_same_origin(request, self.settings.web.url):
            raise AlertActionError("cross-origin request")
        origin = str(request.getClientAddress().host)
        user = User(name, user_rights(self.settings, info), "form", origin)
        user.require(Right.ASK, "changing an alert")
        return user

    def _act(self, ledger: Ledger, user: User, given: Mapping[str, str]) -> None:
        number = int(self.name.removeprefix("alert-").partition(".")[0])
        verb, why, until = (given.get(one, "") for one in ("verb", "why", "until"))
        with ledger.acting(user.origin):
            act(ledger, number, verb, who=user.name, why=why, until=until)


def _fields(request: Request) -> dict[str, str]:
    """The fields of a form."""
    return {
        name.decode("utf-8", "replace"): values[0].decode("utf-8", "replace")
        for name, values in (request.args or {}).items()
    }


class SearchResource(ProtectedResource):
    """`search?q=REVISION`, and `search?q=BEFORE&q=AFTER`: leads to the page about them."""

    async def respond(self, request: Request) -> None:
        given = (request.args or {}).get(b"q", [b""])[:2]
        names = [one.decode("utf-8", "replace")[:_LONGEST] for one in given]
        settings = self.settings
        page, why = await _in_turn(lambda: _live.search(source_of(settings), names))
        if page:
            request.setResponseCode(http.SEE_OTHER)
            request.setHeader(b"location", page.encode())
            request.finish()
        else:
            await _refuse(request, http.NOT_FOUND, settings, "Not found", why)
