"""HTTP interface of the API: authentication, rate limits, dispatch and status codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
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
from netbisect.steps.requests.api import BODIES, log_refusal, number_of, read, write_json
from netbisect.steps.requests.api_bodies import CallError
from netbisect.steps.requests.rate_limit import RateLimiter
from netbisect.steps.requests.service import RequestService
from netbisect.steps.service.database_thread import Purpose, database_thread
from netbisect.steps.service.rights import MissingRightError, User, parse_rights
from netbisect.steps.web.login import client_network, logged_in_user
from netbisect.steps.web.responses import LAB_FILE, ProtectedResource, is_same_origin, send
from netbisect.store.db.database import DatabaseError, NotFoundError, StoreError
from netbisect.store.git.history import HistoryError
from netbisect.store.ledger import Ledger
from netbisect.workers.config.toml import FileError

_JSON = "application/json"
_TRIES_PER_MINUTE = 20
"""Invalid tokens per network."""


def _unauthorized(message: str, more: str = "") -> CallError:
    return CallError(401, message, {"www-authenticate": f'Bearer realm="netbisect"{more}'})


def _limit(limiter: RateLimiter, caller: Hashable, what: str) -> None:
    if wait := limiter.wait(caller):
        raise CallError(429, f"too many {what}; retry in {wait} s", {"retry-after": str(wait)})


class ApiResource(ProtectedResource):
    """`api/v1`."""

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        self._limiter = RateLimiter(self.settings.web.calls_per_minute)
        self._tries = RateLimiter(_TRIES_PER_MINUTE)

    def render(self, request: Request) -> int:
        done = defer.ensureDeferred(self.respond(request))
        done.addErrback(lambda failure: log.err(failure, "netbisect's API"))
        return int(server.NOT_DONE_YET)

    async def respond(self, request: Request) -> None:
        try:
            document, status = await self._dispatch(request)
        except CallError as error:
            document, status = json_schema.as_plain(error.refusal), error.status
            for name, text in error.headers.items():
                request.setHeader(name, text)
        except Exception:  # noqa: BLE001 - unexpected errors reveal nothing
            log.err(None, "netbisect's API")
            refusal = api.Refusal(error="internal error; see the log of the service", faults={})
            document, status = json_schema.as_plain(refusal), 500
        request.setResponseCode(status)
        send(request, _JSON, json.dumps(document, indent=2, allow_nan=False) + "\n")

    async def _dispatch(self, request: Request) -> tuple[dict[str, Any], int]:
        version, *path = [part.decode("utf-8", "replace") for part in request.postpath or (b"",)]
        method = (request.method or b"").decode("ascii", "replace")
        if method not in ("GET", "HEAD", "POST"):
            raise CallError(405, "expected GET or POST", {"allow": "GET, HEAD, POST"})
        if version != "v1":
            raise CallError(404, "not found")
        if method == "POST":
            return await self._write(request, path)
        if path == ["openapi.json"]:
            return openapi.description(), 200
        user = await self._caller(request)
        if user is None:
            await self._check_open_reading(request)
            if path == ["audit"]:
                raise _unauthorized("the audit log needs a token")
        query = _query(request)
        found = await self._run(
            lambda ledger: read(self._service(ledger), user, path, query),
            "revisions" if path == ["revisions"] else "reads",
        )
        return json_schema.as_plain(found), 200

    async def _caller(self, request: Request) -> User | None:
        """Returns the user, or None for anonymous calls; applies the rate limit."""
        user = await self._user(request)
        _limit(self._limiter, user.name if user else ("", _network(request)), "calls")
        return user

    async def _user(self, request: Request) -> User | None:
        """Authenticates by token or by login."""
        shown = request.getHeader("authorization")
        if shown is None:
            return logged_in_user(self.application.master, self.settings, request)
        scheme, _, text = shown.partition(" ")
        found = await self.query(lambda ledger: tokens.authenticate(ledger, text.strip()))
        if scheme.lower() != "bearer" or found is None:
            _limit(self._tries, _network(request), "tokens")
            raise _unauthorized(
                "unknown, expired or revoked token; expected Authorization: Bearer netbisect-…",
                ', error="invalid_token"',
            )
        origin = str(request.getClientAddress().host)
        return User(found.who, parse_rights(found.rights), "api", origin)

    async def _check_open_reading(self, request: Request) -> None:
        try:
            www = self.application.master.www
            await www.assertUserAllowed(request, ("masters",), "get", {})
        except Forbidden:
            raise _unauthorized("reading needs a login or a token") from None

    async def _write(self, request: Request, path: list[str]) -> tuple[dict[str, Any], int]:
        """Executes a POST; adds refused calls of users to the audit log."""
        match path:
            case ("requests",):
                number, verb = None, "ask"
            case ("requests", text, verb) if verb in BODIES and verb != "ask":
                number = number_of(text)
            case _:
                raise CallError(404, "not found")
        user = await self._caller(request)
        if user is None:
            raise _unauthorized("requests need a login or a token")
        try:
            _check_sender(request, user, self.settings.web.url)
            assert request.content is not None
            content = request.content.read()
            result = await self._run(
                lambda ledger: write_json(self._service(ledger), user, verb, number, content),
                "requests",
            )
        except CallError as error:
            why = error.refusal.error
            await self.query(lambda ledger: log_refusal(ledger, user, verb, why, number))
            raise
        status = 200
        if verb == "ask" and not isinstance(result, api.CostEstimate):
            status = 201
            url = f"{self.settings.web.url}{openapi.PREFIX}/requests/{result.number}"
            request.setHeader("location", url)
        return json_schema.as_plain(result), status

    def _service(self, ledger: Ledger) -> RequestService:
        return RequestService.of(ledger, self.settings)

    async def _run(self, work: Callable[[Ledger], Any], purpose: Purpose) -> Any:
        """Runs `work` in a database thread; converts its errors to responses."""
        try:
            return await database_thread(self.settings, purpose).do(work)
        except InvalidRequestError as error:
            status = 403 if isinstance(error, PatchRightError) else 422
            raise CallError(status, api.Refusal(error=str(error), faults=error.faults)) from error
        except MissingRightError as error:
            raise CallError(403, str(error)) from error
        except NotFoundError as error:
            raise CallError(404, str(error)) from error
        except (DatabaseError, HistoryError) as error:
            log.err(error, "netbisect's API")
            raise CallError(503, "database or tree unavailable") from error
        except FileError as error:
            log.msg(f"netbisect's API: {error}")
            raise CallError(503, LAB_FILE) from error
        except StoreError as error:
            raise CallError(409, str(error)) from error


def _check_sender(request: Request, user: User, url: str) -> None:
    """Rejects requests of web pages of other origins."""
    kind = (request.getHeader("content-type") or "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise CallError(415, f"expected Content-Type: {_JSON}")
    origin = request.getHeader("origin")
    if origin is not None and not is_same_origin(request, url):
        raise CallError(403, "cross-origin request")
    if origin is None and user.via == "form":
        raise CallError(403, "expected an Origin header, or a token")


def _network(request: Request) -> str:
    return client_network(str(request.getClientAddress().host))


def _query(request: Request) -> dict[str, str]:
    found = {}
    for name, values in (request.args or {}).items():
        try:
            key = name.decode("utf-8")
            [text] = [value.decode("utf-8") for value in values]
        except ValueError:
            raise CallError(400, "expected each parameter once, in UTF-8") from None
        found[key] = text
    return found
