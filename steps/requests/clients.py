"""Clients of `netbisect request`: the local database, or a server's API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from netbisect.reports.documents import api, types
from netbisect.steps.policy.request_spec import PatchFile, RequestSpec
from netbisect.steps.requests.api import RequestApi
from netbisect.steps.requests.http_client import ApiConnection
from netbisect.steps.requests.service import RequestService


class RequestClient(Protocol):
    """Submits, reads and changes requests.

    The local client raises InvalidRequestError and StoreError, the HTTP client ServerError.
    """

    @property
    def poll_seconds(self) -> float:
        """Interval of polling while waiting for a result."""

    def cost(self, spec: RequestSpec) -> api.CostEstimate: ...

    def ask(self, spec: RequestSpec) -> types.RequestDocument: ...

    def show(self, number: int) -> types.RequestDocument: ...

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        """Lists requests, newest first; of the caller if `who` is not None."""

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        """Cancels, resumes, extends or reprioritizes a request."""

    def audit(self, after: int, limit: int) -> api.Audit:
        """Reads the audit log, oldest entry first."""


@dataclass(frozen=True)
class LocalClient(RequestClient):
    """Uses the local database; needs no rights."""

    service: RequestService
    poll_seconds = 1.0

    def cost(self, spec: RequestSpec) -> api.CostEstimate:
        self.service.history.update()
        return self.service.estimate(spec)

    def ask(self, spec: RequestSpec) -> types.RequestDocument:
        self.service.history.update()
        return self.show(self.service.ask(spec).id)

    def show(self, number: int) -> types.RequestDocument:
        return RequestApi(self.service).request(number)

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        query = {"who": who} if who is not None else {}
        return RequestApi(self.service).requests(query | _state(everything=everything)).requests

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        if verb == "priority":
            self.service.set_priority(number, data["priority"], who=who)
        else:
            getattr(self.service, verb)(number, who=who, **data)

    def audit(self, after: int, limit: int) -> api.Audit:
        return RequestApi(self.service).audit({"after": str(after), "limit": str(limit)})


@dataclass(frozen=True)
class HttpClient(RequestClient):
    """Uses a server's API; the token identifies the caller."""

    server: ApiConnection
    poll_seconds = 10.0

    def cost(self, spec: RequestSpec) -> api.CostEstimate:
        return self.server.post("requests", api.CostEstimate, _body(spec) | {"dry_run": True})

    def ask(self, spec: RequestSpec) -> types.RequestDocument:
        return self.server.post("requests", types.RequestDocument, _body(spec))

    def show(self, number: int) -> types.RequestDocument:
        return self.server.get(f"requests/{number}", types.RequestDocument)

    def list(self, *, who: str | None, everything: bool) -> Sequence[api.RequestLine]:
        query = {}
        if who is not None:
            query["who"] = self.server.get("caller", api.Caller).who
        query |= _state(everything=everything)
        return self.server.get("requests", api.RequestList, query).requests

    def change(self, verb: str, number: int, who: str, **data: Any) -> None:
        self.server.post(f"requests/{number}/{verb}", types.RequestDocument, data)

    def audit(self, after: int, limit: int) -> api.Audit:
        query = {"after": str(after), "limit": str(limit)}
        return self.server.get("audit", api.Audit, query)


def _state(*, everything: bool) -> dict[str, str]:
    return {} if everything else {"state": "open"}


def _body(spec: RequestSpec) -> dict[str, Any]:
    """The JSON body of a request, without unset fields."""
    plain = asdict(spec)
    for name in ("who", "via", "may_patch", "patches"):
        del plain[name]
    patches = [_patch(one) for one in spec.patches]
    return {key: value for key, value in plain.items() if value is not None} | {"patches": patches}


def _patch(one: PatchFile) -> dict[str, str]:
    return {"base64": base64.b64encode(one.data).decode(), "base": one.base}
