"""The API on the web: who calls, what for, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from buildbot.www.authz import Forbidden
from buildbot.www.plugin import Application
from twisted.internet import defer
from twisted.python import log
from twisted.web import server
from twisted.web.server import Request

from netbisect.reports import api, openapi, schema
from netbisect.steps import tokens
from netbisect.steps.api_bodies import BodyError
from netbisect.steps.api_calls import Calls, NoRevisionError, QueryError
from netbisect.steps.limits import Limiter
from netbisect.steps.login import name_of, user_rights
from netbisect.steps.memory import Memory, history_of, memory
from netbisect.steps.requests import Desk
from netbisect.steps.rights import Person, Right, RightError, rights_of
from netbisect.steps.web.answers import Guarded, send
from netbisect.steps.wish import NoPatchError, WishError
from netbisect.store.database import AbsentError, StoreError, TroubleError
from netbisect.store.history import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.lab import load_lab

_JSON = "application/json"
_VERBS = ("cancel", "resume", "extend", "priority")
_DIGITS = 9
"""Of the number of a request, at most."""
_TRIES_PER_MINUTE = 20
"""With tokens that are none, from one address."""


class _RefusedError(Exception):
    """An answer that is none of the good ones."""

    def __init__(self, status: int, told: api.Refusal, **headers: str) -> None:
        super().__init__(told.error)
        self.status = status
        self.told = told
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


def _refuse(status: int, sentence: str, **headers: str) -> _RefusedError:
    return _RefusedError(status, api.Refusal(error=sentence, faults={}), **headers)


class Api(Guarded):
    """`api/v1` and all below it."""

    isLeaf = True

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self._limiter: Limiter | None = None
        self._tries = Limiter(_TRIES_PER_MINUTE)
        self._asking: Memory | None = None

    def render(self, request: Request) -> int:
        """Answers every method: what is not there is said in the same form."""
        done = defer.ensureDeferred(self._answer(request))
        done.addErrback(lambda failure: log.err(failure, "netbisect's API"))
        return int(server.NOT_DONE_YET)

    async def _answer(self, request: Request) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # whoever has asked did not wait
        try:
            told, status = await self._told(request)
        except _RefusedError as error:
            told, status = schema.told(error.told), error.status
            for name, text in error.headers.items():
                request.setHeader(name, text)
        except Exception:  # noqa: BLE001 - of what nobody has thought nothing is told
            log.err(None, "netbisect's API")
            refusal = api.Refusal(error="the service failed; its log says how", faults={})
            told, status = schema.told(refusal), 500
        if gone.called:
            return
        request.setResponseCode(status)
        send(request, _JSON, json.dumps(told, indent=2, allow_nan=False) + "\n")

    async def _told(self, request: Request) -> tuple[dict[str, Any], int]:
        path = tuple(part.decode("utf-8", "replace") for part in request.postpath or ())
        method = (request.method or b"").decode("ascii", "replace")
        if path == ("v1", "openapi.json") and method in ("GET", "HEAD"):
            return openapi.description(), 200
        if method == "POST":
            return await self._write(request, path)
        if method not in ("GET", "HEAD"):
            raise _refuse(405, "GET or POST expected", allow="GET, HEAD, POST")
        person = await self._caller(request)
        if person is None:
            await self._reading(request)
        query = _query(request)
        return await self._careful(lambda ledger: _look(self._calls(ledger), person, path, query))

    # --------------------------------------------------------------------------------- who asks

    async def _caller(self, request: Request) -> Person | None:
        """Who asks, and not too often; None for nobody in particular."""
        person = await self._person(request)
        most = self.settings.web.calls_per_minute
        if self._limiter is None or self._limiter.per_minute != most:
            self._limiter = Limiter(most)
        wait = self._limiter.wait(person.who if person else ("", _origin(request)))
        if wait:
            raise _refuse(429, f"too often; again in {wait} seconds", retry_after=str(wait))
        return person

    async def _person(self, request: Request) -> Person | None:
        """By token, or by the login of Buildbot's pages; None for nobody in particular."""
        origin = _origin(request)
        shown = request.getHeader("authorization")
        if shown is None:
            user = self.application.master.www.getUserInfos(request)
            who = name_of(user)
            if not who:
                return None
            return Person(who, user_rights(self.settings, user), "form", origin)
        scheme, _, text = shown.partition(" ")
        found = await self.ask(lambda ledger: tokens.known(ledger, text.strip()))
        if scheme.lower() != "bearer" or found is None:
            wait = self._tries.wait(origin)
            if wait:
                raise _refuse(429, f"too many tokens; again in {wait} s", retry_after=str(wait))
            raise _refuse(
                401,
                "a token expected that is known, and has neither ended nor been revoked: "
                "Authorization: Bearer netbisect-…",
                www_authenticate='Bearer realm="netbisect", error="invalid_token"',
            )
        return Person(found.who, rights_of(found.rights), "api", origin)

    async def _reading(self, request: Request) -> None:
        """Goes on where anybody may read."""
        try:
            www = self.application.master.www
            await www.assertUserAllowed(request, ("masters",), "get", {})
        except Forbidden:
            raise _refuse(
                401, "reading needs a login or a token", www_authenticate='Bearer realm="netbisect"'
            ) from None

    # ---------------------------------------------------------------------------------- writing

    async def _write(self, request: Request, path: tuple[str, ...]) -> tuple[dict[str, Any], int]:
        """Does what is asked for, and writes down what was refused."""
        match path:
            case ("v1", "requests"):
                number, verb = None, "ask"
            case ("v1", "requests", text, verb) if verb in _VERBS:
                number = _number(text)
            case _:
                raise _refuse(404, "there is nothing of that name")
        person = None
        try:
            person = who = await self._caller(request)
            if who is None:
                raise _refuse(
                    401,
                    "asking needs a login or a token",
                    www_authenticate='Bearer realm="netbisect"',
                )
            _check_sender(request, who, self.settings.web.url)
            assert request.content is not None
            content = request.content.read(openapi.MOST_BODY_BYTES + 1)
            told = await self._careful(
                lambda ledger: _do(self._calls(ledger), who, verb, number, content), write=True
            )
        except _RefusedError as error:
            if error.status != _TOO_OFTEN:
                why, origin = error.told.error, _origin(request)
                await self.ask(
                    lambda ledger: self._calls(ledger).refused(person, origin, verb, why, number)
                )
            raise
        if verb == "ask" and told[1] == _CREATED:
            place = f"{self.settings.web.url}{openapi.PREFIX}/requests/{told[0]['number']}"
            request.setHeader("location", place)
        return told

    # ---------------------------------------------------------------------------- what comes of it

    def _calls(self, ledger: Ledger) -> Calls:
        lab = load_lab(self.settings.lab)
        return Calls(Desk(ledger, history_of(self.settings, lab), self.settings, lab))

    async def _careful(
        self, work: Callable[[Ledger], tuple[dict[str, Any], int]], *, write: bool = False
    ) -> tuple[dict[str, Any], int]:
        """What `work` tells; what people can mend becomes a refusal."""
        if self._asking is None or self._asking.settings is not self.settings:
            self._asking = Memory(self.settings)
        # Whoever asks may have a review fetched: the service's own thread does not wait for it.
        place = self._asking if write else memory(self.settings)
        try:
            return await place.do(work)
        except _MENDED as error:
            raise _refusal_of(error) from error
        except (TroubleError, HistoryError) as error:
            log.err(error, "netbisect's API")
            raise _refuse(503, "the database or the tree cannot be used now") from error
        except StoreError as error:
            raise _refuse(409, str(error)) from error


_STATUS: dict[type[Exception], int] = {QueryError: 400, AbsentError: 404, RightError: 403}


_MENDED: tuple[type[Exception], ...] = (*_STATUS, WishError, NoRevisionError, BodyError)


def _refusal_of(error: Exception) -> _RefusedError:
    """What people can mend, as an answer."""
    match error:
        case NoRevisionError(told=told):
            return _RefusedError(422, told)
        case WishError(faults=faults):
            status = 403 if isinstance(error, NoPatchError) else 422
            return _RefusedError(status, api.Refusal(error=str(error), faults=faults))
        case BodyError(large=large):
            return _refuse(413 if large else 400, str(error))
        case _:
            return _refuse(_STATUS[type(error)], str(error))


_CREATED, _TOO_OFTEN = 201, 429


def _do(
    calls: Calls, person: Person, verb: str, number: int | None, content: bytes
) -> tuple[dict[str, Any], int]:
    with calls.desk.ledger.acting(person.origin):
        if number is not None:
            return schema.told(calls.change(verb, person, number, content)), 200
        told = calls.ask(person, content)
        return schema.told(told), 200 if isinstance(told, api.Cost) else _CREATED


def _look(
    calls: Calls, person: Person | None, path: tuple[str, ...], query: Mapping[str, str]
) -> tuple[dict[str, Any], int]:
    found: Any
    match path:
        case ("v1", "caller"):
            rights = sorted(right.value for right in Right if person and person.may(right))
            found = api.Caller(who=person.who if person else "", rights=tuple(rights))
        case ("v1", "requests"):
            found = calls.requests(dict(query))
        case ("v1", "requests", text):
            found = calls.request(_number(text))
        case ("v1", "requests", text, "log"):
            found = calls.log(_number(text))
        case ("v1", "revisions"):
            found = calls.revision(dict(query))
        case ("v1", "audit"):
            if person is None:
                raise _refuse(
                    401, "the audit log needs a token", www_authenticate='Bearer realm="netbisect"'
                )
            person.need(Right.ADMIN, "the audit log")
            found = calls.audit(dict(query))
        case _:
            raise _refuse(404, "there is nothing of that name")
    return schema.told(found), 200


def _check_sender(request: Request, person: Person, url: str) -> None:
    """What a page of another origin could send with somebody's login is refused."""
    kind = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise _refuse(415, f"Content-Type: {_JSON} expected")
    origin = request.getHeader("origin")
    parts = urlsplit(url)
    if origin is not None and origin.lower() != f"{parts.scheme}://{parts.netloc}".lower():
        raise _refuse(403, "a page of another origin has sent this")
    if origin is None and person.via == "form":
        raise _refuse(403, "with a login of the pages an Origin is expected; a token needs none")


def _origin(request: Request) -> str:
    return str(request.getClientAddress().host)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS or text.startswith("0"):
        raise _refuse(404, "there is no such request")
    return int(text)


def _query(request: Request) -> dict[str, str]:
    found = {}
    for name, values in (request.args or {}).items():
        try:
            key = name.decode("utf-8")
            [text] = [value.decode("utf-8") for value in values]
        except ValueError:
            raise _refuse(400, "each parameter once, in UTF-8, expected") from None
        found[key] = text
    return found
