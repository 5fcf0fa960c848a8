"""The pages of the service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from buildbot.www.plugin import Application
from twisted.internet import defer, threads
from twisted.python import log
from twisted.web import http, server
from twisted.web.server import Request

from netbisect.reports.documents import api
from netbisect.reports.model import types
from netbisect.steps.policy.alert_actions import AlertActionError, act
from netbisect.steps.requests.api import REFUSALS, log_refusal, write_json
from netbisect.steps.requests.rate_limit import RateLimiter
from netbisect.steps.requests.service import RequestService, cost_text
from netbisect.steps.service.compute import RemoteModule
from netbisect.steps.service.database_thread import database_thread
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.settings import Settings
from netbisect.steps.web.login import client_network, logged_in_user
from netbisect.steps.web.responses import ProtectedResource, fail, has_gone, is_same_origin, send
from netbisect.store.db.database import StoreError
from netbisect.store.ledger import Ledger

_live = RemoteModule("netbisect.steps.site.live")
_LONGEST = 200
"""Characters of a name in a message or a search."""
_SEARCHES_PER_MINUTE = 20
"""By network: a search may take seconds, in which no other page is rendered."""
_LISTS = ("subjects", "testbeds", "scenarios", "tunables")
_TEXTS = ("kind", "branch", "priority", "address")
_NUMBERS = ("boots", "margin_percent", "hours")
_FLAGS = ("repeat", "fresh", "dry_run")
"""Fields of a new request."""
_TYPES = {"html": "text/html", "json": "application/json", "svg": "image/svg+xml"}
_TITLES = {http.NOT_FOUND: "Not found", HTTPStatus.TOO_MANY_REQUESTS: "Too many searches"}
_one_at_a_time = defer.DeferredLock()
"""Requests that wait for the compute process take no thread."""
_reading_ahead = defer.DeferredLock()


def page_resource(application: Application, name: str) -> PageResource:
    """The resource of a page, which need not exist."""
    kinds = (kind for pattern, kind in _WITH_FORMS if pattern.fullmatch(name))
    return next(kinds, PageResource)(application, name)


async def _in_turn(work: Callable[[], Any]) -> Any:
    """Runs a call of the compute process in a thread, after those before it."""
    async with _one_at_a_time:
        return await threads.deferToThread(work)


async def _read_ahead(settings: Settings) -> None:
    """Reads the series that the overview lacks, in turn with other pages."""
    if not _reading_ahead.locked:
        async with _reading_ahead:
            while await _in_turn(lambda: _live.unread(settings)):
                pass


async def _send_message(
    request: Request, settings: Settings, title: str, text: str, **options: Any
) -> None:
    """Sends a page with a sentence; `options` as in `frame.message`."""
    page = await _in_turn(lambda: _live.message(settings, title, text, **options))
    send(request, "text/html", page)


async def _refuse(
    request: Request, status: int, settings: Settings, why: str, *, login: bool = False
) -> None:
    """Sends a page that says why something was not done; `login`: whether a login may help."""
    request.setResponseCode(status)
    title = _TITLES.get(status, "Not changed")
    await _send_message(request, settings, title, why, login=login)


def _redirect(request: Request, page: str) -> None:
    if not has_gone(request):
        request.setResponseCode(http.SEE_OTHER)
        request.setHeader(b"location", page.encode())
        request.finish()


class PageResource(ProtectedResource):
    """A page, or another file about the same; rendered in the compute process."""

    def __init__(self, application: Application, name: str) -> None:
        super().__init__(application)
        self.name = name

    async def respond(self, request: Request) -> None:
        settings = self.settings
        text = await _in_turn(lambda: _live.file(settings, self.name))
        if text is None:
            why = f"There is no page {self.name[:_LONGEST]}."
            await _refuse(request, http.NOT_FOUND, settings, why)
        else:
            send(request, _TYPES[self.name.rpartition(".")[2]], text)
        if self.name == "index.html":  # the next request reports an error
            defer.ensureDeferred(_read_ahead(settings)).addErrback(lambda why: log.msg(why.value))


class FormResource(PageResource):
    """A page with forms."""

    doing: str
    """Purpose of the form, for error messages."""

    def render_POST(self, request: Request) -> int:
        defer.ensureDeferred(self._change(request)).addErrback(fail, request)
        return int(server.NOT_DONE_YET)

    async def _change(self, request: Request) -> None:
        try:
            user = self._user(request)
            found = await database_thread(self.settings, "requests").do(
                lambda ledger: self.act(ledger, user, _fields(request))
            )
        except (FormError, AlertActionError, *REFUSALS) as error:
            status = http.CONFLICT if isinstance(error, StoreError) else http.FORBIDDEN
            login = isinstance(error, LoginNeededError)
            await _refuse(request, status, self.settings, str(error), login=login)
            return
        if isinstance(found, api.CostEstimate):
            text, table = "Nothing is queued; go back to submit the request.", cost_text(found)
            await _send_message(request, self.settings, "Cost of the request", text, table=table)
        else:
            _redirect(request, found)

    def _user(self, request: Request) -> User:
        """The user who sent the form. Raises FormError and MissingRightError."""
        user = logged_in_user(self.application.master, self.settings, request)
        if user is None:
            raise LoginNeededError(f"{self.doing} needs a login")
        if not is_same_origin(request, self.settings.web.url):
            raise FormError("cross-origin request")
        user.require(Right.ASK, self.doing)
        return user

    def act(self, ledger: Ledger, user: User, given: Mapping[str, str]) -> str | api.CostEstimate:
        """Executes the form; returns the name of the next page, or a cost."""
        raise NotImplementedError

    def write(
        self, ledger: Ledger, user: User, verb: str, number: int | None, body: Mapping[str, Any]
    ) -> types.RequestDocument | api.CostEstimate:
        """Executes a call of the API; adds a refused one to the audit log."""
        service = RequestService.of(ledger, self.settings)
        try:
            return write_json(service, user, verb, number, json.dumps(body).encode())
        except REFUSALS as error:
            log_refusal(ledger, user, verb, str(error), number)
            raise


class FormError(Exception):
    """A form that is not accepted."""


class LoginNeededError(FormError):
    """A form of a user who is not logged in."""


class AlertResource(FormResource):
    """The page of an alert, with the form that changes its state."""

    doing = "changing an alert"

    def act(self, ledger: Ledger, user: User, given: Mapping[str, str]) -> str:
        number = int(self.name.removeprefix("alert-").partition(".")[0])
        verb, why, until = (given.get(one, "") for one in ("verb", "why", "until"))
        with ledger.acting(user.origin):
            act(ledger, number, verb, who=user.name, why=why, until=until)
        return self.name


class RequestResource(FormResource):
    """The page of a request, with the forms that change it."""

    doing = "changing a request"

    def act(self, ledger: Ledger, user: User, given: Mapping[str, str]) -> str:
        number = int(self.name.removeprefix("request-").partition(".")[0])
        numbers = {one: _number(given[one]) for one in ("boots", "hours") if given.get(one)}
        verb = given.get("verb", "")
        bodies: dict[str, dict[str, Any]] = {
            "cancel": {"why": given.get("why", "")},
            "resume": {},
            "extend": numbers,
        }
        if verb not in bodies:
            raise FormError(f"{verb}: expected cancel, extend or resume")
        self.write(ledger, user, verb, number, bodies[verb])
        return self.name


class NewRequestResource(FormResource):
    """The form of a new request; also takes that of an alert."""

    doing = "asking"

    def act(self, ledger: Ledger, user: User, given: Mapping[str, str]) -> str | api.CostEstimate:
        found = self.write(ledger, user, "ask", None, _request_body(given))
        return found if isinstance(found, api.CostEstimate) else f"request-{found.number}.html"


def _request_body(given: Mapping[str, str]) -> dict[str, Any]:
    """Converts the fields of a form to a body of the API; empty fields are left out."""
    given = {name: text for name, text in given.items() if text.strip()}
    found: dict[str, Any] = {
        **{name: given[name].split() for name in _LISTS if name in given},
        **{name: given[name].strip() for name in _TEXTS if name in given},
        **{name: _number(given[name]) for name in _NUMBERS if name in given},
        **{name: True for name in _FLAGS if name in given},
    }
    if "diff" in given:
        found["patches"] = [{"diff": given["diff"].replace("\r\n", "\n")}]
    return found


def _number(text: str) -> float | str:
    """A number; other text as it is, which `parse_body` rejects."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


_WITH_FORMS = (
    (re.compile(r"alert-[1-9][0-9]{0,8}[.]html"), AlertResource),
    (re.compile(r"request-[1-9][0-9]{0,8}[.]html"), RequestResource),
    (re.compile(r"new-request[.]html"), NewRequestResource),
)


def _fields(request: Request) -> dict[str, str]:
    """The fields of a form; blanks separate several values of a field."""
    return {
        name.decode("utf-8", "replace"): b" ".join(values).decode("utf-8", "replace")
        for name, values in (request.args or {}).items()
    }


class SearchResource(ProtectedResource):
    """`search?q=REVISION`, and `search?q=BEFORE&q=AFTER`: leads to the page about them."""

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self._limiter = RateLimiter(_SEARCHES_PER_MINUTE)

    async def respond(self, request: Request) -> None:
        if wait := self._limiter.wait(client_network(str(request.getClientAddress().host))):
            request.setHeader(b"retry-after", str(wait).encode())
            why = f"Too many searches; retry in {wait} s."
            await _refuse(request, HTTPStatus.TOO_MANY_REQUESTS, self.settings, why)
            return
        given = (request.args or {}).get(b"q", [b""])[:2]
        names = [one.decode("utf-8", "replace")[:_LONGEST] for one in given]
        settings = self.settings
        page, why = await _in_turn(lambda: _live.search(settings, names))
        if page:
            _redirect(request, page)
        else:
            await _refuse(request, http.NOT_FOUND, settings, why)
