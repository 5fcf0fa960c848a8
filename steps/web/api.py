"""HTTP interface of the API: authentication, rate limits, dispatch and status codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from buildbot.www.authz import Forbidden
from buildbot.www.plugin import Application
from twisted.internet import defer
from twisted.python import log
from twisted.web import server
from twisted.web.server import Request

from netbisect.reports.documents import api, json_schema, openapi
from netbisect.steps.policy.request_spec import InvalidRequestError, PatchRightError
from netbisect.steps.requests import tokens
from netbisect.steps.requests.api import QueryError, RequestApi, UnresolvedRevisionError
from netbisect.steps.requests.api_bodies import BodyError
from netbisect.steps.requests.rate_limit import RateLimiter
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.database_thread import database_thread, open_history
from netbisect.steps.service.rights import MissingRightError, Right, User, parse_rights
from netbisect.steps.web.login import user_name, user_rights
from netbisect.steps.web.responses import ProtectedResource, is_same_origin, send
from netbisect.store.db.database import DatabaseError, NotFoundError, StoreError
from netbisect.store.git.history import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.lab import load_lab

_JSON = "application/json"
_VERBS = ("cancel", "resume", "extend", "priority")
_DIGITS = 9
"""Longest number of a request."""
_TRIES_PER_MINUTE = 20
"""Invalid tokens per address."""


class _RefusedError(Exception):
    """An error response."""

    def __init__(self, status: int, refusal: api.Refusal, **headers: str) -> None:
        super().__init__(refusal.error)
        self.status = status
        self.refusal = refusal
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


def _refuse(status: int, message: str, **headers: str) -> _RefusedError:
    return _RefusedError(status, api.Refusal(error=message, faults={}), **headers)


def _unauthorized(message: str, more: str = "") -> _RefusedError:
    return _refuse(401, message, www_authenticate=f'Bearer realm="netbisect"{more}')


class ApiResource(ProtectedResource):
    """`api/v1`."""

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self._limiter: RateLimiter | None = None
        self._tries = RateLimiter(_TRIES_PER_MINUTE)

    def render(self, request: Request) -> int:
        done = defer.ensureDeferred(self.respond(request))
        done.addErrback(lambda failure: log.err(failure, "netbisect's API"))
        return int(server.NOT_DONE_YET)

    async def respond(self, request: Request) -> None:
        closed = request.notifyFinish()
        closed.addErrback(lambda _: None)
        try:
            document, status = await self._dispatch(request)
        except _RefusedError as error:
            document, status = json_schema.as_plain(error.refusal), error.status
            for name, text in error.headers.items():
                request.setHeader(name, text)
        except Exception:  # noqa: BLE001 - unexpected errors reveal nothing
            log.err(None, "netbisect's API")
            refusal = api.Refusal(error="internal error; see the log of the service", faults={})
            document, status = json_schema.as_plain(refusal), 500
        if closed.called:
            return
        request.setResponseCode(status)
        send(request, _JSON, json.dumps(document, indent=2, allow_nan=False) + "\n")

    async def _dispatch(self, request: Request) -> tuple[dict[str, Any], int]:
        path = tuple(part.decode("utf-8", "replace") for part in request.postpath or ())
        method = (request.method or b"").decode("ascii", "replace")
        if path == ("v1", "openapi.json") and method in ("GET", "HEAD"):
            return openapi.description(), 200
        if method == "POST":
            return await self._write(request, path)
        if method not in ("GET", "HEAD"):
            raise _refuse(405, "expected GET or POST", allow="GET, HEAD, POST")
        user = await self._caller(request)
        if user is None:
            await self._check_open_reading(request)
        query = _query(request)
        return await self._run(lambda ledger: _read(self._api(ledger), user, path, query))

    # ------------------------------------------------------------------------------ authentication

    async def _caller(self, request: Request) -> User | None:
        """Returns the user, or None for anonymous calls; applies the rate limit."""
        user = await self._user(request)
        most = self.settings.web.calls_per_minute
        if self._limiter is None or self._limiter.per_minute != most:
            self._limiter = RateLimiter(most)
        wait = self._limiter.wait(user.name if user else ("", _origin(request)))
        if wait:
            raise _refuse(429, f"too many calls; retry in {wait} s", retry_after=str(wait))
        return user

    async def _user(self, request: Request) -> User | None:
        """Authenticates by token or by login."""
        origin = _origin(request)
        shown = request.getHeader("authorization")
        if shown is None:
            info = self.application.master.www.getUserInfos(request)
            name = user_name(info)
            return User(name, user_rights(self.settings, info), "form", origin) if name else None
        scheme, _, text = shown.partition(" ")
        found = await self.query(lambda ledger: tokens.authenticate(ledger, text.strip()))
        if scheme.lower() != "bearer" or found is None:
            wait = self._tries.wait(origin)
            if wait:
                raise _refuse(429, f"too many tokens; retry in {wait} s", retry_after=str(wait))
            raise _unauthorized(
                "unknown, expired or revoked token; expected Authorization: Bearer netbisect-…",
                ', error="invalid_token"',
            )
        return User(found.who, parse_rights(found.rights), "api", origin)

    async def _check_open_reading(self, request: Request) -> None:
        try:
            www = self.application.master.www
            await www.assertUserAllowed(request, ("masters",), "get", {})
        except Forbidden:
            raise _unauthorized("reading needs a login or a token") from None

    # --------------------------------------------------------------------------------------- write

    async def _write(self, request: Request, path: tuple[str, ...]) -> tuple[dict[str, Any], int]:
        """Executes a POST; adds refused calls to the audit log."""
        match path:
            case ("v1", "requests"):
                number, verb = None, "ask"
            case ("v1", "requests", text, verb) if verb in _VERBS:
                number = _number(text)
            case _:
                raise _refuse(404, "not found")
        user = None
        try:
            user = caller = await self._caller(request)
            if caller is None:
                raise _unauthorized("asking needs a login or a token")
            _check_sender(request, caller, self.settings.web.url)
            assert request.content is not None
            content = request.content.read(openapi.MOST_BODY_BYTES + 1)
            result = await self._run(
                lambda ledger: _write(self._api(ledger), caller, verb, number, content), write=True
            )
        except _RefusedError as error:
            if error.status != _TOO_OFTEN:
                why, origin = error.refusal.error, _origin(request)
                await self.query(
                    lambda ledger: self._api(ledger).log_refusal(user, origin, verb, why, number)
                )
            raise
        if verb == "ask" and result[1] == _CREATED:
            url = f"{self.settings.web.url}{openapi.PREFIX}/requests/{result[0]['number']}"
            request.setHeader("location", url)
        return result

    def _api(self, ledger: Ledger) -> RequestApi:
        lab = load_lab(self.settings.lab)
        return RequestApi(
            RequestService(ledger, open_history(self.settings, lab), self.settings, lab)
        )

    async def _run(
        self, work: Callable[[Ledger], tuple[dict[str, Any], int]], *, write: bool = False
    ) -> tuple[dict[str, Any], int]:
        """Runs `work` in a database thread; converts its errors to responses."""
        try:
            return await database_thread(self.settings, slow=write).do(work)
        except _CLIENT_ERRORS as error:
            raise _refusal_of(error) from error
        except (DatabaseError, HistoryError) as error:
            log.err(error, "netbisect's API")
            raise _refuse(503, "database or tree unavailable") from error
        except StoreError as error:
            raise _refuse(409, str(error)) from error


_STATUS: dict[type[Exception], int] = {QueryError: 400, NotFoundError: 404, MissingRightError: 403}
_CLIENT_ERRORS: tuple[type[Exception], ...] = (
    *_STATUS,
    InvalidRequestError,
    UnresolvedRevisionError,
    BodyError,
)


def _refusal_of(error: Exception) -> _RefusedError:
    match error:
        case UnresolvedRevisionError(refusal=refusal):
            return _RefusedError(422, refusal)
        case InvalidRequestError(faults=faults):
            status = 403 if isinstance(error, PatchRightError) else 422
            return _RefusedError(status, api.Refusal(error=str(error), faults=faults))
        case BodyError(large=large):
            return _refuse(413 if large else 400, str(error))
        case _:
            return _refuse(_STATUS[type(error)], str(error))


_CREATED, _TOO_OFTEN = 201, 429


def _write(
    calls: RequestApi, user: User, verb: str, number: int | None, content: bytes
) -> tuple[dict[str, Any], int]:
    with calls.service.ledger.acting(user.origin):
        if number is not None:
            return json_schema.as_plain(getattr(calls, verb)(user, number, content)), 200
        result = calls.ask(user, content)
        return json_schema.as_plain(result), 200 if isinstance(
            result, api.CostEstimate
        ) else _CREATED


def _read(
    calls: RequestApi, user: User | None, path: tuple[str, ...], query: Mapping[str, str]
) -> tuple[dict[str, Any], int]:
    found: Any
    match path:
        case ("v1", "caller"):
            rights = sorted(right.value for right in Right if user and user.has_right(right))
            found = api.Caller(who=user.name if user else "", rights=tuple(rights))
        case ("v1", "requests"):
            found = calls.requests(dict(query))
        case ("v1", "requests", text):
            found = calls.request(_number(text))
        case ("v1", "requests", text, "log"):
            found = calls.log(_number(text))
        case ("v1", "revisions"):
            found = calls.revision(dict(query))
        case ("v1", "audit"):
            if user is None:
                raise _unauthorized("the audit log needs a token")
            user.require(Right.ADMIN, "the audit log")
            found = calls.audit(dict(query))
        case _:
            raise _refuse(404, "not found")
    return json_schema.as_plain(found), 200


def _check_sender(request: Request, user: User, url: str) -> None:
    """Rejects requests of web pages of other origins."""
    kind = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise _refuse(415, f"expected Content-Type: {_JSON}")
    origin = request.getHeader("origin")
    if origin is not None and not is_same_origin(request, url):
        raise _refuse(403, "cross-origin request")
    if origin is None and user.via == "form":
        raise _refuse(403, "expected an Origin header, or a token")


def _origin(request: Request) -> str:
    return str(request.getClientAddress().host)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS or text.startswith("0"):
        raise _refuse(404, "no such request")
    return int(text)


def _query(request: Request) -> dict[str, str]:
    found = {}
    for name, values in (request.args or {}).items():
        try:
            key = name.decode("utf-8")
            [text] = [value.decode("utf-8") for value in values]
        except ValueError:
            raise _refuse(400, "expected each parameter once, in UTF-8") from None
        found[key] = text
    return found
